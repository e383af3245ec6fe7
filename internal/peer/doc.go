// Package peer is a connection from this node to another one.
//
// It owns dialling, the exchange of versions, and the pairing of pipelined requests with their responses. It does not
// know which node is which, nor when to try again: its callers do.
//
// Invariants:
//  1. Requests leave in the order of Send, and a response is paired with the oldest request without one; a response with
//     another correlation id ends the connection.
//  2. Memory follows bytes received, and no response is larger than Options.MaxBytes.
//  3. Once the connection has failed, every call ends with the same error.
//
// Goroutines: one per connection reads responses; Close waits for it. All methods are safe for concurrent use.
//
// Not obvious:
//   - A caller that gives up waiting leaves its response to be read and dropped: the connection goes on.
//   - The right to write is a channel with one slot, not a lock, so that waiting for it ends with the context.
package peer
