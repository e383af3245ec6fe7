package znode

import (
	"cmp"
	"maps"
	"slices"
)

// watches is who has to be told of what, once. As in ZooKeeper there are two kinds: of a node's being and data, and of
// its children.
type watches struct {
	data, child watchTable
	bytes       int // what they make the node hold, about
}

type watchTable map[string]map[*Client]struct{}

// watchOverhead is what a watch takes beside its path, which the tables share with the request.
const watchOverhead = 150

// add sets a watch; set twice it is one.
func (w *watches) add(table watchTable, path string, c *Client) {
	of := table[path]
	if of == nil {
		of = map[*Client]struct{}{}
		table[path] = of
	}
	if _, ok := of[c]; !ok {
		of[c] = struct{}{}
		w.account(c, path, 1)
	}
	if c.watched == nil {
		c.watched = map[string]struct{}{}
	}
	c.watched[path] = struct{}{}
}

func (w *watches) account(c *Client, path string, n int) {
	size := n * (watchOverhead + len(path))
	c.watchBytes += size
	w.bytes += size
}

// take ends the watches of a path and returns whose they were, in the order in which those connected.
func (w *watches) take(table, other watchTable, path string) []*Client {
	of := table[path]
	if of == nil {
		return nil
	}
	delete(table, path)
	clients := slices.SortedFunc(maps.Keys(of), func(a, b *Client) int { return cmp.Compare(a.id, b.id) })
	for _, c := range clients {
		w.account(c, path, -1)
		if _, still := other[path][c]; !still {
			delete(c.watched, path)
		}
	}
	return clients
}

// drop ends all watches of a client.
func (w *watches) drop(c *Client) {
	for path := range c.watched {
		for _, table := range []watchTable{w.data, w.child} {
			of := table[path]
			if _, ok := of[c]; !ok {
				continue
			}
			w.account(c, path, -1)
			if delete(of, c); len(of) == 0 {
				delete(table, path)
			}
		}
	}
	c.watched = nil
}

// fire tells everybody who watches what has happened to a node. Mirrors DataTree.createNode, setData and deleteNode.
func (s *shard) fire(kind EventType, path string) {
	switch w := &s.watches; kind {
	case NodeCreated, NodeDataChanged:
		s.tell(w.take(w.data, w.child, path), kind, path)
	case NodeDeleted: // one event for a client, whichever way it watches
		clients := w.take(w.data, w.child, path)
		s.tell(clients, kind, path)
		s.tell(slices.DeleteFunc(w.take(w.child, w.data, path), func(c *Client) bool { return slices.Contains(clients, c) }), kind, path)
	case NodeChildrenChanged:
		s.tell(w.take(w.child, w.data, path), kind, path)
	}
}

func (s *shard) tell(clients []*Client, kind EventType, path string) {
	for _, c := range clients {
		s.say(c, Message{Xid: EventXid, Zxid: -1, Answer: Event{kind, path}})
	}
}

// setWatches sets the watches of a client that has come back. Mirrors DataTree.setWatches.
func (s *shard) setWatches(c *Client, op SetWatches) {
	w := &s.watches
	for _, path := range op.Data {
		switch n := s.tree.find(path); {
		case n == nil:
			s.tell([]*Client{c}, NodeDeleted, path)
		case n.mzxid > op.Since:
			s.tell([]*Client{c}, NodeDataChanged, path)
		default:
			w.add(w.data, path, c)
		}
	}
	for _, path := range op.Exist {
		if s.tree.find(path) != nil {
			s.tell([]*Client{c}, NodeCreated, path)
		} else {
			w.add(w.data, path, c)
		}
	}
	for _, path := range op.Child {
		switch n := s.tree.find(path); {
		case n == nil:
			s.tell([]*Client{c}, NodeDeleted, path)
		case n.pzxid > op.Since:
			s.tell([]*Client{c}, NodeChildrenChanged, path)
		default:
			w.add(w.child, path, c)
		}
	}
}
