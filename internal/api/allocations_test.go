//go:build !race && !sim

package api

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/wire"
)

// TestAllocations bounds what one request allocates on its whole way: read from a connection, decoded, served, synced or
// read, answered. Nobody shares the sync with it here, and the disk in memory takes some, too: both are told apart.
func TestAllocations(t *testing.T) {
	inNode(t, nodeOptions{}, func(n *testNode) {
		n.create("t", 6)
		n.mustProduce("t", 0, 10)
		id := kmsg.StringPtr("client")
		produce := func(acks int16, partitions ...int32) []byte {
			req := n.produceRequest(13, acks, "t", partitions[0], records(10, plain()))
			for _, p := range partitions[1:] {
				part := req.Topics[0].Partitions[0]
				part.Partition = p
				req.Topics[0].Partitions = append(req.Topics[0].Partitions, part)
			}
			return wire.AppendRequest(nil, 1, id, req)
		}
		fetch := func(sessionID, epoch int32) []byte {
			o := fetchOptions{version: 18, session: sessionID, epoch: epoch, minBytes: 1}
			return wire.AppendRequest(nil, 1, id, n.fetchRequest(o, "t", map[int32]int64{0: 0}))
		}
		session := n.ask(n.fetchRequest(fetchOptions{version: 18, epoch: initialEpoch, minBytes: 1}, "t", map[int32]int64{0: 0})).(*kmsg.FetchResponse).SessionID
		inSession := fetch(session, 0x11223344)
		epochAt := bytes.Index(inSession, []byte{0x11, 0x22, 0x33, 0x44})
		epoch := uint32(0)
		const (
			disk      = 3  // pages of the disk in memory that a write and its sync take
			wholeSync = 12 // one of the whole filesystem, there
		)
		for _, c := range []struct {
			name  string
			frame []byte
			next  func(frame []byte)
			most  float64
		}{
			{"Produce, acks=1", produce(1, 0), nil, 5 + disk},
			{"Produce, acks=all", produce(-1, 0), nil, 5 + disk},
			{"Produce, acks=all, 6 partitions", produce(-1, 0, 1, 2, 3, 4, 5), nil, 5 + 5*3 + 6*disk + wholeSync},
			{"Fetch", fetch(noSession, finalEpoch), nil, 5},
			{"Fetch in a session", inSession, func(frame []byte) {
				epoch++
				binary.BigEndian.PutUint32(frame[epochAt:], epoch)
			}, 5},
		} {
			conn := &replayed{frame: c.frame, due: make(chan struct{}), answered: make(chan struct{}), closed: make(chan struct{})}
			n.broker.Conns <- conn
			got := testing.AllocsPerRun(500, func() {
				if c.next != nil {
					c.next(c.frame)
				}
				conn.due <- struct{}{}
				<-conn.answered
			})
			_ = conn.Close()
			resp := kmsg.ResponseForKey(int16(binary.BigEndian.Uint16(c.frame[4:])))
			resp.SetVersion(int16(binary.BigEndian.Uint16(c.frame[6:])))
			if _, err := wire.ReadResponse(conn.answer[4:], resp); err != nil {
				n.t.Fatal(err)
			}
			if !served(resp) {
				n.t.Errorf("%s: %+v", c.name, resp)
			}
			n.t.Logf("%s: %.0f allocations", c.name, got)
			if got > c.most {
				n.t.Errorf("%s: %.0f allocations, at most %.0f are allowed", c.name, got, c.most)
			}
		}
	})
}

// served reports whether a Produce or Fetch did what it was to do.
func served(resp kmsg.Response) bool {
	if p, ok := resp.(*kmsg.ProduceResponse); ok {
		return p.Topics[0].Partitions[0].ErrorCode == 0
	}
	f := resp.(*kmsg.FetchResponse)
	return f.ErrorCode == 0 && len(f.Topics[0].Partitions[0].RecordBatches) > 0
}

// replayed is a connection on which the same frame comes again and again, each time that it is due.
type replayed struct {
	frame         []byte
	at            int // how much of the frame has been read
	answer        []byte
	due, answered chan struct{}
	closed        chan struct{}
	once          sync.Once
}

func (c *replayed) Read(b []byte) (int, error) {
	if c.at == 0 {
		select {
		case <-c.due:
		case <-c.closed:
			return 0, io.EOF
		}
	}
	n := copy(b, c.frame[c.at:])
	c.at = (c.at + n) % len(c.frame)
	return n, nil
}

func (c *replayed) Write(b []byte) (int, error) {
	if c.whole() {
		c.answer = c.answer[:0]
	}
	if c.answer = append(c.answer, b...); c.whole() {
		c.answered <- struct{}{}
	}
	return len(b), nil
}

func (c *replayed) whole() bool {
	return len(c.answer) >= 4 && len(c.answer) == 4+int(binary.BigEndian.Uint32(c.answer))
}

func (c *replayed) Close() error {
	c.once.Do(func() { close(c.closed) })
	return nil
}

func (*replayed) LocalAddr() net.Addr              { return replayedAddr{} }
func (*replayed) RemoteAddr() net.Addr             { return replayedAddr{} }
func (*replayed) SetDeadline(time.Time) error      { return nil }
func (*replayed) SetReadDeadline(time.Time) error  { return nil }
func (*replayed) SetWriteDeadline(time.Time) error { return nil }

type replayedAddr struct{}

func (replayedAddr) Network() string { return "memory" }
func (replayedAddr) String() string  { return "memory:1" }
