// Package controller decides: which topics exist, which broker leads what, who is alive.
//
// It owns the decisions of Kafka's controller as functions of (state, request) that give records and a response, and the
// loop that feeds them one at a time. It does not own how records are replicated (package quorum, seen here as a Log),
// nor records and images (package metadata), nor who may ask (package api).
//
// Invariants:
//  1. A decision reads nothing but its state and its request, and changes neither. Equal states give equal records, but
//     for the random ids of new topics.
//  2. Decisions are made on the working image: the published one plus all that this leader has proposed since. It is
//     dropped with the leadership.
//  3. No answer leaves before everything it rests on is committed and applied here: one that wrote nothing waits for
//     what was proposed before it.
//  4. What one atomic answer writes is one entry of the log. Other answers (fencing, leader moves) may take several, each
//     of which leaves a correct image.
//  5. Replaying a decision's own records can not fail.
//
// Goroutines: one loop per Controller, started by Start and waited for by Stop, owns all of its state. Handle, Apply, Lead,
// Resign and Disconnected put events into its inbox and may be called from any goroutine; all but Handle never wait. Each
// broker that is being probed has a goroutine, which ends with the broker's session, the leadership, or Stop.
//
// Files: controller.go (options, the way in), loop.go (leadership, proposals, waiters), decide.go (dispatch, results,
// faults), sessions.go (who is alive), topics.go and topic_names.go, placement.go, partitions.go (leader choice, ISR),
// alter_partition.go, reassign.go, elect.go, balance.go (preferred leaders, internal topics), checks.go (what is done from
// time to time), metrics.go, brokers.go, heartbeat.go, directories.go, configs.go, features.go, producer_ids.go, node_ids.go,
// refuse.go (faults of whole requests).
//
// Not obvious:
//   - A broker's epoch is the offset that its RegisterBrokerRecord is expected to get. Were an entry of the quorum's own to
//     slip in between, the record would land later than its epoch says; epochs still grow, which is all they must.
//   - Sessions are timers, not timestamps: a step of the wall clock fences nobody.
//   - A broken connection fences nobody. It makes the controller look whether anything still listens where the broker did,
//     and go on looking until the broker is heard of; only a machine that refuses speaks for the end of a process.
//   - A broker that shuts down is not active, so nothing it gave up comes back to it: one sweep over the partitions is
//     enough, and the heartbeats that follow only compare offsets. After a change of controllers there is one more sweep.
//   - A new leader that finds a log in use writes one NoOpRecord. From its offset the loop knows where the log ends.
//   - A partition never loses its last in-sync replica (or, with KIP-966, its last eligible one) to fencing: it only
//     loses its leader, and gets it back when that broker returns.
package controller
