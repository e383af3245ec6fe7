package zookeeper

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/stand"
	"moldau/internal/znode"
)

const (
	self               = stand.Self
	other kafka.NodeID = 2
)

// world is the server of a node that may have the tree, and that of a node that has not. It lives in a synctest bubble.
type world struct {
	*stand.Node
	tree   *znode.Coordinator
	server *Server // of self
	second *Server // of other, whose own tree never serves
	none   *znode.Coordinator
	ended  bool // a test has stopped server
}

var errDial = errors.New("nobody listens there")

func inWorld(t *testing.T, limits Limits, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{Node: stand.NewNode(t, time.Now)}
		w.Log.MaxMessageBytes = znode.MaxRecordBytes
		w.Begin, w.End = func() { w.begin(limits) }, w.end
		w.Subscribers = func() []metadata.Subscriber { return []metadata.Subscriber{w.tree, w.none, w.server, w.second} }
		w.Start()
		defer w.Stop()
		test(w)
	})
}

func (w *world) begin(limits Limits) {
	began := time.Now()
	elapsed := func() time.Duration { return time.Since(began) }
	tree := func(id kafka.NodeID) *znode.Coordinator {
		return znode.New(znode.Options{
			ClusterID: "cluster", Image: w.Image, Controller: func() kafka.NodeID { return kafka.NoNode },
			MinTimeoutMs: 4000, MaxTimeoutMs: 40000, SnapshotBytes: 1 << 30,
			Runtime: coordinator.Options{NodeID: id, Replicas: w.Set, LoadBytes: 4096, Now: time.Now, Elapsed: elapsed},
		})
	}
	w.tree, w.none = tree(self), tree(other)
	options := Options{
		NodeID: self, Tree: w.tree, Image: w.Image, Elapsed: elapsed, Limits: limits,
		MinTimeoutMs: 4000, MaxTimeoutMs: 40000,
		Create: func(context.Context) error {
			w.lead(self)
			return nil
		},
		Dial: func(context.Context, kafka.NodeID) (net.Conn, error) { return nil, errDial },
	}
	w.server = New(options)
	options.NodeID, options.Tree, options.Dial = other, w.none, w.dialSelf
	w.second = New(options)
}

func (w *world) end() {
	w.tree.Stop()
	w.none.Stop()
	w.second.Stop()
	if !w.ended {
		w.server.Stop()
	}
}

// lead says who has the tree.
func (w *world) lead(leader kafka.NodeID) {
	id := kafka.TopicID{7}
	records := []metadata.Record{w.Partition(id, 0, leader)}
	if w.Epoch == 0 {
		records = append([]metadata.Record{&metadata.TopicRecord{Name: znode.Topic, TopicID: id}}, records...)
	}
	w.Epoch++
	w.Apply(records...)
}

// dialSelf is a connection of the second node to the first one's listener for brokers, which serves one request only.
func (w *world) dialSelf(context.Context, kafka.NodeID) (net.Conn, error) {
	near, far := net.Pipe()
	go func() {
		n, err := readLength(far, 1000)
		if err != nil {
			return
		}
		request, err := readBody(far, nil, n)
		if err != nil {
			return
		}
		serve, err := w.server.Passed(request[8+2+len("moldau")+1:]) // key, version, correlation id, client id, no tags
		if err != nil {
			_ = far.Close()
			return
		}
		if _, err := far.Write([]byte{0, 0, 0, 5, 0, 0, 0, 0, 0}); err == nil {
			serve(far)
		}
	}()
	return near, nil
}

// client is a connection to a server.
type client struct {
	w  *world
	nc net.Conn
}

// connection is one to a server, from an address of its own.
func (w *world) connection(s *Server) client {
	near, far := net.Pipe()
	s.welcome(far)
	return client{w, near}
}

// send sends a frame.
func (c client) send(body []byte) {
	c.w.T.Helper()
	_, err := c.nc.Write(append(appendInt(nil, int32(len(body))), body...))
	c.w.Must(err)
}

// frame returns the next frame; nil when the connection is closed.
func (c client) frame() []byte {
	n, err := readLength(c.nc, 10<<20)
	if err != nil {
		return nil
	}
	b, err := readBody(c.nc, nil, n)
	if err != nil {
		return nil
	}
	return b
}

// isClosed reads up to the end, which has to come within d.
func (c client) isClosed(d time.Duration) bool {
	_ = c.nc.SetReadDeadline(time.Now().Add(d))
	_, err := io.Copy(io.Discard, c.nc)
	return err == nil || !errors.Is(err, context.DeadlineExceeded) && !isTimeout(err)
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// connect begins a session and returns the first answer.
func (c client) connect() []byte {
	c.w.T.Helper()
	c.send(connectFrame(6000, 0, make([]byte, 16)))
	return c.frame()
}

func connectFrame(timeoutMs int32, session int64, password []byte) []byte {
	b := appendInt(nil, 0)
	b = appendLong(b, 0)
	b = appendInt(b, timeoutMs)
	b = appendLong(b, session)
	b = appendBuffer(b, password)
	return appendBool(b, false)
}

func request(xid, kind int32, body ...byte) []byte {
	return append(appendInt(appendInt(nil, xid), kind), body...)
}
