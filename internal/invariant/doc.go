// Package invariant is the only place that panics on purpose.
//
// It owns the difference between a broken world (an error, returned) and a broken program (a panic, named). It does not
// own recovery: a panic that leaves a goroutine ends the process, and the next start recovers from disk.
//
// Invariants: Check is on in every build. Expensive runs its check only under the build tag "expensive".
//
// Goroutines: safe for concurrent use; there is no state.
package invariant
