package zookeeper

import (
	"strings"
	"sync/atomic"

	"moldau/internal/znode"
)

// chroot is what clients write before every path because their cluster once shared a ZooKeeper with others. The tree here is
// one cluster's, so it is taken off, and put back for those who write it.
type chroot struct {
	prefix string      // "" or /kafka
	used   atomic.Bool // the client of this connection has written it
}

// strip takes the prefix off a path.
func (c *chroot) strip(path string) string {
	rest, ok := strings.CutPrefix(path, c.prefix)
	if c.prefix == "" || !ok || rest != "" && rest[0] != '/' {
		return path
	}
	c.used.Store(true)
	if rest == "" {
		return "/"
	}
	return rest
}

func (c *chroot) stripAll(paths []string) []string {
	for i := range paths {
		paths[i] = c.strip(paths[i])
	}
	return paths
}

// restore puts it back.
func (c *chroot) restore(path string) string {
	if !c.used.Load() {
		return path
	}
	if path == "/" {
		return c.prefix
	}
	return c.prefix + path
}

// request takes the prefix off all paths of an operation.
func (c *chroot) request(op znode.Op) znode.Op {
	if c.prefix == "" {
		return op
	}
	switch o := op.(type) {
	case znode.Create:
		o.Path = c.strip(o.Path)
		return o
	case znode.Delete:
		o.Path = c.strip(o.Path)
		return o
	case znode.Exists:
		o.Path = c.strip(o.Path)
		return o
	case znode.GetData:
		o.Path = c.strip(o.Path)
		return o
	case znode.SetData:
		o.Path = c.strip(o.Path)
		return o
	case znode.GetACL:
		o.Path = c.strip(o.Path)
		return o
	case znode.SetACL:
		o.Path = c.strip(o.Path)
		return o
	case znode.GetChildren:
		o.Path = c.strip(o.Path)
		return o
	case znode.Sync:
		o.Path = c.strip(o.Path)
		return o
	case znode.Check:
		o.Path = c.strip(o.Path)
		return o
	case znode.Multi:
		for i := range o.Ops {
			o.Ops[i] = c.request(o.Ops[i])
		}
		return o
	case znode.SetWatches:
		o.Data, o.Exist, o.Child = c.stripAll(o.Data), c.stripAll(o.Exist), c.stripAll(o.Child)
		return o
	}
	return op
}

// answer puts it back into what a client is told.
func (c *chroot) answer(answer any) any {
	if c.prefix == "" {
		return answer
	}
	switch a := answer.(type) {
	case znode.Created:
		a.Path = c.restore(a.Path)
		return a
	case znode.Synced:
		a.Path = c.restore(a.Path)
		return a
	case znode.Event:
		a.Path = c.restore(a.Path)
		return a
	case znode.Results:
		for i := range a.Each {
			a.Each[i].Answer = c.answer(a.Each[i].Answer)
		}
		return a
	}
	return answer
}
