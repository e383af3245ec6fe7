// Package planted is bugs for tests to catch: disks that do to the code above them what a bug of that code would do to
// the disk. A check that stays silent on one of them has a hole.
//
// It owns the bugs; which check has to find which is the business of the tests of commitlog, storage, quorum and sim. The
// product has no trace of them.
//
// Invariants: what a Bug leaves alone passes through unchanged, so that a disk without bugs and one whose bug is never met
// behave the same.
//
// Goroutines: none. A disk may be used by many goroutines at once, as any FS.
package planted
