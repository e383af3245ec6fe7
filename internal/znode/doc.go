// Package znode is what a ZooKeeper client of the years before KRaft sees of a cluster: the nodes that the metadata image
// gives, and what a write to one of them means.
//
// It owns the path and payload of every node that Apache Kafka 1.1 kept in ZooKeeper, which of them a client may write, and
// the controller request that such a write stands for. It does not own ZooKeeper's protocol, nor any decision about topics,
// settings or replicas (package controller).
//
// Invariants:
//  1. Views are a function of the image, but for three things that it does not know: the time, who the controller is, and
//     under which controller a partition got its state. View.Same leaves those out, so that equal images need no write.
//  2. Changes costs in proportion to what a delta touches, and gives with All the same nodes as All alone.
//  3. A client changes a computed node through the controller or not at all: no write takes a short cut to the tree.
//  4. No secret is in a view: neither SCRAM credentials nor the values of password settings.
//
// Goroutines: none. A Views belongs to one goroutine at a time; the functions are safe for any number.
//
// Files: code.go (errors), view.go (the list of what there is), view_brokers.go, view_topics.go, view_config.go, view_admin.go,
// view_acls.go, payload.go (JSON as Kafka writes it), command.go (which writes are commands), command_*.go (each kind).
//
// Not obvious:
//   - The topic that keeps the tree itself has no view. Old consumers of all topics know of one internal topic only,
//     __consumer_offsets: they would read this one, commit, and read their own commit.
//   - /config/topics/T may be there before the topic: old tools write the settings first and then create the topic.
package znode
