// Package quota says who has to pause because he has used more than his share.
//
// It owns token buckets, and which replicas a replication throttle covers. It does not measure anything itself and does not
// wait: whoever moves bytes tells so and asks how long to pause. What may be used comes from the metadata and the
// configuration.
//
// Invariants:
//  1. On the long run no more passes a Bucket than its rate; at once, no more than a second's worth and one piece on top.
//  2. A pause is never longer than a second, so that a new rate counts before long.
//
// Goroutines: none. Everything exported is safe for concurrent use, except Replication.Apply, which one goroutine calls.
//
// Files: bucket.go, throttle.go (which replicas), replication.go (a node's throttles and where they come from).
//
// Not obvious:
//   - Use is told after the fact, when its size is known: a Bucket goes into debt, and the debt is the pause.
//   - A nil Throttle covers nothing, so that callers need not ask whether there is one.
package quota
