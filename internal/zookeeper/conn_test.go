package zookeeper

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/stand"
)

// The first client of a cluster has the tree made, and is served when that is there.
func TestFirstClientMakesTheTree(t *testing.T) {
	inWorld(t, Limits{}, func(w *world) {
		c := w.connection(w.server)
		if got := c.connect(); len(got) != 37 || binary.BigEndian.Uint32(got[4:]) != 6000 {
			t.Fatalf("answer to the connect: %x", got)
		}
		c.send(request(1, opGetChildren2, append(appendString(nil, "/"), 0)...))
		if got := c.frame(); !bytes.Contains(got, []byte("brokers")) {
			t.Errorf("children of /: %q", got)
		}
	})
}

// Any node takes a connection, and passes it on; when the tree moves, the connection is cut, so that the client comes again.
func TestPassedOn(t *testing.T) {
	inWorld(t, Limits{}, func(w *world) {
		w.lead(self)
		synctest.Wait()
		c := w.connection(w.second)
		session := c.connect()
		if len(session) != 37 {
			t.Fatalf("answer to the connect: %x", session)
		}
		c.send(request(1, opCreate, createBody("/x", []byte("data"), flagEphemeral)...))
		if got := c.frame(); !bytes.HasSuffix(got, []byte("/x")) {
			t.Fatalf("answer to a create: %x", got)
		}
		w.lead(kafka.NoNode)
		if !c.isClosed(time.Second) {
			t.Fatal("the connection stays although the tree is gone")
		}
		again := w.connection(w.second)
		again.send(connectFrame(6000, int64(binary.BigEndian.Uint64(session[8:])), session[20:36]))
		time.Sleep(time.Second)
		w.lead(self) // the connection has waited for that
		if got := again.frame(); !bytes.Equal(got, session) {
			t.Fatalf("taken up with %x, was %x", got, session)
		}
		again.send(request(2, opGetData, append(appendString(nil, "/x"), 0)...))
		if got := again.frame(); !bytes.Contains(got, []byte("data")) {
			t.Errorf("the ephemeral: %x", got)
		}
	})
}

const flagEphemeral = 1

func createBody(path string, data []byte, flags int32) []byte {
	b := appendBuffer(appendString(nil, path), data)
	b = appendInt(b, 1)
	b = appendInt(b, 31)
	b = appendString(appendString(b, "world"), "anyone")
	return appendInt(b, flags)
}

// Whoever says nothing, or too much before it is known, or is one too many, does not stay.
func TestUninvited(t *testing.T) {
	inWorld(t, Limits{Connections: 3, Begin: 5 * time.Second}, func(w *world) {
		w.lead(self)
		silent := w.connection(w.server)
		if silent.isClosed(4900*time.Millisecond) || !silent.isClosed(200*time.Millisecond) {
			t.Error("a silent connection does not end when its time is over")
		}
		long := w.connection(w.server)
		go func() { _, _ = long.nc.Write(appendInt(nil, maxConnect+1)) }()
		if !long.isClosed(time.Second) {
			t.Error("a connect of any length is read")
		}
		synctest.Wait() // the place of a connection is free a moment after it is closed
		var all []client
		for range 3 {
			c := w.connection(w.server)
			c.connect()
			all = append(all, c)
		}
		if extra := w.connection(w.server); !extra.isClosed(time.Second) {
			t.Error("a connection that is one too many stays")
		}
		_ = all[0].nc.Close()
		synctest.Wait()
		if c := w.connection(w.server); len(c.connect()) != 37 {
			t.Error("there is no place although one is free")
		}
	})
}

// A client that asks on and on and takes no answer is not read from any further; it keeps its session no longer than if it
// said nothing.
func TestDeafClient(t *testing.T) {
	inWorld(t, Limits{}, func(w *world) {
		w.lead(self)
		c := w.connection(w.server)
		c.connect()
		c.send(request(1, opCreate, createBody("/large", make([]byte, 900<<10), 0)...))
		c.frame()
		asked := make(chan int)
		go func() {
			get := request(2, opGetData, append(appendString(nil, "/large"), 0)...)
			n := 0
			for {
				if _, err := c.nc.Write(append(appendInt(nil, int32(len(get))), get...)); err != nil {
					asked <- n
					return
				}
				n++
			}
		}()
		if n := <-asked; n > 20 {
			t.Errorf("%d answers of 900 KiB were waiting", n)
		}
	})
}

// Large requests that never end keep nobody from a small one. A large one waits for a moment, and its client then has to come
// again.
func TestLargeRequestsTakeTurns(t *testing.T) {
	inWorld(t, Limits{}, func(w *world) {
		w.lead(self)
		synctest.Wait()
		var stalled []client
		for range largeSlots {
			c := w.connection(w.server)
			c.connect()
			_, err := c.nc.Write(appendInt(nil, maxFrame))
			w.Must(err)
			stalled = append(stalled, c)
		}
		synctest.Wait() // each has its slot
		c := w.connection(w.server)
		c.connect()
		c.send(request(1, opCreate, createBody("/small", nil, 0)...))
		if got := c.frame(); len(got) < 16 {
			t.Fatalf("a small request: %x", got)
		}
		large := request(2, opCreate, createBody("/large", make([]byte, largeFrame), 0)...)
		go func() { _, _ = c.nc.Write(append(appendInt(nil, int32(len(large))), large...)) }()
		if c.isClosed(largePatience-time.Millisecond) || !c.isClosed(2*time.Millisecond) {
			t.Error("a large request does not wait as long as it should")
		}
		_ = stalled[0].nc.Close()
		c = w.connection(w.server)
		c.connect()
		c.send(large)
		if got := c.frame(); !bytes.HasSuffix(got, []byte("/large")) {
			t.Errorf("a large request when there is a place: %x", got)
		}
	})
}

// The words that need no tree are answered without one; the others have it made.
func TestWordsBeforeTheTree(t *testing.T) {
	inWorld(t, Limits{}, func(w *world) {
		for _, c := range []struct{ word, want string }{
			{"ruok", "imok"}, {"isro", "rw"}, {"conf", "minSessionTimeout=4000"}, {"envi", "zookeeper.version=3.4"}, {"srvr", "Mode: standalone"},
		} {
			conn := w.connection(w.server)
			_, err := conn.nc.Write([]byte(c.word))
			w.Must(err)
			var b bytes.Buffer
			_, err = b.ReadFrom(conn.nc)
			w.Must(err)
			if !bytes.Contains(b.Bytes(), []byte(c.want)) {
				t.Errorf("%s: %s", c.word, b.String())
			}
		}
	})
}

// Words about the whole tree are answered a few at a time; whoever does not get his turn is told so.
func TestWordsTakeTurns(t *testing.T) {
	inWorld(t, Limits{}, func(w *world) {
		w.lead(self)
		synctest.Wait()
		ask := func(word string) string {
			conn := w.connection(w.server)
			_, err := conn.nc.Write([]byte(word))
			w.Must(err)
			var b bytes.Buffer
			_, err = b.ReadFrom(conn.nc)
			w.Must(err)
			return b.String()
		}
		var deaf []client
		for range surveySlots {
			conn := w.connection(w.server)
			_, err := conn.nc.Write([]byte("dump"))
			w.Must(err)
			deaf = append(deaf, conn)
		}
		synctest.Wait()
		if got := ask("ruok"); got != "imok" {
			t.Errorf("ruok: %q", got)
		}
		_, err := io.ReadAll(deaf[0].nc)
		w.Must(err)
		if got := ask("srvr"); !strings.Contains(got, "Zxid:") {
			t.Errorf("srvr, when there is a place: %q", got)
		}
		// Who does not read his answer is cut, so that there is a place again.
		conn := w.connection(w.server)
		_, err = conn.nc.Write([]byte("dump"))
		w.Must(err)
		time.Sleep(wordPatience / 2) // or both would be out of patience at one instant
		began := time.Now()
		if got := ask("srvr"); !strings.Contains(got, "Zxid:") || time.Since(began) > wordPatience {
			t.Errorf("srvr after %v: %q", time.Since(began), got)
		}
	})
}

// A listener that fails ends Serve; Stop ends it without an error.
func TestServeAndStop(t *testing.T) {
	inWorld(t, Limits{}, func(w *world) {
		ln := stand.NewPipes()
		ended := make(chan error)
		go func() { ended <- w.server.Serve(ln) }()
		near, far := net.Pipe()
		ln.Conns <- far
		c := client{w, near}
		w.lead(self)
		c.connect()
		w.server.Stop()
		w.ended = true
		if err := <-ended; err != nil {
			t.Errorf("Serve ended with %v", err)
		}
		if !c.isClosed(time.Second) {
			t.Error("a connection outlives the server")
		}
	})
}
