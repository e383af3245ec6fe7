package znode

import (
	"context"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// Outcome is what came of a request to the controller.
type Outcome struct {
	Response kmsg.Response
	Offset   kafka.Offset // of metadata that show what the request has done
}

// order is a write that is a command to the cluster, on its way.
type order struct {
	command *Command
	client  *Client
	xid     int32
	op      Op
	path    string       // of the node
	offset  kafka.Offset // of the metadata to wait for
	done    chan struct{}
}

// command tells whether an operation that the tree allows is a command to the cluster, or not allowed after all.
func (s *shard) command(op Op, r Result) (*order, Code) {
	var w Write
	switch op := op.(type) {
	case Create:
		w = Write{
			Kind: CreateNode, Path: r.Answer.(Created).Path, Data: op.Data,
			Ephemeral: op.Flags&flagEphemeral != 0, Sequential: op.Flags&flagSequential != 0,
		}
	case SetData:
		w = Write{Kind: SetNode, Path: op.Path, Data: op.Data}
	case Delete:
		w = Write{Kind: DeleteNode, Path: op.Path}
	case SetACL:
		if Computed(op.Path) {
			return nil, NoAuth
		}
		return nil, OK
	default:
		return nil, OK
	}
	if !Computed(w.Path) {
		return nil, OK
	}
	command, code := Decide(w, s.c.o.Image(), s.stored)
	if command != nil {
		return &order{command: command, op: op, path: w.Path, done: make(chan struct{})}, OK
	}
	if code != OK {
		s.c.o.Logger.Info("a ZooKeeper client was refused", "reason", Refused(w))
	}
	return nil, code
}

// stored returns the data of a node of the tree.
func (s *shard) stored(path string) (data []byte, ok bool) {
	if n := s.tree.nodes[path]; n != nil {
		return n.data, true
	}
	return nil, false
}

// carryOut has the cluster do what a client has ordered, and the client told.
func (c *Coordinator) carryOut(ctx context.Context, o *order) error {
	ctx, cancel := context.WithTimeout(ctx, c.o.CommandTimeout)
	defer cancel()
	code := OK
	outcome, err := c.o.Command(ctx, o.command.Request)
	if err != nil {
		c.o.Logger.Warn("the controller did not answer for a ZooKeeper client", "path", o.path, "remote", o.client.remote, "error", err)
		code = ConnectionLoss
	} else {
		var text string
		if code, text = o.command.Verdict(outcome.Response); code != OK {
			c.o.Logger.Warn("a ZooKeeper client's command was refused", "path", o.path, "remote", o.client.remote, "reason", text)
		}
		o.offset = outcome.Offset
	}
	err = c.turn(func(s *shard, t *coordinator.Turn) {
		if code != OK {
			s.answer(o, nil, code)
			return
		}
		s.finish(t, o)
	})
	if err != nil {
		return err
	}
	select {
	case <-o.done:
		return nil
	case <-o.client.gone:
		return nil
	case <-ctx.Done():
	}
	return c.turn(func(s *shard, _ *coordinator.Turn) { s.answer(o, nil, ConnectionLoss) })
}

// finish answers an order that the cluster has carried out, as soon as the tree shows it.
func (s *shard) finish(t *coordinator.Turn, o *order) {
	if s.mirror.applied < o.offset {
		s.mirror.waiting = append(s.mirror.waiting, o)
		return
	}
	if o.command.Marker && s.tree.nodes[o.path] == nil {
		if err := s.mark(t, o); err != nil {
			s.lost(o.client, err)
			return
		}
	}
	n := s.tree.nodes[o.path]
	if n == nil {
		n = &node{}
	}
	switch op := o.op.(type) {
	case Create:
		created := Created{Path: o.path}
		if op.WithStat {
			stat := n.shown()
			created.Stat = &stat
		}
		s.answer(o, created, OK)
	case SetData:
		s.answer(o, n.shown(), OK)
	default:
		s.answer(o, nil, OK)
	}
}

// mark makes the node of a command that nothing else shows, and deletes it: so the watches of Kafka's own controller saw it.
func (s *shard) mark(t *coordinator.Turn, o *order) error {
	op, ok := o.op.(Create)
	if !ok {
		return nil
	}
	x := s.begin(t)
	parent, _ := split(o.path)
	if x.find(parent) == nil {
		return nil
	}
	x.put(o.path, op.Data, nil, 0, false)
	x.next()
	x.remove(o.path)
	return x.commit(t)
}

// answer is given once.
func (s *shard) answer(o *order, answer any, code Code) {
	select {
	case <-o.done:
		return
	default:
	}
	close(o.done)
	o.client.ordered = false
	if o.client.session != nil {
		s.say(o.client, Message{Xid: o.xid, Zxid: s.zxid, Code: code, Answer: answer})
	}
}

// hostOf is an address without its port.
func hostOf(remote string) string {
	at := strings.LastIndexByte(remote, ':')
	if at < 0 {
		return remote
	}
	return strings.Trim(remote[:at], "[]")
}
