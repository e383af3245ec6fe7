// Package replica is every partition that has a replica on this node: what role it plays, which records count, and who
// waits for them.
//
// It owns the role and leader epoch in force, the high watermark, the progress of followers and the wishes to change the
// in-sync set, the waiters of producers and the watches of fetches, which replica is nearest to a consumer, and the way from
// metadata to open logs, with what the controller has to know of where those lie, and their moves between directories. It does not
// own bytes or files (storage, commitlog), what the in-sync set is (the controller), the loops that fetch for a follower
// (fetcher), or the checking of what clients send (batch, api).
//
// Invariants:
//  1. logStart <= highWatermark <= logEnd, and within a leader epoch the high watermark does not fall.
//  2. With FlushBeforeAck nothing at or above the leader's synced end is below the high watermark, so neither a consumer
//     nor a waiting producer ever acts on a record that a power cut takes. One condition serves every waiter.
//  3. A record counts only if the leader epoch was still in force after its write: Append looks again.
//  4. A Waiter ends exactly once: when its offset is reached, or with the error that says why it never will be here.
//  5. Apply never waits for a disk. What it ends, it ends at once; what it begins, a worker of the Store begins.
//  6. A follower's progress counts only from the incarnation of its broker that is registered (KIP-903).
//  7. What a reader has not seen marks its Watch, if the Watch was attached before the reader looked.
//  8. Whoever may be elected without risk has deleted what DeleteRecords was told is deleted: its answer waits for the in-sync
//     and the eligible (KIP-966), dead or alive, and nobody joins the in-sync set whose log starts before the leader's. Only a deletion
//     that is on a follower's disk counts.
//
// Goroutines: none of its own. Methods run on the callers' goroutines, synced on the Store's syncers, reconcile on the
// Store's workers, one at a time for a partition name. Everything exported is safe for concurrent use, except Set.Apply,
// which one goroutine calls.
//
// Locks, at most two at once: Partition.role (shared to use a role, exclusive to change it; may be held across the disk)
// before Partition.mu or the log's own; Partition.mu (never across the disk) before Watch.mu or Set.wishing. Set.mu and Set.placing are taken alone.
// Waiters are released with no lock held.
//
// Not obvious:
//   - target is what the metadata want, acting what is in force. Both are immutable and swapped. An operation is
//     allowed only while they agree, so that a partition between two roles refuses instead of mixing them.
//   - A fetch between the high watermark and the log end is empty, never OFFSET_OUT_OF_RANGE: those offsets exist.
//   - The watermark stays where it is while the in-sync set is smaller than min.insync.replicas (KIP-966), and waits for
//     replicas whose joining the controller has not yet answered.
//   - A log is synced at once only for those who wait: Hurry, called once with all Waiters of a request, or a Watch that is
//     attached. Without either it is a matter of some milliseconds.
//   - A follower that has everything is read by no fetch: with each fetch of its session (Set.Heard) it is level anew, and
//     only an append makes it be looked at. So an idle partition costs nothing and yet never looks late.
//   - A wish whose outcome is not known stays, and the watermark waits for its members: see WishFailed.
//   - A move to another directory copies in pieces on the workers, so that a role change waits for one piece at most. At the end
//     appends wait until the copy has what little is missing, is on disk and has taken the log's place: the partition, its waiters
//     and watches stay, acting.log is another. The controller hears of it afterwards.
//   - AwaitEnd exists because a leader alone in the in-sync set moves the watermark only at its next sync: without it a
//     client that was acked with acks=1 could ask for the latest offset and not see its own record.
package replica
