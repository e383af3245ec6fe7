// Package cluster tests clusters of real processes, each in a network namespace of its own, with real clients.
//
// It owns the network (one bridge, a namespace and an address for each node, links that can be cut one way or both), the
// life of the nodes (kill -9, SIGSTOP, a clean stop, a new start), and a load whose every acknowledged record is looked for
// afterwards. It does not own any promise: those are in the tests' names.
//
// Invariants:
//  1. Nothing leaves the test's own network: the test process runs itself again in a namespace without any other link.
//  2. What a client was told is there is compared record by record with what the cluster has at the end.
//
// Goroutines: a load has one and is waited for by its Stop; nodes are processes.
//
// Not obvious:
//   - Clients run in the namespace of the bridge and reach every node whatever links between nodes are cut: the worst case
//     for a leader that has lost the others and does not know.
//   - README.md says which test tries what, and which of them run by default.
//   - Files: network_test.go (namespaces, cuts), nodes_test.go (processes), load_test.go (producers and what must be there),
//     groups_test.go (the same for consumer groups), clients_test.go (genuine clients), the others by subject.
package cluster
