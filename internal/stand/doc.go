// Package stand is what tests of other packages stand on: a node's storage and replicas over a disk in memory, with metadata
// that a test writes by hand, and a listener of connections in memory.
//
// It owns how those are put together, taken apart and lost in a power cut. It does not own what runs on them: that is begun and
// ended by the test's own functions, and hears of metadata by its own.
//
// Goroutines: those of storage, between Start and Stop. A Node belongs to one synctest bubble and to the test's goroutine; a Pipes
// may be used by many.
//
// Files: node.go, pipes.go.
package stand
