package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"moldau/internal/wire"
)

func TestPipelinedRequestsOverlapAndRepliesKeepOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate("a", "b", "c")
		w := newWorld(t, Limits{}, Listener{}, g.route())
		c := w.dial("10.0.0.1:1")
		for i, p := range []string{"a", "b", "c", "d"} {
			c.send(int32(i), produce(p))
		}
		synctest.Wait()
		if n := len(g.handled); n != 4 {
			t.Fatalf("%d requests were handled before the first reply, want 4", n)
		}
		close(g.open["c"]) // the last to be asked is the first to be ready
		close(g.open["b"])
		synctest.Wait()
		close(g.open["a"])
		for i := range int32(4) {
			if id := c.receive(produceAnswer()); id != i {
				t.Fatalf("reply %d came as number %d", id, i)
			}
		}
		for _, want := range []string{"a", "b", "c"} {
			if got := <-g.saw; got != want {
				t.Errorf("the request's records read %q when its reply was made, want %q", got, want)
			}
		}
		c.send(9, produce("e")) // the writer has gone; the reader writes again
		if id := c.receive(produceAnswer()); id != 9 {
			t.Errorf("got reply %d", id)
		}
		c.nc.Close()
		w.stop()
	})
}

// Answers that are ready when the first in line is leave together, in order, and the one that is not ready does not hold
// them up.
func TestReadyRepliesLeaveInOneWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate("a", "b", "c", "d")
		g.tell = true
		w := newWorld(t, Limits{}, Listener{}, g.route())
		c := w.dial("10.0.0.1:1")
		for i, p := range []string{"a", "b", "c", "d"} {
			c.send(int32(i), produce(p))
		}
		synctest.Wait()
		close(g.open["b"])
		close(g.open["c"])
		close(g.open["a"])
		synctest.Wait()
		// A pipe's Read returns at most what one Write has brought.
		buf := make([]byte, 1<<10)
		n, err := c.nc.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		written := bytes.NewReader(buf[:n])
		for i := range int32(3) {
			frame, err := wire.ReadFrame(written, n, nil)
			if err != nil {
				t.Fatalf("reply %d is not in the first write: %v", i, err)
			}
			if id, err := wire.ReadResponse(frame, produceAnswer()); err != nil || id != i {
				t.Fatalf("reply %d: id %d, %v", i, id, err)
			}
		}
		if written.Len() != 0 {
			t.Errorf("%d bytes more than the three answers that are ready", written.Len())
		}
		close(g.open["d"])
		if id := c.receive(produceAnswer()); id != 3 {
			t.Errorf("got reply %d", id)
		}
		c.nc.Close()
		w.stop()
	})
}

func TestHoldRunsAfterEarlierReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate("a")
		w := newWorld(t, Limits{}, Listener{}, g.route(), metadataRoute(g.handled))
		c := w.dial("10.0.0.1:1")
		c.send(1, produce("a"))
		c.send(2, metadataRequest())
		synctest.Wait()
		if got := <-g.handled; got != "a" {
			t.Fatalf("handled %q first", got)
		}
		if len(g.handled) != 0 {
			t.Fatal("a route with Hold ran before the earlier reply was sent")
		}
		close(g.open["a"])
		c.receive(produceAnswer())
		if got := <-g.handled; got != "metadata" {
			t.Errorf("handled %q", got)
		}
		c.receiveFrame()
		c.nc.Close()
		w.stop()
	})
}

func TestReadingStopsAtTheLimits(t *testing.T) {
	large := strings.Repeat("x", 600)
	for name, limits := range map[string]Limits{
		"unanswered": {MaxUnanswered: 3},
		"held bytes": {MaxHeldBytes: 1500},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var payloads []string
				for i := range 5 {
					payloads = append(payloads, fmt.Sprint(i, large))
				}
				g := newGate(payloads...)
				w := newWorld(t, limits, Listener{}, g.route())
				c := w.dial("10.0.0.1:1")
				go func() {
					for i, p := range payloads {
						c.send(int32(i), produce(p))
					}
				}()
				synctest.Wait()
				if n := len(g.handled); n != 3 {
					t.Fatalf("%d requests were read, want 3", n)
				}
				for i, p := range payloads {
					close(g.open[p])
					if id := c.receive(produceAnswer()); id != int32(i) {
						t.Fatalf("got reply %d, want %d", id, i)
					}
				}
				if n := len(g.handled); n != 5 {
					t.Errorf("%d requests were read at the end, want 5", n)
				}
				c.nc.Close()
				w.stop()
			})
		})
	}
}

func TestClientThatLeavesEndsItsWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate("a", "b")
		w := newWorld(t, Limits{}, Listener{}, g.route())
		c := w.dial("10.0.0.1:1")
		c.send(1, produce("a"))
		c.send(2, produce("b"))
		c.nc.Close()
		if <-g.saw != "a" || <-g.saw != "b" {
			t.Error("every wait is called once, in order")
		}
		w.stop()
		if lines := w.log.lines(); lines != nil {
			t.Errorf("a client that leaves is nothing to log: %q", lines)
		}
	})
}

func TestStopLetsDueRepliesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate("a")
		g.wake = true
		w := newWorld(t, Limits{}, Listener{}, g.route())
		waiting, idle := w.dial("10.0.0.1:1"), w.dial("10.0.0.1:2")
		waiting.send(1, produce("a"))
		synctest.Wait()
		go w.stop()
		if id := waiting.receive(produceAnswer()); id != 1 {
			t.Errorf("got reply %d", id)
		}
		waiting.receiveEnd()
		idle.receiveEnd()
	})
}

func TestStopCutsWhatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate("a")
		w := newWorld(t, Limits{}, Listener{}, g.route())
		c := w.dial("10.0.0.1:1")
		c.send(1, produce("a"))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := w.srv.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Stop: %v", err)
		}
		c.receiveEnd()
		w.run.Wait()
	})
}

func TestFailedRequestWithoutReplyClosesAfterEarlierReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate("a")
		silent := Route{Key: 3, Min: 0, Max: 13, Listeners: Broker, Handle: func(*Request) Reply {
			return Reply{None: true, Close: true, Reason: "acks=0 produce failed"}
		}}
		w := newWorld(t, Limits{}, Listener{}, g.route(), silent)
		c := w.dial("10.0.0.7:1")
		c.send(1, produce("a"))
		c.send(2, metadataRequest())
		synctest.Wait()
		close(g.open["a"])
		if id := c.receive(produceAnswer()); id != 1 {
			t.Errorf("got reply %d", id)
		}
		c.receiveEnd()
		w.stop()
		lines := w.log.lines()
		if len(lines) != 1 || !strings.Contains(lines[0], "10.0.0.7:1") || !strings.Contains(lines[0], "acks=0 produce failed") {
			t.Errorf("log: %q", lines)
		}
	})
}
