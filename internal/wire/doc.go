// Package wire is the outer layer of Kafka's protocol: frames, headers, and how values of kmsg become bytes and back.
//
// It owns reading a frame, request and response headers, the guard before decoding, the way from an error to a Kafka error
// code, and the one message codec that kmsg does not do well enough: the Fetch response, whose records go from a file to a
// socket without passing through memory. It does not own connections (server, peer) or which APIs and versions are served
// (api).
//
// Invariants:
//  1. Memory follows bytes received: no declared length and no declared count makes anything grow before the bytes that
//     justify it are there.
//  2. No input makes a function here panic.
//  3. FetchResponse writes the bytes that kmsg.FetchResponse would, for the same value; a fuzz test compares them.
//
// Goroutines: there is no state; every function may be called from anywhere.
//
// Files: frame.go (reading frames), header.go (request headers), request.go (decode and encode requests), guard.go and layouts.go
// (how much a frame may grow when decoded), response.go (encode and decode responses), code.go (error to code),
// private.go (our own API keys), fetch_response.go and fetch_encode.go (the Fetch response).
//
// Not obvious:
//   - The response header of ApiVersions is always version 0: the client does not know yet what the broker speaks.
//   - The client id in a request header stays an old-style string even in header version 2.
//   - kmsg aliases the frame where it can: records of a Produce request point into it, so a frame must outlive its request.
package wire
