// Package metrics is the Prometheus registry of one node.
//
// It owns the registry, so that many nodes in one process do not share counters, and thin constructors that declare and
// register in one call. It does not own any metric: names are declared by the packages that count.
//
// Invariants: a name is registered once per Set; a second declaration of the same name is our own bug and panics.
//
// Goroutines: everything is safe for concurrent use, collecting included. No goroutine is started here.
//
// Not obvious: names are Prometheus's own style with the prefix "moldau_" written out by the caller, so that a search
// for a name in the code finds its declaration.
package metrics
