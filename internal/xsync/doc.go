// Package xsync holds the locks that may be held while an operation waits at a seam (disk or network).
//
// It owns Mutex and RWMutex: aliases of package sync in normal builds; under the build tag "sim" they are made of
// channels, because testing/synctest does not count a goroutine that waits for a sync.Mutex as durably blocked.
//
// Invariants: both builds have the same methods and the same semantics, TryLock included; the zero value is unlocked.
//
// Goroutines: that is the point.
//
// Not obvious:
//   - Copying a used lock is as wrong as with package sync, and vet finds it in the normal build.
//   - A channel that is made lazily must belong to the synctest bubble that uses it, so a lock must not be shared
//     between a bubble and the outside.
package xsync
