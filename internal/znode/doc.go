// Package znode is the tree that ZooKeeper clients see, and their sessions: a state machine on one internal topic. Some nodes
// are stored for the clients, the others are what a ZooKeeper of Apache Kafka 1.1 would hold of this cluster.
//
// It owns nodes, sessions, ephemerals, watches and their order; the path and payload of every node that the metadata image
// gives; which of those a client may write, and the controller request that such a write stands for. It does not own
// ZooKeeper's protocol (zookeeper), nor how records are stored and when answers may leave (coordinator), nor any decision
// about topics, settings or replicas (controller).
//
// Invariants:
//  1. Views are a function of the image, but for three things that it does not know: the time, who the controller is, and
//     under which controller a partition got its state. View.Same leaves those out, so that equal images need no write.
//  2. Changes costs in proportion to what a delta touches, and gives with All the same nodes as All alone.
//  3. A client changes a computed node through the controller or not at all: no write takes a short cut to the tree.
//  4. No secret is in a view: neither SCRAM credentials nor the values of password settings.
//  5. One transaction is one record is one zxid, which is the record's offset plus one: a write, a whole multi, the end of a
//     session with its ephemerals, one view that the cluster changes. The record names all that it changes in full.
//  6. The order of transactions is the order in which every client is told of them: what a client hears of a change, event or
//     answer, it hears before anything that shows a later one.
//  7. What a client hears is committed. A zxid that a client has seen never goes back, whoever leads.
//  8. An ephemeral goes with its session, and a session ends only by its client's word or its silence under one leader.
//  9. What a client can make a node hold is bounded: watches, answers it does not take, sessions.
//
// Goroutines: none of its own. The machine runs in turns of the coordinator's shard, on the goroutines of connections and of
// timers; Views belongs to the machine. Coordinator and Client are safe for concurrent use, but a client's Connect, Do and
// Leave come from one goroutine, and Next from whoever has taken the right to pass on.
//
// Locks: the shard's is held for a turn; Client.mu and Coordinator.mu are taken under it, each alone.
//
// Files, the machine: coordinator.go, shard.go (replay), client.go (a connection), do.go (operations), transaction.go (writes),
// order.go (writes that are commands), session.go, watch.go, offsets.go (of version 0), mirror.go (views into the tree),
// purge.go, quota.go, snapshot.go, survey.go, tree.go,
// stat.go, acl.go, path.go, op.go, record.go (the log's bytes), code.go (errors). Views and commands, all of them functions:
// view.go (the list of what there is), view_brokers.go, view_topics.go, view_config.go, view_admin.go, view_acls.go,
// payload.go (JSON as Kafka writes it), command.go (which writes are commands), command_*.go (each kind).
//
// Not obvious:
//   - The topic that keeps the tree itself has no view. Old consumers of all topics know of one internal topic only,
//     __consumer_offsets: they would read this one, commit, and read their own commit.
//   - /config/topics/T may be there before the topic: old tools write the settings first and then create the topic.
//   - The log is replayed from a snapshot that was written in pieces while the tree changed. So a child may come before its
//     parent, and a transaction may name a node that is not there yet.
//   - A node's creations number its sequential children; the cversion that clients see also counts those that are gone.
//   - A failed write takes no zxid, unlike in ZooKeeper. No client can rely on it: zxids of other clients lie between.
package znode
