// Package zookeeper compares the ZooKeeper port with a genuine ZooKeeper 3.4.10, and drives genuine clients against it.
//
// It owns the oracle, which sends the same bytes to both and compares what comes back, scripted and at random; the suites of
// kazoo and of go-zookeeper; the tools of Apache Kafka 0.8 to 2.8; and sessions that outlive the node that served them. It has no
// code outside tests.
//
// Invariants: what the oracle leaves out of a comparison is listed where it is left out, and is either a matter of chance
// (session ids, times, the order of children) or in docs/divergences.md.
//
// Goroutines: none.
package zookeeper
