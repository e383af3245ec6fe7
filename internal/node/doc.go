// Package node builds one node, broker or controller or both, from its configuration and the three seams, and starts and
// stops its parts in the right order.
//
// It owns every long-lived goroutine's beginning and end, the way from the metadata log to its subscribers, the HTTP
// listener for metrics and health, and the advertised addresses. It decides nothing about records or metadata.
//
// Invariants:
//  1. Listeners are bound before anything on disk is touched, and accept only when the node can answer.
//  2. A part is stopped after everything that calls it.
//  3. After Stop returns nothing of the node runs, and its directories are unlocked.
//
// Goroutines: Start starts all, Stop waits for all. Start, Stop and Wait belong to the owner of the node; everything
// else is safe for concurrent use.
//
// Files: build.go (constructors in order), number.go (of a node that has none), start.go, recovery.go (how far it is), stop.go, stream.go (committed metadata to subscribers), http.go,
// addresses.go, features.go (and the levels with which a cluster begins), settings.go (configuration to what packages take),
// dynamic.go (settings that change at run time).
//
// Not obvious:
//   - Many nodes may run in one process: nothing here or below is a package variable.
//   - build.go is the only file that may reach for the operating system, and only to fill seams that were left empty.
package node
