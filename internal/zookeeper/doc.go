// Package zookeeper speaks ZooKeeper's protocol of 3.4 and 3.5 on its own port: frames, connections, operations and the
// four-letter words of operators.
//
// It owns the form of what comes and goes, the connections with their limits, and the way of a connection to the node that
// serves the tree. It does not own nodes, sessions or watches, nor the order of answers: package znode does.
//
// Invariants:
//  1. A connection's requests are served one after the other in the order in which they came, and what it is told is
//     written in the order in which znode says it.
//  2. Memory follows bytes received: a declared length allocates nothing by itself, and no frame is larger than maxFrame.
//  3. Nothing more is read from a connection that does not take its answers, nor while the cluster carries out its command.
//  4. What cannot be read is answered or cut off as ZooKeeper does it; it never ends more than its connection.
//  5. A connection is served by the node that serves the tree, and by no other after that has changed.
//
// Goroutines: one for each listener, owned by Serve's caller; for each connection one that reads, and writes what can leave at once, and one that writes the rest, or
// two that copy when another node serves it. Stop waits for all of them.
//
// Files: server.go (life of the whole), conn.go (life of a connection), frame.go and jute.go (bytes), request.go, answer.go,
// words.go, splice.go, chroot.go, offsets.go (OffsetCommit and OffsetFetch of version 0).
//
// Not obvious:
//   - A connection does not say which node it wants, and the client may have been told of any: so every node takes it, and
//     passes its bytes to the node that serves the tree.
//   - A client either writes the chroot of an old configuration before every path or before none. One that has written it is
//     told of all paths with it.
//   - A four-letter word is told from a frame by its value, which as a length would be far too large.
package zookeeper
