// Package kafka is the shared vocabulary: what an offset, an epoch or a node id is.
//
// It owns names and the text forms that Kafka gives them, and no behaviour. It does not own wire encoding (kmsg does),
// record batches (package batch) or error codes (kerr).
//
// Invariants: values here are plain and copyable; nothing here has state.
//
// Goroutines: everything is safe for concurrent use.
//
// Not obvious:
//   - Offset, Epoch and NodeID are aliases, not defined types. kmsg speaks in bare integers, and a conversion at every
//     field would hide more mistakes than it finds; the alias still says in a signature what a number is.
//   - A UUID prints as Kafka prints it: URL-safe base64 without padding, 22 characters.
package kafka
