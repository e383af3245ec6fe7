// Package sim is a simulated world for tests: nodes of the shipped code, a network and disks in memory, one seed.
//
// It owns the driver that lets exactly one thing happen at a time, the network, the disk's faults, the clients that put
// load on the node, and the checkers that know what must never happen. It owns no broker code: nodes are built by package
// node from the same configuration as a real one.
//
// Invariants:
//  1. Every delivery on the network and every change on a disk is parked under a name and released by the driver, chosen
//     by the seed among the names in sorted order; arrival order decides nothing.
//  2. Two runs of one seed give the same trace, of clusters too.
//  3. A run without acked records, without a fault that struck where something was under way, or, of a cluster, without a fault that
//     takes a leader away, is void, not passed.
//  4. Each round of a run draws from a source of its own: to leave the fault of one out does not change the others.
//
// Goroutines: everything runs inside one synctest bubble. The driver is the test's own goroutine.
//
// Files: world.go (driver), network.go, disk.go, host.go (start, stop, kill, power loss), plan.go (what a seed draws), course.go (one
// run from start to verdict), faults.go, faults_disk.go and faults_votes.go (each kind of harm), lull.go (a while without), limp.go (a while without a directory), crew.go,
// client.go, client_route.go and client_tree.go (who works, and whom they ask), work_*.go (what they do), history.go (what they were
// told), check.go and check_*.go (one promise each), shrink.go (smaller runs that fail the same way).
// bugs_test.go has the planted bugs, runtime_test.go what is different in the builds of these tests.
// TRACK_RECORD.md lists what was found.
//
// Not obvious:
//   - Tests of this package run under the build tag "sim", which makes the locks of xsync visible to synctest. TestMain,
//     built without the tag, builds and runs the same tests again with it, so that plain "go test ./..." is enough.
//   - Go cannot kill a goroutine: a dead node's seams fail for ever, what it still writes goes to a disk that nobody
//     reads again, and the driver waits until its goroutines have left.
//   - What nodes draw at random they draw from crypto/rand, which testing/cryptotest makes follow from the seed.
//   - One release may wake several goroutines, whose order is the scheduler's. It is the same each time with one
//     processor, no collection of garbage but at the driver's will, no select that picks among ready cases and no iteration over a map.
//     What is left Go's runtime is built without (runtime_test.go): preemption after 10 ms, which a busy machine makes of
//     any time, timers of one instant in any order, and a select that sets its timers in the order of addresses, which are
//     other ones once the sweep of a collection went another way.
package sim
