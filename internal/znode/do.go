package znode

import (
	"strings"
	"time"

	"moldau/internal/coordinator"
)

// do serves one operation of a client. An order is a command to the cluster that has to be carried out before there is an
// answer.
func (s *shard) do(t *coordinator.Turn, c *Client, xid int32, op Op) *order {
	ses := c.session
	if ses == nil { // expired, or another connection has it: the connection is being cut
		return nil
	}
	var answer any
	var code Code
	var err error
	closing, asked := false, time.Duration(c.heard.Load())
	switch op := op.(type) {
	case Create, Delete, SetData, SetACL:
		var command *order
		if answer, code, command, err = s.write(t, c, op); command != nil {
			command.client, command.xid, c.ordered = c, xid, true
			return command
		}
	case Multi:
		answer, code, err = s.multi(t, c, op)
	case CloseSession:
		closing = true
		err = s.end(t, ses)
	case Unreadable:
		code, closing = op.Code, op.Close
	case Auth:
		if id, ok := identify(op, c.address); !ok {
			code, closing = AuthFailed, true
		} else if len(c.ids) < maxIDs {
			c.ids = append(c.ids, id)
		}
	default:
		answer, code = s.read(c, op)
	}
	if err != nil {
		s.lost(c, err)
		return nil
	}
	s.say(c, Message{Xid: xid, Zxid: s.zxidFor(op), Code: code, Answer: answer, Close: closing, Asked: asked})
	switch {
	case closing:
		s.detach(c) // whatever else it has sent is not served
	case c.watchBytes > maxWatchBytes || s.watches.bytes > maxWatchBytesOfAll:
		s.c.o.Logger.Warn("a ZooKeeper connection is cut: too many watches", "remote", c.remote, "bytes", c.watchBytes)
		s.cut(c)
	}
	return nil
}

// zxidFor is what the header of an answer says.
func (s *shard) zxidFor(op Op) int64 {
	switch op := op.(type) {
	case Auth:
		return 0
	case Unreadable:
		if op.Code == Unimplemented {
			return -1
		}
	}
	return s.zxid
}

// read serves what changes nothing but watches. Mirrors FinalRequestProcessor.processRequest.
func (s *shard) read(c *Client, op Op) (any, Code) {
	switch op := op.(type) {
	case Ping, Check:
		return nil, OK
	case Sync:
		return Synced(op), OK
	case SetWatches:
		s.setWatches(c, op)
		return nil, OK
	case Exists:
		if strings.IndexByte(op.Path, 0) >= 0 {
			return nil, BadArguments
		}
		if op.Watch {
			s.watches.add(s.watches.data, op.Path, c)
		}
		if n := s.tree.find(op.Path); n != nil {
			return n.shown(), OK
		}
		return nil, NoNode
	case GetData:
		n, code := s.readable(c, op.Path, op.Watch, s.watches.data)
		if code != OK {
			return nil, code
		}
		return Content{n.data, n.shown()}, OK
	case GetACL:
		n := s.tree.find(op.Path)
		if n == nil {
			return nil, NoNode
		}
		return ACLs{n.permissions(), n.shown()}, OK
	case GetChildren:
		n, code := s.readable(c, op.Path, op.Watch, s.watches.child)
		if code != OK {
			return nil, code
		}
		children := Children{Names: n.names()}
		if op.WithStat {
			stat := n.shown()
			children.Stat = &stat
		}
		return children, OK
	}
	return nil, Unimplemented
}

// readable finds a node that a client may read, and sets its watch.
func (s *shard) readable(c *Client, path string, watch bool, kind watchTable) (*node, Code) {
	n := s.tree.find(path)
	switch {
	case n == nil:
		return nil, NoNode
	case !allowed(n.acl, permRead, c.ids):
		return nil, NoAuth
	case watch:
		s.watches.add(kind, path, c)
	}
	return n, OK
}

// write serves one write, or tells what the cluster has to do first.
func (s *shard) write(t *coordinator.Turn, c *Client, op Op) (answer any, code Code, command *order, err error) {
	x := s.begin(t)
	r := x.step(c, op)
	if r.Code != OK {
		return nil, r.Code, nil, nil
	}
	if command, code = s.command(op, r); command != nil || code != OK {
		return nil, code, command, nil
	}
	if err := x.commit(t); err != nil {
		return nil, OK, nil, err
	}
	if created, ok := r.Answer.(Created); ok && strings.HasPrefix(created.Path, changes+"/") {
		s.purge(t)
	}
	return r.Answer, OK, nil, nil
}

// step does one operation of a transaction.
func (x *transaction) step(c *Client, op Op) Result {
	r := Result{Op: op}
	switch op := op.(type) {
	case Create:
		var created Created
		if created.Path, r.Code = x.create(c, op); op.WithStat && r.Code == OK {
			stat := x.find(created.Path).shown()
			created.Stat = &stat
		}
		r.Answer = created
	case Delete:
		r.Code = x.delete(c, op)
	case SetData:
		if r.Code = x.setData(c, op); r.Code == OK {
			r.Answer = x.find(op.Path).shown()
		}
	case SetACL:
		if r.Code = x.setACL(c, op); r.Code == OK {
			r.Answer = x.find(op.Path).shown()
		}
	case Check:
		r.Code = x.check(c, op)
	default:
		r.Code = Unimplemented
	}
	if r.Code != OK {
		r.Answer = nil
	}
	return r
}

// multi does all of several operations, or none. The code says whether they could be read.
func (s *shard) multi(t *coordinator.Turn, c *Client, op Multi) (answer any, code Code, err error) {
	x := s.begin(t)
	out := Results{Each: make([]Result, 0, len(op.Ops))}
	for _, each := range op.Ops {
		r := Result{Op: each, Code: RuntimeInconsistency}
		if !out.Failed {
			switch r = x.step(c, each); r.Code {
			case MarshallingError:
				return nil, r.Code, nil
			case OK:
				// A command to the cluster cannot be undone, so it is no part of something that happens whole or not at all.
				if command, code := s.command(each, r); command != nil {
					r.Code = NoAuth
				} else {
					r.Code = code
				}
			}
			out.Failed = r.Code != OK
		}
		out.Each = append(out.Each, r)
	}
	if out.Failed {
		for i := range out.Each {
			out.Each[i].Answer = nil
		}
		return out, OK, nil
	}
	return out, OK, x.commit(t)
}
