// Package quorum is the replicated metadata log: it drives raft over __cluster_metadata-0.
//
// It owns the log of the metadata partition and its snapshots, term and vote, the voter set, and the order in which
// committed records reach the node's Listener. It carries bytes and does not know what they mean: that is metadata's.
// It does not decide what to write (controller), and it does not know a connection.
//
// Invariants:
//  1. One raft entry is exactly one record batch. The batch's offsets are the log end at which it was stored, so index and
//     offset differ; the mapping follows from the newest snapshot's header, which carries the index in a tagged field, and
//     a scan of the log after it.
//  2. No record type of our own enters the log. Raft's empty entry is a NoOp batch whose bytes follow from the previous
//     batch alone; what raft needs besides travels in tagged fields of Kafka's control records.
//  3. Term and vote are on disk before anything follows from them, an entry before it counts as stored, and the commit
//     index before a voter change is applied.
//  4. The Listener sees the newest snapshot first, then every committed data batch once and in order, from one goroutine.
//     Lead comes after everything that was committed before this leadership; Propose works from then until Resign.
//  5. Propose promises offsets: the entry is stored at the offset that it returned, or its done reports an error.
//  6. A failed disk operation on the log ends the quorum: nothing is retried, Failed is closed, Err says why. Only a full
//     disk is waited for, and a snapshot that cannot be written leaves everything as it was.
//
// Goroutines: the loop owns the raft state machine; it stores, syncs and commits. The apply goroutine reads what is
// committed back from the log and calls the Listener. Both start in Start and are waited for by Stop. Every exported method
// may be called from anywhere; none waits for the Listener except Stop.
//
// Files of the package: quorum.go (type, open, stop), loop.go (around raft), lead.go (winning and losing leadership), propose.go,
// deliver.go (to the Listener), store.go and recover.go (raft.Storage on the log), entry.go (entry and batch), snapshot.go and
// snapshot_file.go, members.go (voters), state.go (term, vote, commit index), observe.go (Fetch, FetchSnapshot), status.go.
//
// Files on disk, in the folder __cluster_metadata-0 of metadata.log.dir: those of commitlog; <end offset>-<epoch>.checkpoint, a
// snapshot; quorum-state, term and vote as Apache Kafka stores them; quorum-commit, a commit index, our own.
//
// Not obvious:
//   - Group commit needs no timer: proposals that arrive while a sync runs wait in a queue, and the next turn of the loop
//     stores and syncs all of them at once.
//   - The raft id comes from the directory id, so a wiped disk is a new voter and never its old self.
//   - The snapshot 0-0 holds no records, only the first voter set. It counts as raft index 1, because raft takes index 0
//     for an empty log that has no configuration.
//   - A sole voter is not ticked. It campaigns at once and nobody can depose it, so an idle quorum has no timer but that of
//     the snapshot interval.
//   - Raft's own idea of "applied" is about the voter set only, and the loop applies that itself. How far the Listener has
//     come is not raft's business.
package quorum
