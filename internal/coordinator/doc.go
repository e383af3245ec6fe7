// Package coordinator runs state machines that live in an internal topic: each partition of the topic is the log of one
// shard, and the node that leads the partition runs the shard.
//
// It owns when a shard is loaded and dropped, that its turns come one at a time, how its records are appended and
// replayed, which answers wait for what, and its timers. It does not own what the records mean (group, znode), nor where they
// are kept (replica).
//
// Invariants:
//  1. A shard's state changes only in a turn, and turns of one shard never overlap.
//  2. Records are appended first and replayed when the local append has succeeded. Loading replays the same records
//     through the same function.
//  3. No answer leaves before everything that the log held at the end of its turn is committed, reads included. So nobody
//     ever learns of a state that a crash takes back.
//  4. Nor does it leave before something is committed that was appended within Options.Lease, where another replica could have been
//     elected: so a node that was paused, or is cut off, tells nobody what it knew before others took over.
//  5. A shard appends under the leader epoch that it was loaded for, and is dropped for good when that epoch is over.
//  6. Every Promise is kept exactly once, by a turn or by the end of its shard.
//  7. Timers fire in the order of their deadlines and, among equals, in the order in which they were set, over all shards;
//     only a shard whose turn takes long, at a disk that stalls, is left behind.
//
// Goroutines: one that gives out timers and jobs, one for the timer or job that runs, one for each shard that is being loaded
// or whose log is being trimmed; Stop waits for them. Turns run on their callers' goroutines and on those of timers and jobs. Apply is called from one goroutine and never waits for a disk.
//
// Locks: shard.mu is held for a turn, across the local append. The replica's locks, Runtime.mu and timers.mu are taken
// under it, each alone.
//
// Files: runtime.go (which shards there are), shard.go (a turn), load.go, timer.go, promise.go, trim.go,
// fault.go (which error a client gets).
//
// Not obvious:
//   - State runs ahead of the watermark: nothing is rolled back, because whoever would have seen it is told
//     NOT_COORDINATOR when the append turns out to be lost, and the shard is gone.
//   - Records of a transaction count from the marker that commits it.
package coordinator
