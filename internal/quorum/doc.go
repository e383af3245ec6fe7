// Package quorum is the replicated metadata log: it drives raft over __cluster_metadata-0.
//
// It owns the log of the metadata partition and its snapshots, term and vote, the voter set, what voters say to each other, how
// nodes that are not formatted become a cluster, how a node without a vote follows, and the order in which committed records
// reach the node's Listener. It carries bytes and does not know what they mean: that is metadata's. It does not decide what to
// write (controller), and it does not know a listener: what comes from others is handed in, and Dial is given.
//
// Invariants:
//  1. One raft entry is exactly one record batch. The batch's offsets are the log end at which it was stored, so index and
//     offset differ; the mapping follows from the newest snapshot's header, which carries the index in a tagged field, and
//     a scan of the log after it.
//  2. No record type of our own enters the log. Raft's empty entry is a NoOp batch whose bytes follow from the previous
//     batch alone; what raft needs besides travels in tagged fields of Kafka's control records.
//  3. Term and vote are on disk before anything follows from them, an entry before this node says that it has it, and the
//     commit index before a voter set comes into force.
//  4. The Listener sees a snapshot first, then every committed data batch once and in order, from one goroutine. A snapshot that
//     was fetched later replaces its state. Lead comes after everything that was committed before this leadership; Propose
//     works from then until Resign.
//  5. Propose promises offsets: the entry is stored at the offset that it returned, or its done reports an error.
//  6. A failed disk operation on the log ends the quorum: nothing is retried, Failed is closed, Err says why. Only a full
//     disk is waited for, and a snapshot that cannot be written leaves everything as it was.
//  7. No message from outside makes raft panic: message_check.go and checkArrival refuse what would. What is kept of what others
//     send is bounded: bytes that wait, senders that nobody knows, observers.
//  8. Voter sets change by one voter at a time, and the next change begins when the one before is in force.
//  9. A voter that has lost its vote, or entries that were committed, does not come back as who it was; nor does a controller
//     without a vote, which others may have made a voter. All that ran once have a quorum-state, so none means that it is lost.
//
// Goroutines: the loop owns the raft state machine; it stores, syncs and commits. The apply goroutine reads what is
// committed back from the log and calls the Listener. follow fetches while this node has no vote, runErrands asks the leader for
// changes of the voter set, and one link for each voter that there are messages for carries them. All start in or after Start
// and are waited for by Stop. Every exported method may be called from anywhere; none waits for the Listener except Stop, and
// Form, AddVoter, RemoveVoter and UpdateVoter wait for other nodes.
//
// Files of the package: quorum.go (type, open, stop), loop.go (around raft), clock.go (ticks), lead.go (winning and losing
// leadership), handover.go (on stop), propose.go, deliver.go (to the Listener), store.go and recover.go (raft.Storage on the log),
// entry.go (entry and batch), snapshot.go and snapshot_file.go, install.go (a leader's snapshot), members.go (voters), change.go
// (voters come and go), state.go (term, vote, commit index), message.go and message_check.go (raft's messages as bytes), link.go
// (to other voters), receive.go (from them), vacancy.go (a leader is gone), observe.go (serving Fetch, FetchSnapshot), follow.go (using them), errand.go, form.go
// (a new cluster), bootstrap.go (what it begins with), status.go.
//
// Files on disk, in the folder __cluster_metadata-0 of metadata.log.dir: those of commitlog; <end offset>-<epoch>.checkpoint, a
// snapshot; quorum-state, term and vote as Apache Kafka stores them; quorum-commit, a commit index, our own;
// quorum-voter, ours too, for a voter that has lost its memory: the directory id that it has in the quorum since. Next to the
// folder lies bootstrap.checkpoint where a tool has formatted the node: the records with which the log is to begin.
//
// Not obvious:
//   - Group commit needs no timer: proposals that arrive while a sync runs wait in a queue, and the next turn of the loop
//     stores and syncs all of them at once. Messages for other voters are grouped likewise while a request is under way.
//   - A leader sends entries before it has synced them itself: its own share in a majority counts only after.
//   - The raft id comes from the directory id, so a wiped disk is a new voter and never its old self.
//   - The snapshot 0-0 holds no records, only the first voter set. It counts as raft index 1, because raft takes index 0
//     for an empty log that has no configuration. An observer's has no voters: it learns them from the log.
//   - A node without a vote is a learner in its own raft, of which nobody else knows, and what Fetch brings is handed to raft as
//     the leader's message. So an observer becomes a voter, and back, by nothing but a voter set. It asks from its last
//     committed entry on, never from its log end: below that no log differs from the leader's.
//   - A voter that was removed may never hear of it, since its leader no longer speaks to it. A voter that hears of no leader for
//     a while therefore fetches, as an observer does.
//   - A voter set may name somebody as leader's peer before it is known here, or have a voter listen where it did before; who sends
//     messages says where it listens, and a voter without a leader asks at the addresses of the configuration.
//   - A voter set is in force here when this node knows it to be committed, and nobody but a leader tells. A candidate tells too, since
//     there may be no leader until who has the longest log knows that it has a vote.
//   - Raft's snapshot message carries a name. The file is fetched first and raft is told when it is whole. A leader that hears
//     nothing for an election timeout tells again; a follower that is still fetching does not mind.
//   - A leader whose vote is taken has no say in who comes next: the others find in the voter set that it is gone.
//   - A voter that the leader's machine refuses forgets its leader, once for each connection that it had. Alone it changes nothing by
//     that: raft's other voters do not answer its pre-vote while they hear from the leader.
//   - A sole voter is not ticked. It campaigns at once and nobody can depose it, so an idle quorum of one has no timer but that
//     of the snapshot interval.
//   - Raft's own idea of "applied" is about the voter set only, and the loop applies that itself. How far the Listener has
//     come is not raft's business.
package quorum
