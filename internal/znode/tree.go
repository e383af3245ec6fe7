package znode

import (
	"maps"
	"slices"
)

// node is one node of the tree. Its data are never changed in place, so that answers may share them.
type node struct {
	stat
	data     []byte // nil: none
	acl      []ACL  // nil: open
	view     bool   // the cluster gives it
	children map[string]struct{}
}

// tree is all nodes by path.
type tree struct {
	nodes map[string]*node
	bytes int64 // of paths and data
}

// newTree returns what a new ZooKeeper has: nodes that no transaction made.
func newTree() tree {
	t := tree{nodes: map[string]*node{"/": {data: []byte{}}}}
	t.put("/zookeeper", &node{data: []byte{}})
	t.put("/zookeeper/quota", &node{data: []byte{}})
	return t
}

// put adds a node, or replaces it but for its children. A parent that is missing is made: while a log is loaded that begins
// with a snapshot, children may come before their parents.
func (t *tree) put(path string, n *node) {
	if old := t.nodes[path]; old != nil {
		t.bytes += int64(len(n.data) - len(old.data))
		n.children = old.children
		t.nodes[path] = n
		return
	}
	t.nodes[path] = n
	t.bytes += int64(len(path) + len(n.data))
	if path == "/" {
		return
	}
	parentPath, name := split(path)
	parent := t.get(parentPath)
	if parent.children == nil {
		parent.children = map[string]struct{}{}
	}
	parent.children[name] = struct{}{}
}

// get returns a node, which is made if it is missing.
func (t *tree) get(path string) *node {
	n := t.nodes[path]
	if n == nil {
		n = &node{}
		t.put(path, n)
	}
	return n
}

// remove takes a node out.
func (t *tree) remove(path string) {
	n := t.nodes[path]
	if n == nil {
		return
	}
	delete(t.nodes, path)
	t.bytes -= int64(len(path) + len(n.data))
	parentPath, name := split(path)
	if parent := t.nodes[parentPath]; parent != nil {
		delete(parent.children, name)
	}
}

// find returns a node by the path that a client gives, in which "" is the root; nil if there is none.
func (t *tree) find(path string) *node {
	if path == "" {
		path = "/"
	}
	return t.nodes[path]
}

// names returns a node's children in order.
func (n *node) names() []string { return slices.Sorted(maps.Keys(n.children)) }

// permissions is the node's ACL in full.
func (n *node) permissions() []ACL {
	if n.acl == nil {
		return []ACL{{permAll, anyone}}
	}
	return n.acl
}
