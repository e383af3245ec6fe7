package server

import (
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/wire"
)

// onSocket has the server serve sockets of the kernel too, and returns what dials it.
func (w *world) onSocket() (dial func() *client) {
	w.t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	w.run.Go(func() {
		if err := w.srv.Serve(ln, Listener{Name: "PLAINTEXT", Kind: Broker}); err != nil {
			w.t.Errorf("Serve: %v", err)
		}
	})
	return func() *client {
		w.t.Helper()
		nc, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			w.t.Fatal(err)
		}
		w.t.Cleanup(func() { _ = nc.Close() })
		return &client{w.t, nc}
	}
}

// TestSocket: requests of every size arrive as they were sent, in however many pieces.
func TestSocket(t *testing.T) {
	g := newGate()
	w := newWorld(t, Limits{}, Listener{}, g.route())
	defer w.stop()
	dial := w.onSocket()
	var payloads []string
	var all []byte
	for i, size := range []int{0, 1, readAhead - 200, readAhead, readAhead + 1, 3, 5 * readAhead, 200_000, 7} {
		payloads = append(payloads, strings.Repeat(string(rune('a'+i)), size))
		all = append(all, wire.AppendRequest(nil, int32(i), kmsg.StringPtr("test"), produce(payloads[i]))...)
	}
	for _, piece := range []int{1 << 20, readAhead, 1000, 7} {
		c := dial()
		sent := make(chan error, 1)
		go func() {
			for b := range slices.Chunk(all, piece) {
				if _, err := c.nc.Write(b); err != nil {
					sent <- err
					return
				}
			}
			sent <- nil
		}()
		for i, want := range payloads {
			if got := <-g.handled; got != want {
				t.Fatalf("in pieces of %d: payload %d has %d bytes, want %d", piece, i, len(got), len(want))
			}
			if id := c.receive(produceAnswer()); id != int32(i) {
				t.Fatalf("in pieces of %d: answer %d to request %d", piece, id, i)
			}
		}
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
	}
}

// TestSilentConnectionsHoldNoBuffer: a connection that has asked something and says no more takes less than one buffer, its other end
// in this process included.
func TestSilentConnectionsHoldNoBuffer(t *testing.T) {
	const connections = 500
	w := newWorld(t, Limits{}, Listener{}, apiVersionsRoute())
	defer w.stop()
	dial := w.onSocket()
	ask := func() *client {
		c := dial()
		c.send(1, kmsg.NewPtrApiVersionsRequest())
		c.receive(kmsg.NewPtrApiVersionsResponse())
		return c
	}
	inUse := func() int64 {
		runtime.GC()
		runtime.GC() // pools keep what they hold until the second
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	ask()
	before := inUse()
	clients := make([]*client, connections)
	for i := range clients {
		clients[i] = ask()
	}
	if each := (inUse() - before) / connections; each >= readAhead {
		t.Errorf("a silent connection takes %d bytes", each)
	} else {
		t.Logf("a silent connection takes %d bytes", each)
	}
	runtime.KeepAlive(clients)
}
