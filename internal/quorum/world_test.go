package quorum

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/vfs"
	"moldau/internal/wire"
)

// world is a few nodes with a memory disk each, and a network of pipes between them. It lives in a synctest bubble.
type world struct {
	t       *testing.T
	nodes   map[kafka.NodeID]*member // written under mu, by the test's goroutine alone
	serving sync.WaitGroup

	mu    sync.Mutex
	cuts  map[[2]kafka.NodeID]bool // from, to: no connection is made and none lives
	conns map[net.Conn][2]kafka.NodeID

	refusals map[[2]kafka.NodeID]bool // from, to: as with cuts, but it is a machine that says so
}

// member is a node that may run or not.
type member struct {
	self    Voter
	disk    *vfs.Mem
	options func(*Options)

	mu     sync.Mutex // guards what follows
	q      *Quorum
	answer func() []byte // to wire.FormKey while it forms a cluster
	r      *recorder
}

func (m *member) running() (*Quorum, func() []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.q, m.answer
}

const testCluster = "aWorldForTestsOnly0000"

func testVoter(id kafka.NodeID) Voter {
	return Voter{ID: id, DirID: kafka.DirID{0: byte(id), 15: 1}, Endpoints: []Endpoint{{Name: "CONTROLLER", Host: fmt.Sprintf("n%d", id), Port: 9093}}}
}

func addressOf(v Voter) string { return v.Endpoints[0].hostPort() }

// inWorld runs f in a bubble, with n voters that are formed and not started.
func inWorld(t *testing.T, n int, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, nodes: make(map[kafka.NodeID]*member), cuts: make(map[[2]kafka.NodeID]bool), conns: make(map[net.Conn][2]kafka.NodeID), refusals: make(map[[2]kafka.NodeID]bool)}
		var voters []Voter
		for id := range kafka.NodeID(n) {
			voters = append(voters, testVoter(id+1))
		}
		for _, v := range voters {
			w.add(v, func(o *Options) { o.Voters = voters })
		}
		defer func() {
			for id := range w.nodes {
				w.kill(id)
			}
			w.serving.Wait()
		}()
		f(w)
	})
}

// add makes a node that does not run yet.
func (w *world) add(self Voter, options func(*Options)) *member {
	m := &member{self: self, disk: newDisk(w.t), options: options}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nodes[self.ID] = m
	return m
}

// move lets a node that is down listen elsewhere.
func (w *world) move(m *member, to Endpoint) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m.self.Endpoints = []Endpoint{to}
}

func (w *world) open(id kafka.NodeID) (*Quorum, error) {
	m := w.nodes[id]
	r := &recorder{leads: -1}
	o := testOptions(m.disk, r)
	o.NodeID, o.DirID, o.Endpoints, o.ClusterID, o.CanVote, o.Voters = m.self.ID, m.self.DirID, m.self.Endpoints, testCluster, true, nil
	o.Dial = w.dialFrom(id)
	if os.Getenv("QUORUM_LOG") != "" {
		o.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})).With("node", id)
	}
	if m.options != nil {
		m.options(&o)
	}
	q, err := Open(o)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	m.q, m.r = q, r
	m.mu.Unlock()
	return q, nil
}

func (w *world) start(ids ...kafka.NodeID) {
	w.t.Helper()
	for _, id := range ids {
		q, err := w.open(id)
		if err != nil {
			w.t.Fatalf("node %d: %v", id, err)
		}
		q.Start()
	}
}

// stop ends a node in good order.
func (w *world) stop(id kafka.NodeID) {
	w.t.Helper()
	m := w.nodes[id]
	q, _ := m.running()
	if err := q.Stop(); err != nil {
		w.t.Errorf("stop node %d: %v", id, err)
	}
	w.hangUp(id)
	m.mu.Lock()
	m.q = nil
	m.mu.Unlock()
}

// kill ends a node as kill -9 does: what it had written stays, and it says nothing more.
func (w *world) kill(id kafka.NodeID) {
	m := w.nodes[id]
	q, _ := m.running()
	if q == nil {
		return
	}
	m.mu.Lock()
	m.q = nil
	m.disk = m.disk.KillClone()
	m.mu.Unlock()
	w.hangUp(id)
	q.mu.Lock()
	q.leaving = true // nobody to hand over to
	q.mu.Unlock()
	_ = q.Stop()
}

// hangUp ends all connections of a node.
func (w *world) hangUp(id kafka.NodeID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c, ends := range w.conns {
		if ends[0] == id || ends[1] == id {
			_ = c.Close()
			delete(w.conns, c)
		}
	}
}

// cut parts a node from all others, or heals that.
func (w *world) cut(id kafka.NodeID, on bool) {
	w.mu.Lock()
	for other := range w.nodes {
		w.cuts[[2]kafka.NodeID{id, other}], w.cuts[[2]kafka.NodeID{other, id}] = on, on
	}
	w.mu.Unlock()
	if on {
		w.hangUp(id)
	}
}

// refuse has a node refuse the connections that another one makes, as a firewall between them does.
func (w *world) refuse(from, to kafka.NodeID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ends := [2]kafka.NodeID{from, to}
	w.refusals[ends] = true
	for c, of := range w.conns {
		if of == ends {
			_ = c.Close()
			delete(w.conns, c)
		}
	}
}

func (w *world) dialFrom(from kafka.NodeID) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, address string) (net.Conn, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for id, m := range w.nodes {
			if addressOf(m.self) != address {
				continue
			}
			q, answer := m.running()
			switch {
			case w.cuts[[2]kafka.NodeID{from, id}]:
				return nil, errors.New("no route to host")
			case q == nil && answer == nil, w.refusals[[2]kafka.NodeID{from, id}]:
				return nil, &net.OpError{Op: "dial", Net: "pipe", Err: syscall.ECONNREFUSED}
			}
			ours, theirs := net.Pipe()
			w.conns[ours], w.conns[theirs] = [2]kafka.NodeID{from, id}, [2]kafka.NodeID{from, id}
			w.serving.Go(func() { w.serve(m, theirs) })
			return ours, nil
		}
		return nil, fmt.Errorf("no such host: %s", address)
	}
}

// serve does what api does on a controller's listener.
func (w *world) serve(m *member, c net.Conn) {
	defer func() {
		_ = c.Close()
		w.mu.Lock()
		delete(w.conns, c)
		w.mu.Unlock()
	}()
	for {
		frame, err := wire.ReadFrame(c, 64<<20, func(n int) []byte { return make([]byte, n) })
		if err != nil {
			return
		}
		h, err := wire.ParseHeader(frame)
		if err != nil {
			return
		}
		req, err := wire.DecodeRequest(h, frame[h.BodyOffset:])
		if err != nil {
			return
		}
		q, answer := m.running()
		resp := respond(q, answer, req)
		if resp == nil {
			return
		}
		resp.SetVersion(h.Version)
		if _, err := c.Write(wire.AppendResponse(nil, h.CorrelationID, resp)); err != nil {
			return
		}
	}
}

func respond(q *Quorum, answer func() []byte, req kmsg.Request) kmsg.Response {
	if req.Key() == kmsg.ApiVersions.Int16() {
		resp := kmsg.NewPtrApiVersionsResponse()
		for _, key := range []kmsg.Key{kmsg.ApiVersions, kmsg.Fetch, kmsg.FetchSnapshot, kmsg.AddRaftVoter, kmsg.RemoveRaftVoter, kmsg.UpdateRaftVoter} {
			k := kmsg.NewApiVersionsResponseApiKey()
			k.ApiKey, k.MaxVersion = key.Int16(), kmsg.RequestForKey(key.Int16()).MaxVersion()
			resp.ApiKeys = append(resp.ApiKeys, k)
		}
		return resp
	}
	if private, ok := req.(*wire.PrivateRequest); ok {
		resp := &wire.PrivateResponse{APIKey: private.APIKey}
		switch {
		case private.APIKey == wire.FormKey && q == nil && answer != nil:
			resp.Body = answer()
		case q == nil:
			return nil
		case private.APIKey == wire.FormKey:
			resp.Body = q.FormAnswer()
		default:
			resp.Body = AppendRaftAnswer(nil, q.Receive(private.Body))
		}
		return resp
	}
	if q == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	switch req := req.(type) {
	case *kmsg.FetchRequest:
		return serveFetch(q, req)
	case *kmsg.FetchSnapshotRequest:
		return serveSnapshot(q, req)
	case *kmsg.AddRaftVoterRequest:
		resp := kmsg.NewPtrAddRaftVoterResponse()
		v := Voter{ID: req.VoterID, DirID: req.VoterDirectoryID}
		for _, l := range req.Listeners {
			v.Endpoints = append(v.Endpoints, Endpoint{l.Name, l.Host, l.Port})
		}
		resp.ErrorCode = wire.Code(q.AddVoter(ctx, v))
		return resp
	case *kmsg.RemoveRaftVoterRequest:
		resp := kmsg.NewPtrRemoveRaftVoterResponse()
		resp.ErrorCode = wire.Code(q.RemoveVoter(ctx, Voter{ID: req.VoterID, DirID: req.VoterDirectoryID}))
		return resp
	case *kmsg.UpdateRaftVoterRequest:
		resp := kmsg.NewPtrUpdateRaftVoterResponse()
		v := Voter{ID: req.VoterID, DirID: req.VoterDirectoryID}
		for _, l := range req.Listeners {
			v.Endpoints = append(v.Endpoints, Endpoint{l.Name, l.Host, l.Port})
		}
		resp.ErrorCode = wire.Code(q.UpdateVoter(ctx, v))
		return resp
	}
	return nil
}

func serveFetch(q *Quorum, req *kmsg.FetchRequest) kmsg.Response {
	asked := &req.Topics[0].Partitions[0]
	resp := kmsg.NewPtrFetchResponse()
	if req.ClusterID != nil && *req.ClusterID != q.o.ClusterID {
		resp.ErrorCode = 104
		return resp
	}
	timer := time.NewTimer(time.Duration(req.MaxWaitMillis) * time.Millisecond)
	defer timer.Stop()
	for {
		changed := q.Changed()
		found, err := q.Fetch(FetchRequest{
			ReplicaID: req.ReplicaState.ID, ReplicaDirID: asked.ReplicaDirectoryID, CurrentEpoch: asked.CurrentLeaderEpoch,
			Offset: asked.FetchOffset, LastFetchedEpoch: asked.LastFetchedEpoch, MaxBytes: int(asked.PartitionMaxBytes),
		})
		p := kmsg.NewFetchResponseTopicPartition()
		p.ErrorCode, p.HighWatermark = wire.Code(err), found.HighWatermark
		p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch = found.LeaderID, found.LeaderEpoch
		if found.Diverging != nil {
			p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset = found.Diverging.Epoch, found.Diverging.EndOffset
		}
		if found.SnapshotID != nil {
			p.SnapshotID.Epoch, p.SnapshotID.EndOffset = found.SnapshotID.Epoch, found.SnapshotID.EndOffset
		}
		if found.Region != nil {
			p.RecordBatches, _ = found.Region.ReadAll()
			found.Region.Release()
		}
		waits := err == nil && found.Diverging == nil && found.SnapshotID == nil && found.Region == nil
		if waits {
			select {
			case <-changed:
				continue
			case <-timer.C:
			}
		}
		for _, v := range q.Status().VoterSet {
			if v.ID == found.LeaderID {
				b := kmsg.NewFetchResponseBroker()
				b.NodeID, b.Host, b.Port = v.ID, v.Endpoints[0].Host, int32(v.Endpoints[0].Port)
				resp.Brokers = append(resp.Brokers, b)
			}
		}
		topic := kmsg.NewFetchResponseTopic()
		topic.TopicID, topic.Partitions = req.Topics[0].TopicID, append(topic.Partitions, p)
		resp.Topics = append(resp.Topics, topic)
		return resp
	}
}

func serveSnapshot(q *Quorum, req *kmsg.FetchSnapshotRequest) kmsg.Response {
	asked := &req.Topics[0].Partitions[0]
	id := SnapshotID{EndOffset: asked.SnapshotID.EndOffset, Epoch: asked.SnapshotID.Epoch}
	chunk, err := q.FetchSnapshot(id, asked.CurrentLeaderEpoch, asked.Position, int(req.MaxBytes))
	p := kmsg.NewFetchSnapshotResponseTopicPartition()
	p.ErrorCode, p.Size, p.Position, p.Bytes = wire.Code(err), chunk.Size, asked.Position, chunk.Bytes
	topic := kmsg.NewFetchSnapshotResponseTopic()
	topic.Topic, topic.Partitions = TopicName, append(topic.Partitions, p)
	resp := kmsg.NewPtrFetchSnapshotResponse()
	resp.Topics = append(resp.Topics, topic)
	return resp
}

// await lets time pass until a condition holds.
func (w *world) await(what string, within time.Duration, holds func() bool) {
	w.t.Helper()
	for end := time.Now().Add(within); ; time.Sleep(5 * time.Millisecond) {
		synctest.Wait()
		if holds() {
			return
		}
		if time.Now().After(end) {
			w.t.Fatalf("not within %v: %s\n%s", within, what, w.describe())
		}
	}
}

func (w *world) describe() (text string) {
	for id := kafka.NodeID(1); int(id) <= len(w.nodes)+5; id++ {
		if m, ok := w.nodes[id]; ok {
			q, _ := m.running()
			if q == nil {
				text += fmt.Sprintf("node %d is down\n", id)
				continue
			}
			text += fmt.Sprintf("node %d: %+v; err %v; heard %q\n", id, q.Status(), q.Err(), m.r.heard())
		}
	}
	return text
}

// leader waits for a node that leads and has told its listener.
func (w *world) leader(not ...kafka.NodeID) (*member, kafka.Epoch) {
	w.t.Helper()
	var found *member
	var epoch kafka.Epoch
	w.await("a leader", 5*time.Second, func() bool {
		for id, m := range w.nodes {
			q, _ := m.running()
			if q == nil || slices.Contains(not, id) {
				continue
			}
			if e, leads := m.r.leading(); leads && (found == nil || e > epoch) {
				found, epoch = m, e
			}
		}
		return found != nil
	})
	return found, epoch
}

// propose commits values through a leader.
func (w *world) propose(m *member, epoch kafka.Epoch, v ...string) {
	w.t.Helper()
	_, done, err := m.q.Propose(epoch, values(v...))
	if err == nil {
		err = <-done
	}
	if err != nil {
		w.t.Fatalf("propose %q through node %d: %v\n%s", v, m.self.ID, err, w.describe())
	}
}

// agreed waits until all running nodes have the same state.
func (w *world) agreed(want ...string) {
	w.t.Helper()
	w.await(fmt.Sprintf("everybody has %q", want), 10*time.Second, func() bool {
		for _, m := range w.nodes {
			if q, _ := m.running(); q == nil {
				continue
			}
			if _, state := m.r.snapshot(); !slices.EqualFunc(state, want, func(a []byte, b string) bool { return string(a) == b }) {
				return false
			}
		}
		return true
	})
}

// other is a running node that is none of those given, the one with the lowest id.
func (w *world) other(not ...*member) *member {
	for id := kafka.NodeID(1); id < 100; id++ {
		m, ok := w.nodes[id]
		if !ok || slices.Contains(not, m) {
			continue
		}
		if q, _ := m.running(); q != nil {
			return m
		}
	}
	w.t.Fatal("no other node runs")
	return nil
}

// with is the one change of options after the other.
func with(a, b func(*Options)) func(*Options) {
	return func(o *Options) {
		a(o)
		b(o)
	}
}
