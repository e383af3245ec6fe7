// Package zkconsumer is the high-level consumer of Kafka 0.8 to 1.1, whose groups live in ZooKeeper.
//
// It owns membership (/consumers/G/ids), the sharing out of partitions, their ownership (/consumers/G/owners), offsets
// (/consumers/G/offsets, or the group's coordinator with offsets.storage=kafka), and the reading of what a member owns. It
// does not own the groups of today's clients, which brokers coordinate, nor anything of a broker's side of ZooKeeper.
//
// Mirrors kafka.consumer.ZookeeperConsumerConnector, and shares groups with it: same nodes, same payloads, and the same
// function from (members, topics, partitions) to owners, which every member computes for itself.
//
// Invariants:
//  1. Records of a partition are handed out only while its owner node is this member's, except for the moment between the end
//     of a session and the news of it; a member that has not heard of ZooKeeper for a session's length hands out nothing.
//  2. A record counts as consumed when the function that it was handed to has returned nil, never earlier.
//  3. Before a partition is given up in order, what was consumed of it is committed; after the end of a session it is not,
//     since another member may have committed more.
//  4. Subscriptions of the group are read as they are registered, also one's own, so that all members see the same.
//
// Goroutines: one per Consumer follows the tree, commits, and is waited for by Close; ZooKeeper's client and kgo have their
// own. Poll is for one caller at a time.
//
// Files: settings.go (the keys of consumer.properties), tree.go (a ZooKeeper session below a chroot), brokers.go,
// subscription.go and assign.go (pure), view.go (what a member sees of its group), group.go (what anybody sees of one), share.go (what it owns and reads from),
// offsets.go, rebalance.go, consumer.go.
//
// Not obvious:
//   - A rebalance that leaves a member what it has does not interrupt it. Kafka's stops every member each time.
//   - A member that finds a partition still owned waits for its node to go, and at most rebalance.backoff.ms, before it tries
//     again; Kafka's always sleeps.
//   - When all tries fail Kafka's stays idle until something changes. This one begins anew.
//   - One stream per topic: Poll is the only way out, so more would share nothing out.
package zkconsumer
