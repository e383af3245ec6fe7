package znode

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/stand"
)

// world is one node's tree over a real partition on a disk in memory. It lives in a synctest bubble.
type world struct {
	*stand.Node
	c             *Coordinator
	snapshotBytes int
	lease         time.Duration
	began         time.Time
	// command is what the controller does.
	command func(ctx context.Context, req kmsg.Request) (Outcome, error)
}

const self = stand.Self

// inWorld runs a test in a bubble, with a tree that is served.
func inWorld(t *testing.T, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{Node: stand.NewNode(t, time.Now), snapshotBytes: 1 << 30, began: time.Now()}
		w.Log.MaxMessageBytes, w.Log.Delete = MaxRecordBytes, true
		w.Begin, w.End = w.begin, func() { w.c.Stop() }
		w.Subscribers = func() []metadata.Subscriber { return []metadata.Subscriber{w.c} }
		w.Start()
		defer w.Stop()
		test(w)
	})
}

func (w *world) begin() {
	w.c = New(Options{
		ClusterID: "cluster", Image: w.Image, Controller: func() kafka.NodeID { return kafka.NoNode },
		Command:      func(ctx context.Context, req kmsg.Request) (Outcome, error) { return w.command(ctx, req) },
		MinTimeoutMs: 4000, MaxTimeoutMs: 40000, CommandTimeout: 5 * time.Second, SnapshotBytes: w.snapshotBytes,
		Runtime: coordinator.Options{
			NodeID: self, Replicas: w.Set, LoadBytes: 4096, Now: time.Now,
			Elapsed: func() time.Duration { return time.Since(w.began) }, Lease: w.lease,
		},
	})
	topic, known := w.Image().Topics.ByName(Topic)
	if known { // as a node that starts is told of everything at once
		w.Tell(metadata.Between(metadata.EmptyImage(), w.Image()))
		w.Apply(w.Partition(topic.ID, 0, self))
	} else {
		id := kafka.TopicID{7}
		w.Apply(&metadata.TopicRecord{Name: Topic, TopicID: id}, w.Partition(id, 0, self))
	}
}

// resign takes the tree from this node; elect gives it back.
func (w *world) resign() { w.lead(kafka.NoNode) }
func (w *world) elect()  { w.lead(self) }

func (w *world) lead(leader kafka.NodeID) {
	w.Epoch++
	topic, _ := w.Image().Topics.ByName(Topic)
	w.Apply(w.Partition(topic.ID, 0, leader))
	synctest.Wait()
}

// caller is a client of a test.
type caller struct {
	w    *world
	name string
	*Client
	xid     int32
	session Connected
	pending *coordinator.Promise[[]Message] // taken and not committed
}

// call connects a client; what it is answered is among its messages.
func (w *world) call(name string, req Connect) *caller {
	c := &caller{w: w, name: name, Client: w.c.Client("127.0.0.1:"+name, func() {})}
	if err := c.Connect(0, req); err != nil {
		w.T.Fatalf("%s: connect: %v", name, err)
	}
	return c
}

// messages is what has come and may be passed on.
func (c *caller) messages() (out []Message, err error) {
	for {
		if c.pending == nil {
			if c.pending = c.Next(); c.pending == nil {
				return out, nil
			}
		}
		<-c.pending.Given()
		if committed := c.pending.Committed(); committed != nil {
			select {
			case <-committed:
			default:
				return out, nil
			}
		}
		some, err := c.pending.Answer()
		c.pending = nil
		if err != nil {
			return out, err
		}
		for _, m := range some {
			if connected, ok := m.Answer.(Connected); ok {
				c.session = connected
			}
		}
		out = append(out, some...)
	}
}

// do asks for something and returns the answer, with the events that came before it.
func (c *caller) do(op Op) (answer Message, events []Event) {
	c.w.T.Helper()
	c.xid++
	c.w.Must(c.Do(context.Background(), c.xid, op))
	synctest.Wait()
	all, err := c.messages()
	c.w.Must(err)
	for _, m := range all {
		if e, ok := m.Answer.(Event); ok {
			events = append(events, e)
		} else if m.Xid == c.xid {
			answer = m
		}
	}
	if answer.Xid != c.xid {
		c.w.T.Fatalf("%s: no answer to %T %+v", c.name, op, op)
	}
	return answer, events
}

// open is the ACL that clients send.
func open() []ACL { return []ACL{{permAll, anyone}} }
