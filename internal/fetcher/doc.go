// Package fetcher is the loops by which this node's followers copy from their leaders.
//
// It owns which partition is fetched by which loop, the connections to leaders and the fetch sessions on them, what is
// made of a leader's answer, and the pause after a failure. It does not own any record or offset: where a follower stands
// is asked of replica each time, and who leads comes from there too.
//
// Invariants:
//  1. A fetch names an offset only when all below it is on this disk (with log.flush.before.ack): the leader counts it.
//  2. What a leader answers counts only for the offset and the leader epoch that it was asked for.
//  3. A partition that fails, or waits for a slow disk, is taken out of the session and holds up no other.
//  4. A partition without news costs nothing: no request names it, no answer, and no loop looks at it.
//
// Goroutines: one per leader node and shard, started by the first partition that follows there, owned by the Fetcher and
// waited for by Stop. Everything of a loop but its inbox belongs to its goroutine. Apply and Stop may be called from any.
//
// Files: fetcher.go (which loop), loop.go (what happens in which order), follower.go (one partition), list.go (many), flight.go (a request
// under way), buffer.go (its memory), session.go (what the leader remembers), answer.go (what is done with an answer), outside.go (offsets that
// the leader does not have).
//
// Not obvious:
//   - A loop may have two requests out: the session's, which a leader holds for replica.fetch.wait.max.ms when there is
//     nothing to send, and one without session, on a second connection, for partitions that came meanwhile. Without it a
//     new leader's first acks=all would wait for that time. A leader of ours takes it for a knock and answers the first.
//   - Only Fetch 12 and later is spoken, in which the leader tells where logs part (KIP-595): every broker that registers
//     with a KRaft controller knows it, so OffsetForLeaderEpoch is not needed.
//   - All syncs that one answer asks for are hurried together, and the next request waits for them a while: a partition
//     that is left out of it has to leave the session, or the leader would send the same records again. One whose sync
//     took longer is not waited for the next time: a slow disk must not set the pace for the others.
package fetcher
