package quorum

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	pb "go.etcd.io/raft/v3/raftpb"

	"moldau/internal/peer"
	"moldau/internal/wire"
)

const (
	maxLinkBytes  = 8 << 20          // what waits for one voter; more is dropped, and raft finds out
	letterBytes   = 2 << 20          // where a request is closed and the rest of the messages goes into the next
	linkIdle      = 30 * time.Second // a link without messages for so long ends
	maxRetryDelay = 500 * time.Millisecond
	complainEvery = 10 * time.Second
)

// link carries messages to one voter: one request at a time, which takes all that waits.
type link struct {
	to     uint64 // raft id
	wake   chan struct{}
	queue  []*pb.Message // guarded by Quorum.mu
	bytes  int           // of queue
	conn   *peer.Conn    // for the link's goroutine, as what follows
	at     string        // the address that conn leads to
	worked bool          // there was a connection since the last one whose end was told as the voter's
	silent complaint
}

// broken delivers when the connection has failed.
func (l *link) broken() <-chan struct{} {
	if l.conn == nil {
		return nil
	}
	return l.conn.Done()
}

// complaint is a fault that is told once per complainEvery.
type complaint struct{ told time.Time }

func (c *complaint) due(now time.Time) bool {
	if !c.told.IsZero() && now.Sub(c.told) < complainEvery {
		return false
	}
	c.told = now
	return true
}

// send hands raft's messages to links.
func (q *Quorum) send(ctx context.Context, messages []*pb.Message) {
	if len(messages) == 0 || q.o.Dial == nil || !q.o.CanVote {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, m := range messages {
		answer := m.GetType() == pb.MsgAppResp || m.GetType() == pb.MsgHeartbeatResp
		if _, ok := q.nameLocked(m.GetTo()); !ok || answer && q.quiet {
			continue
		}
		if m.GetType() == pb.MsgSnap {
			q.snapshotSent[m.GetTo()] = q.clock.ticks
		}
		if m.GetType() == pb.MsgPreVote || m.GetType() == pb.MsgVote {
			m.Commit = new(q.commit) // for learnCommit
		}
		l, ok := q.links[m.GetTo()]
		if !ok {
			l = &link{to: m.GetTo(), wake: make(chan struct{}, 1)}
			q.links[l.to] = l
			q.goroutines.Go(func() { q.carry(ctx, l) })
		}
		size := messageBytes(m)
		if l.bytes+size > maxLinkBytes && l.bytes > 0 {
			q.loseLocked(l)
		}
		l.queue, l.bytes = append(l.queue, m), l.bytes+size
		signal(l.wake)
	}
}

// loseLocked drops what waits for a voter, and has raft told.
func (q *Quorum) loseLocked(l *link) {
	l.queue, l.bytes = nil, 0
	q.unreachable = append(q.unreachable, l.to)
	signal(q.wake)
}

// carry is a link's goroutine.
func (q *Quorum) carry(ctx context.Context, l *link) {
	defer l.hangUp()
	idle := time.NewTimer(linkIdle)
	defer idle.Stop()
	delay := time.Duration(q.o.RetryBackoffMs) * time.Millisecond
	for retry := delay; ; {
		idled := false
		select {
		case <-ctx.Done():
		case <-l.wake:
		case <-l.broken():
			l.hangUp()
		case <-idle.C:
			idled = true
		}
		if ctx.Err() != nil {
			return
		}
		messages, gone := q.takeQueue(l, idled)
		if gone {
			return
		}
		idle.Reset(linkIdle)
		for len(messages) > 0 || q.knocks(l) {
			var err error
			if messages, err = q.post(ctx, l, messages); err == nil {
				retry = delay
				continue
			}
			if ctx.Err() != nil {
				return
			}
			l.hangUp()
			if l.silent.due(q.o.Now()) {
				q.o.Logger.Warn("cannot reach a voter of the metadata quorum", "err", err)
			}
			q.mu.Lock()
			q.loseLocked(l)
			q.mu.Unlock()
			if errors.Is(err, syscall.ECONNREFUSED) {
				q.tellGone(l)
			}
			// What comes meanwhile is sent afterwards: it may be what brings a voter back that was away.
			if messages = nil; !pause(ctx, retry) {
				return
			}
			retry = min(2*retry, maxRetryDelay)
		}
	}
}

// takeQueue takes what waits. A link for which nothing came for a long time is taken out.
func (q *Quorum) takeQueue(l *link, idled bool) (messages []*pb.Message, gone bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	messages, l.queue, l.bytes = l.queue, nil, 0
	if len(messages) == 0 && idled {
		delete(q.links, l.to)
		return nil, true
	}
	return messages, false
}

// post sends some messages and returns the rest. With none it only connects.
func (q *Quorum) post(ctx context.Context, l *link, messages []*pb.Message) (rest []*pb.Message, err error) {
	q.mu.Lock()
	to, ok := q.nameLocked(l.to)
	q.mu.Unlock()
	address, reachable := q.address(to)
	if !ok || !reachable {
		return nil, fmt.Errorf("voter %d has no controller listener that is known here", to.ID)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(q.o.RequestTimeoutMs)*time.Millisecond)
	defer cancel()
	if l.conn != nil && l.at != address {
		l.hangUp()
	}
	if l.conn == nil {
		if l.conn, err = q.dial(ctx, address); err != nil {
			return nil, fmt.Errorf("voter %d: %w", to.ID, err)
		}
		l.at, l.worked = address, true
	}
	if len(messages) == 0 {
		return nil, nil
	}
	n, size := 0, 0
	for n < len(messages) && (n == 0 || size+messageBytes(messages[n]) <= letterBytes) {
		size += messageBytes(messages[n])
		n++
	}
	body := (&letter{clusterID: q.o.ClusterID, from: q.self, to: l.to, messages: messages[:n]}).appendTo(make([]byte, 0, size))
	answer, err := l.conn.DoPrivate(ctx, wire.RaftKey, body)
	if err == nil {
		err = raftAnswer(answer)
	}
	if err != nil {
		return nil, fmt.Errorf("voter %d at %s: %w", to.ID, address, err)
	}
	return messages[n:], nil
}

// AppendRaftAnswer makes the body of the response to a request with wire.RaftKey out of what Receive returned.
func AppendRaftAnswer(dst []byte, err error) []byte {
	return binary.BigEndian.AppendUint16(dst, uint16(wire.Code(err)))
}

func raftAnswer(body []byte) error {
	if len(body) < 2 {
		return errShort
	}
	return kerr.ErrorForCode(int16(binary.BigEndian.Uint16(body)))
}

func (l *link) hangUp() {
	if l.conn != nil {
		l.conn.Close()
		l.conn = nil
	}
}

func (q *Quorum) dial(ctx context.Context, address string) (*peer.Conn, error) {
	return peer.Dial(ctx, address, peer.Options{Dial: q.o.Dial, ClientID: fmt.Sprintf("controller-%d", q.self.ID), MaxBytes: 64 << 20})
}

// address returns where a voter listens: its controller listener with the name of ours, else its first.
func (q *Quorum) address(v Voter) (string, bool) {
	if len(v.Endpoints) == 0 {
		return "", false
	}
	found := v.Endpoints[0]
	if len(q.self.Endpoints) > 0 {
		for _, e := range v.Endpoints {
			if e.Name == q.self.Endpoints[0].Name {
				found = e
				break
			}
		}
	}
	return found.hostPort(), true
}

// pause waits; false when ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
