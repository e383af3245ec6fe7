package server

import (
	"encoding/binary"
	"net"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/wire"
)

func frameOf(body []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

func apiVersionsRoute() Route {
	return Route{Key: 18, Min: 0, Max: 5, Listeners: Broker | Controller, Handle: func(r *Request) Reply {
		return r.Answer(kmsg.NewPtrApiVersionsResponse())
	}}
}

// TestBadRequests: one log line, the earlier answers, and nothing else.
func TestBadRequests(t *testing.T) {
	old := kmsg.NewPtrProduceRequest()
	old.Version = 2
	controllerOnly := kmsg.NewPtrBrokerHeartbeatRequest()
	cut := wire.AppendRequest(nil, 2, nil, produce("payload"))
	cut = frameOf(cut[4 : len(cut)-9])
	unknown := frameOf([]byte{0x7f, 0, 0, 0, 0, 0, 0, 2, 0xff, 0xff})
	for name, c := range map[string]struct {
		bytes  []byte
		reason string
	}{
		"huge length":               {[]byte{0x7f, 0xff, 0xff, 0xff}, "socket.request.max.bytes"},
		"HTTP":                      {[]byte("GET / HTTP/1.1\r\n\r\n")[:4], "socket.request.max.bytes"},
		"negative length":           {[]byte{0xff, 0xff, 0xff, 0xff}, "length"},
		"empty":                     {frameOf(nil), ""},
		"half a header":             {frameOf([]byte{0, 0, 0}), ""},
		"unknown key":               {unknown, ""},
		"unsupported version":       {wire.AppendRequest(nil, 2, nil, old), "Produce version 2: served are 3 to 13"},
		"another listener's":        {wire.AppendRequest(nil, 2, nil, controllerOnly), "BrokerHeartbeat"},
		"body ends early":           {cut, "Produce version 9"},
		"larger than the route has": {wire.AppendRequest(nil, 2, nil, produce(strings.Repeat("x", 5000))), "largest allowed is 4000"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGate("first")
				route := g.route()
				route.MaxBytes = 4000
				heartbeat := Route{Key: 63, Min: 0, Max: 2, Listeners: Controller, Handle: func(r *Request) Reply {
					t.Error("a request of the controller's listener was served on a broker's")
					return r.Answer(kmsg.NewPtrBrokerHeartbeatResponse())
				}}
				w := newWorld(t, Limits{}, Listener{}, route, heartbeat)
				client := w.dial("10.0.0.9:77")
				client.send(1, produce("first"))
				client.sendBytes(c.bytes)
				synctest.Wait()
				close(g.open["first"])
				if id := client.receive(produceAnswer()); id != 1 {
					t.Errorf("got reply %d", id)
				}
				client.receiveEnd()
				w.stop()
				lines := w.log.lines()
				if len(lines) != 1 || !strings.Contains(lines[0], "remote=10.0.0.9:77") || !strings.Contains(lines[0], c.reason) {
					t.Errorf("log: %q, want one line with %q", lines, c.reason)
				}
			})
		})
	}
}

func TestApiVersionsOfTheFuture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Limits{}, Listener{}, apiVersionsRoute())
		c := w.dial("10.0.0.1:1")
		// A header of version 2 and a body that nobody knows.
		c.sendBytes(frameOf([]byte{0, 18, 0, 99, 0, 0, 0, 7, 0xff, 0xff, 0, 1, 2, 3}))
		resp := kmsg.NewPtrApiVersionsResponse()
		if id := c.receive(resp); id != 7 {
			t.Errorf("got reply %d", id)
		}
		if resp.ErrorCode != kerr.UnsupportedVersion.Code {
			t.Errorf("error code %d", resp.ErrorCode)
		}
		if len(resp.ApiKeys) != 1 || resp.ApiKeys[0].ApiKey != 18 || resp.ApiKeys[0].MinVersion != 0 || resp.ApiKeys[0].MaxVersion != 5 {
			t.Errorf("rows %+v, want that of ApiVersions alone", resp.ApiKeys)
		}
		again := kmsg.NewPtrApiVersionsRequest()
		c.send(8, again) // the connection goes on
		if id := c.receive(kmsg.NewPtrApiVersionsResponse()); id != 8 {
			t.Errorf("got reply %d", id)
		}
		c.nc.Close()
		w.stop()
	})
}

func TestDeclaredLengthTakesNoMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Limits{RequestMaxBytes: 100 << 20}, Listener{}, apiVersionsRoute())
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var clients []*client
		for range 50 {
			c := w.dial("10.0.0.1:1")
			c.sendBytes([]byte{5, 0, 0, 0, 0, 18}) // 80 MiB declared, two bytes sent
			clients = append(clients, c)
		}
		synctest.Wait()
		runtime.ReadMemStats(&after)
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 50*(200<<10) {
			t.Errorf("50 connections that declare 80 MiB each took %d bytes", grown)
		}
		for _, c := range clients {
			c.nc.Close()
		}
		w.stop()
	})
}

func TestIdleConnectionsAreClosed(t *testing.T) {
	const idle = 10 * time.Second
	for name, behave := range map[string]func(c *client){
		"silent":  func(c *client) {},
		"dribble": func(c *client) { dribble(c) },
		"takes no reply": func(c *client) {
			c.send(1, kmsg.NewPtrApiVersionsRequest())
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, Limits{Idle: idle}, Listener{}, apiVersionsRoute())
				c := w.dial("10.0.0.1:1")
				go behave(c)
				time.Sleep(2*idle + time.Second)
				synctest.Wait()
				w.srv.mu.Lock()
				left := len(w.srv.mu.conns)
				w.srv.mu.Unlock()
				if left != 0 {
					t.Error("the connection is still there")
				}
				c.nc.Close()
				w.stop()
			})
		})
	}
}

// dribble sends one byte of a request per second for as long as it is let.
func dribble(c *client) {
	b := wire.AppendRequest(nil, 1, nil, produce(strings.Repeat("x", 100)))
	for i := range b {
		time.Sleep(time.Second)
		if _, err := c.nc.Write(b[i : i+1]); err != nil {
			return
		}
	}
}

func TestBusyConnectionsStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Limits{Idle: 10 * time.Second}, Listener{}, apiVersionsRoute())
		c := w.dial("10.0.0.1:1")
		for i := range int32(10) {
			time.Sleep(9 * time.Second)
			c.send(i, kmsg.NewPtrApiVersionsRequest())
			if id := c.receive(kmsg.NewPtrApiVersionsResponse()); id != i {
				t.Fatalf("got reply %d, want %d", id, i)
			}
		}
		c.nc.Close()
		w.stop()
	})
}

func TestConnectionLimits(t *testing.T) {
	t.Run("per address", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, Limits{Connections: ConnectionLimits{PerIP: 1, PerIPOverrides: map[string]int{"10.0.0.2": 2}}}, Listener{}, apiVersionsRoute())
			first := w.dial("10.0.0.1:1")
			w.dial("10.0.0.1:2").receiveEnd()
			var others []*client
			for range 2 {
				others = append(others, w.dial("10.0.0.2:1"))
			}
			w.dial("10.0.0.2:3").receiveEnd()
			first.nc.Close()
			synctest.Wait()
			again := w.dial("10.0.0.1:3") // its place is free
			again.send(1, kmsg.NewPtrApiVersionsRequest())
			again.receive(kmsg.NewPtrApiVersionsResponse())
			for _, c := range append(others, again) {
				c.nc.Close()
			}
			w.stop()
		})
	})
	t.Run("in all", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, Limits{Connections: ConnectionLimits{Max: 2}}, Listener{}, apiVersionsRoute())
			a, b := w.dial("10.0.0.1:1"), w.dial("10.0.0.1:2")
			waited := make(chan *client)
			go func() { waited <- w.dial("10.0.0.1:3") }()
			synctest.Wait()
			select {
			case <-waited:
				t.Fatal("a third connection was accepted")
			default:
			}
			a.nc.Close()
			c := <-waited
			c.send(1, kmsg.NewPtrApiVersionsRequest())
			c.receive(kmsg.NewPtrApiVersionsResponse())
			b.nc.Close()
			c.nc.Close()
			w.stop()
		})
	})
}

func TestProtectedListenerIsNotHeldUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Limits{Connections: ConnectionLimits{Max: 1}}, Listener{}, apiVersionsRoute())
		clients := w.dial("10.0.0.1:1")
		brokers := newMemoryListener()
		w.run.Go(func() {
			if err := w.srv.Serve(brokers, Listener{Name: "REPLICATION", Kind: Broker, Protected: true}); err != nil {
				t.Errorf("Serve: %v", err)
			}
		})
		ours, theirs := net.Pipe()
		brokers.conns <- memoryConn{theirs, "10.0.0.2:1"}
		other := &client{t, ours}
		other.send(1, kmsg.NewPtrApiVersionsRequest())
		other.receive(kmsg.NewPtrApiVersionsResponse())
		other.nc.Close()
		clients.nc.Close()
		w.stop()
	})
}

func TestListenerHasItsOwnLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Limits{Connections: ConnectionLimits{Own: map[string]OwnLimits{"PLAINTEXT": {Max: 1}}}}, Listener{Name: "PLAINTEXT", Kind: Broker}, apiVersionsRoute())
		first := w.dial("10.0.0.1:1")
		second := make(chan *client)
		go func() { second <- w.dial("10.0.0.1:2") }()
		synctest.Wait()
		select {
		case <-second:
			t.Fatal("a second connection was accepted")
		default:
		}
		first.nc.Close()
		c := <-second
		c.send(1, kmsg.NewPtrApiVersionsRequest())
		c.receive(kmsg.NewPtrApiVersionsResponse())
		c.nc.Close()
		w.stop()
	})
}

// TestConnectionRate: after a second's worth at once, new connections come one by one.
func TestConnectionRate(t *testing.T) {
	for name, limits := range map[string]ConnectionLimits{
		"in all":        {PerSecond: 4},
		"of a listener": {PerSecond: 1000, Own: map[string]OwnLimits{"PLAINTEXT": {PerSecond: 4}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, Limits{Connections: limits}, Listener{}, apiVersionsRoute())
				began := time.Now()
				var clients []*client
				for range 12 {
					clients = append(clients, w.dial("10.0.0.1:1"))
				}
				// Four at once, and of the other eight the last one's accept begins after seven quarters.
				if took := time.Since(began); took < 1500*time.Millisecond || took > 2*time.Second {
					t.Errorf("12 connections at 4 per second took %v", took)
				}
				for _, c := range clients {
					c.nc.Close()
				}
				w.stop()
			})
		})
	}
}

// TestLimitsChange: new limits count at once, also for whoever waits because of the old ones.
func TestLimitsChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Limits{Connections: ConnectionLimits{Max: 1}}, Listener{}, apiVersionsRoute())
		clients := []*client{w.dial("10.0.0.1:1")}
		waiting := make(chan *client)
		go func() { waiting <- w.dial("10.0.0.1:2") }()
		synctest.Wait()
		w.srv.SetConnectionLimits(ConnectionLimits{Max: 5, Own: map[string]OwnLimits{"PLAINTEXT": {Max: 2}}})
		clients = append(clients, <-waiting)
		go func() { waiting <- w.dial("10.0.0.1:3") }()
		synctest.Wait()
		select {
		case <-waiting:
			t.Fatal("the listener's own new limit does not count")
		default:
		}
		w.srv.SetConnectionLimits(ConnectionLimits{PerIP: 3})
		clients = append(clients, <-waiting)
		w.dial("10.0.0.1:4").receiveEnd()
		for _, c := range clients {
			c.nc.Close()
		}
		w.stop()
	})
}

// TestFramePool: a buffer is at least as large as was asked for, and comes back in a class that it can serve.
func TestFramePool(t *testing.T) {
	var p frames
	for _, n := range []int{0, 1, 1023, 1024, 1025, 4096, 70_000, 1<<22 - 1, 1 << 22, 1<<22 + 1, 9 << 20} {
		f := p.get(n)
		if len(f.buf) < n {
			t.Errorf("asked for %d bytes, got %d", n, len(f.buf))
		}
		p.put(f)
		p.put(&frame{buf: make([]byte, n)}) // of odd size, as append makes them
		for range 3 {
			if again := p.get(n); len(again.buf) < n {
				t.Errorf("asked for %d bytes, got %d from the pool", n, len(again.buf))
			}
		}
	}
}

// TestHeavyRequestsTakeTurns: what many clients can make the node hold decoded at once is bounded, and nobody else waits.
func TestHeavyRequestsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entered, leave := make(chan int, 100), make(chan struct{})
		w := newWorld(t, Limits{}, Listener{}, Route{Key: 3, Min: 0, Max: 13, Listeners: Broker, Handle: func(r *Request) Reply {
			topics := len(r.Body.(*kmsg.MetadataRequest).Topics)
			entered <- topics
			if topics > 0 {
				<-leave
			}
			return r.Answer(kmsg.NewPtrMetadataResponse())
		}})
		heavy := kmsg.NewPtrMetadataRequest()
		heavy.Version = 4
		heavy.Topics = make([]kmsg.MetadataRequestTopic, 100_000)
		for i := range heavy.Topics {
			heavy.Topics[i].Topic = kmsg.StringPtr("abc")
		}
		var clients []*client
		for i := range 5 {
			c := w.dial("10.0.0.1:" + strconv.Itoa(i+1))
			c.send(1, heavy)
			clients = append(clients, c)
		}
		synctest.Wait()
		if n := len(entered); n != heavySlots {
			t.Fatalf("%d heavy requests are served at once, want %d", n, heavySlots)
		}
		light := w.dial("10.0.0.2:1")
		light.send(1, metadataRequest())
		light.receiveFrame()
		close(leave)
		for _, c := range clients {
			c.receiveFrame()
			c.nc.Close()
		}
		light.nc.Close()
		w.stop()
	})
}
