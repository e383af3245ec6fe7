// Package group is consumer groups of the classic protocol and the offsets that groups commit: the state machine of one
// partition of __consumer_offsets, in Apache Kafka's record formats.
//
// It owns who is a member of which group, generations, what members have to wait for, session and rebalance timeouts,
// committed offsets and when they are forgotten. It does not own partitions' assignment, which a group's leader works out,
// nor how records are stored and when answers may leave (coordinator), nor the form of requests in each version (api).
//
// Invariants:
//  1. A generation has one assignment: it is stored before any member is told.
//  2. A group is in __consumer_offsets before anybody joins it.
//  3. A member that awaits the end of a join or a sync is told of it exactly once.
//  4. Nobody who is not a member of the current generation commits for a group that has members.
//  5. What a client can make a group hold is bounded: members, pending members and the bytes of their subscriptions.
//  6. No outcome depends on the order of a map: members are kept in the order in which they came.
//
// Goroutines: none of its own; everything runs in turns of the coordinator's shards.
//
// Files: coordinator.go (what api calls), shard.go (groups of one partition, replay), group.go and member.go (the state of
// a group), join.go, rebalance.go, sync.go, leave.go, offsets.go, expire.go, admin.go (describe, list, delete), record.go
// (the formats), hash.go (which partition a group belongs to).
//
// Not obvious:
//   - Between a rebalance's beginning and the leader's assignment only memory knows of it. After a crash the group is
//     what it was before, and heartbeats bring its members back.
//   - A group's record holds, of each member, the subscription for the chosen assignor only, so a loaded member knows no
//     other until it joins again.
//   - Offsets of a group that never had members expire one by one, those of a group that lost its members together.
package group
