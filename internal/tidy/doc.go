// Package tidy guards the repository: its tests read the source and fail when a rule of CONTRIBUTING.md is broken.
//
// It owns the checks of package comments, of the import table in ARCHITECTURE.md, of calls that are banned outside the
// seams, of package-level state, and of the documents. It has no code of its own outside tests.
//
// Invariants: each message names the place, the rule and what to do instead.
//
// Goroutines: none.
package tidy
