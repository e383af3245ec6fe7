package api

import (
	"io"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/metrics"
	"moldau/internal/server"
	"moldau/internal/stand"
	"moldau/internal/wire"
)

// TestAllocations bounds what one request allocates from its frame to its answer, its connection's share excepted.
func TestAllocations(t *testing.T) {
	inNode(t, nodeOptions{}, func(n *testNode) {
		n.create("t", 1)
		n.mustProduce("t", 0, 10)
		r := n.request()
		serve := func(handle func(*server.Request) server.Reply, frame []byte) {
			h, err := wire.ParseHeader(frame)
			if err != nil {
				n.t.Fatal(err)
			}
			body, err := wire.DecodeRequest(h, frame[h.BodyOffset:])
			if err != nil {
				n.t.Fatal(err)
			}
			r.Header, r.Body = h, body
			reply := handle(r)
			if _, err := reply.Response.WriteTo(io.Discard); err != nil {
				n.t.Fatal(err)
			}
			if held, ok := reply.Response.(interface{ Release() }); ok {
				held.Release()
			}
		}
		id := kmsg.StringPtr("client")
		produce := wire.AppendRequest(nil, 1, id, n.produceRequest(13, 1, "t", 0, records(10, plain())))[4:]
		fetch := wire.AppendRequest(nil, 1, id, n.fetchRequest(fetchOptions{version: 18, epoch: finalEpoch, minBytes: 1}, "t", map[int32]int64{0: 0}))[4:]
		for _, c := range []struct {
			name   string
			handle func(*server.Request) server.Reply
			frame  []byte
			most   float64
		}{
			{"Produce", n.api.produce, produce, 30},
			{"Fetch", n.api.fetch, fetch, 26},
		} {
			got := testing.AllocsPerRun(200, func() { serve(c.handle, c.frame) })
			n.t.Logf("%s: %.0f allocations", c.name, got)
			if got > c.most {
				n.t.Errorf("%s: %.0f allocations, at most %.0f are allowed", c.name, got, c.most)
			}
		}
	})
}

// request is a request whose connection is real.
func (n *testNode) request() *server.Request {
	var got *server.Request
	srv := server.New(server.Options{
		Routes: []server.Route{{Key: 18, Max: 5, Listeners: server.Broker, Handle: func(r *server.Request) server.Reply {
			got = r
			return n.api.apiVersions(r)
		}}},
		Limits: server.Limits{RequestMaxBytes: 1 << 20}, Logger: n.api.o.Logger, Metrics: metrics.NewSet(), Now: n.api.o.Now,
	})
	p := stand.NewPipes()
	n.run.Go(func() { _ = srv.Serve(p, server.Listener{Name: "PLAINTEXT", Kind: server.Broker}) })
	c := n.dial(p)
	c.do(kmsg.NewPtrApiVersionsRequest())
	synctest.Wait()
	c.close()
	synctest.Wait()
	if err := srv.Stop(n.t.Context()); err != nil {
		n.t.Error(err)
	}
	return got
}
