// Package server owns the connections of clients and of other nodes: accepting them, reading requests, calling the route
// that serves a request, and writing the answers in order.
//
// It owns listeners, connections, limits on their number, size and idleness, the order of replies, and the buffers that
// requests are read into. It does not know what a request means: package api gives it a table of routes.
//
// Invariants:
//  1. Replies leave a connection in the order of its requests.
//  2. Memory follows bytes received: a declared length allocates nothing by itself, beyond what the connection's last frame had.
//  3. At most Limits.MaxUnanswered requests and, beyond the first, Limits.MaxHeldBytes of request bytes wait for their
//     answer on a connection; reading stops there until answers have gone out.
//  4. A request's frame goes back to the pool only after its reply has been written or dropped: decoded requests point
//     into it.
//  5. Exactly one goroutine writes to a connection at any time: the writer while it runs, else the reader.
//  6. A request that cannot be parsed, or that no route serves, closes its connection with one log line and no answer;
//     the answers to the requests before it go out first. ApiVersions in an unknown version is answered (KIP-511).
//  7. At most heavySlots requests that take much memory once decoded are decoded and handled at a time. Their answers do
//     not count: a client that does not read keeps nobody from his turn.
//  8. Every Reply.Wait is called exactly once, every Response is either written or released.
//
// Goroutines: one per listener (owned by Serve's caller), one reader per connection, and a writer per connection that
// exists only while a reply is not ready. Stop waits for all of them.
//
// Files: server.go (life of the whole), listener.go (accept loops), limits.go (how many connections, and how fast), conn.go (life of
// one connection), read.go, ahead.go (the bytes of requests), write.go, cork*.go (packets), reply.go (what a route answers), route.go, frames.go (buffers), metrics.go.
//
// Not obvious:
//   - A route with Hold runs only when all earlier requests of its connection are answered, as every request does in
//     Apache Kafka, which mutes a connection while one is under way. Produce does without, so that pipelined produces
//     overlap.
//   - A Request of a route with Reused serves again, with its decoded body and whatever its handler keeps beside it, once its
//     reply has been written or dropped: the moment at which its frame does.
//   - Idleness is a timer, not a deadline on the connection, so that it needs no wall clock and works over any
//     net.Conn. It runs while an answer is awaited too: a client that vanished behind a long poll must not stay.
//   - A client that closes its sending side is taken as gone, as in Apache Kafka.
package server
