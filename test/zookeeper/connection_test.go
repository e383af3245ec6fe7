package zookeeper

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// exchange sends bytes to both on fresh connections and returns what comes back, in bytes, and whether the server then closes the
// connection. That it does not only time tells: a second, and more as long as the two differ.
func exchange(t *testing.T, ours, theirs *peer, send []byte) (a, b string) {
	t.Helper()
	talks := []*talk{ours.talk(send), theirs.talk(send)}
	for deadline := time.Now().Add(patience); ; {
		a, b = talks[0].listen(time.Second), talks[1].listen(time.Second)
		if a == b || time.Now().After(deadline) {
			return a, b
		}
	}
}

// talk is a connection on which bytes were sent.
type talk struct {
	*peer
	nc    net.Conn
	heard bytes.Buffer
	over  bool
}

func (p *peer) talk(send []byte) *talk {
	p.t.Helper()
	nc := p.dial()
	if _, err := nc.Write(send); err != nil && !closed(err) {
		p.t.Fatalf("%s: %v", p.name, err)
	}
	return &talk{peer: p, nc: nc}
}

// listen returns what has come back, after d unless it is over before.
func (k *talk) listen(d time.Duration) string {
	k.t.Helper()
	if !k.over {
		if err := k.nc.SetReadDeadline(time.Now().Add(d)); err != nil {
			k.t.Fatal(err)
		}
		_, err := io.Copy(&k.heard, k.nc)
		k.over = err == nil || closed(err)
	}
	if k.over {
		return fmt.Sprintf("%x closed", k.heard.Bytes())
	}
	return fmt.Sprintf("%x open", k.heard.Bytes())
}

// TestStrangeConnections sends what no honest client sends, and what old ones do, and compares what comes back and whether
// the connection is closed.
func TestStrangeConnections(t *testing.T) {
	ours, theirs := both(t)
	none := make([]byte, 16)
	begin := func(values ...any) []byte { return frame(words(values...)) }
	for _, c := range []struct {
		what string
		send []byte
	}{
		{"nothing at all but a length", words(0)},
		{"a negative length", words(-5)},
		{"the longest frame and one more", words(1 << 20)},
		{"a length of a gigabyte", words(1 << 30)},
		{"a connect that is cut short", frame(words(0, int64(0), 6000))},
		{"a password of a negative length", begin(0, int64(0), 6000, int64(0), -7)},
		{"a session that never was", begin(0, int64(0), 6000, int64(77), none, false)},
		{"the same of an old client, without the flag", begin(0, int64(0), 6000, int64(77), none)},
		{"a session that never was, and no password", begin(0, int64(0), 6000, int64(77), nil, false)},
		{"a new session that has seen the future", begin(0, int64(1)<<60, 6000, int64(0), none, false)},
		{"HTTP", []byte("GET / HTTP/1.1\r\n\r\n")},
		{"half a word", []byte("ru")},
		{"a word that is none", []byte("what")},
		{"ruok", []byte("ruok")},
		{"isro", []byte("isro")},
	} {
		if a, b := exchange(t, ours, theirs, c.send); a != b {
			t.Errorf("%s:\nmoldau    %s\nZooKeeper %s", c.what, a, b)
		}
	}
	for _, timeoutMs := range []int{-1, 0, 1, 3999, 4000, 6000, 30000, 40000, 40001, 1 << 30} {
		_, a := ours.connect("a", timeoutMs, nil)
		_, b := theirs.connect("a", timeoutMs, nil)
		if a != b {
			t.Errorf("timeout %d: moldau %s, ZooKeeper %s", timeoutMs, a, b)
		}
	}
}

// TestRequestsThatEndAConnection compares what becomes of a connection after a request that is no good.
func TestRequestsThatEndAConnection(t *testing.T) {
	ours, theirs := both(t)
	for _, c := range []struct {
		what string
		kind int
		body []byte
	}{
		{"an operation that is not known", 77, nil},
		{"authentication by nobody's scheme", opAuth, words(0, "none", []byte("x"))},
		{"authentication as the whole world", opAuth, words(0, "world", []byte("anyone"))},
		{"a multi with a part that is no write", opMulti, words(opGetData, false, -1, "/", false, -1, true, -1)},
		{"a multi without end", opMulti, words(opCheck, false, -1, "/", 0)},
		{"a string of a negative length", opExists, words(-9)},
		{"a string that is not there", opExists, words(-1, false)},
		{"a list as long as the address space", opSetWatches, words(int64(0), 1<<31-1)},
		{"lists that are not there", opSetWatches, words(int64(0), -1, -1, -1)},
		{"bytes after the end", opExists, words("/zookeeper", false, "more", "and more")},
		{"the end of a session", opCloseSession, nil},
	} {
		var told []string
		p := connectBoth(t, &told, ours, theirs, c.what, 30000)
		a, b := p.ours.do(c.kind, c.body), p.theirs.do(c.kind, c.body)
		a += "\n" + p.ours.after()
		b += "\n" + p.theirs.after()
		if a != b {
			t.Errorf("%s:\nmoldau:    %s\nZooKeeper: %s", c.what, a, b)
		}
	}
	t.Run("short", func(t *testing.T) {
		var told []string
		p := connectBoth(t, &told, ours, theirs, "a", 30000)
		for _, c := range []*conn{p.ours, p.theirs} {
			if _, err := c.nc.Write(frame(words(1))); err != nil {
				t.Fatal(err)
			}
		}
		p.same("a request of four bytes", p.ours.answer(opPing, -2), p.theirs.answer(opPing, -2))
	})
	t.Run("huge", func(t *testing.T) {
		var told []string
		p := connectBoth(t, &told, ours, theirs, "a", 30000)
		p.do("create", opCreate, words("/huge", nil, open, 0))
		header := len(words("/huge", []byte{}, -1)) + 8
		largest := make([]byte, 1<<20-1-header)
		p.do("the longest packet", opSetData, words("/huge", largest, -1))
		p.do("what it has set", opGetData, words("/huge", false))
		p.do("the longest packet and one byte more", opSetData, words("/huge", append(largest, 0), -1))
	})
}

// after tells whether the server ends the connection by itself, which may take it a moment, or goes on serving it.
func (c *conn) after() string {
	c.t.Helper()
	if err := c.nc.SetReadDeadline(time.Now().Add(300 * time.Millisecond)); err != nil {
		c.t.Fatal(err)
	}
	if _, err := readFrame(c.nc); closed(err) {
		return "closed"
	}
	if err := c.nc.SetReadDeadline(time.Now().Add(patience)); err != nil {
		c.t.Fatal(err)
	}
	return c.do(opPing, nil)
}

// TestSessions compares the lives of sessions: taken up again, taken over, with a wrong password, ended, expired.
func TestSessions(t *testing.T) {
	ours, theirs := both(t)
	var told []string
	a := connectBoth(t, &told, ours, theirs, "a", 30000)
	watcher := connectBoth(t, &told, ours, theirs, "watcher", 30000)
	a.do("create an ephemeral", opCreate, words("/e", []byte("x"), open, 1))
	watcher.do("watch it", opExists, words("/e", true))
	old := a
	a.again(20000)
	a.same("the connection that was", old.ours.do(opPing, nil), old.theirs.do(opPing, nil))
	a.do("it is there", opGetData, words("/e", false))
	began := time.Now() // nothing after the next line keeps the session
	a.again(6000)

	wrong := a
	wrong.ours, wrong.theirs = clone(a.ours), clone(a.theirs)
	wrong.again(6000)
	a.same("the connection whose session somebody had the wrong password for", a.ours.do(opPing, nil), a.theirs.do(opPing, nil))

	for i, c := range []*conn{watcher.ours, watcher.theirs} {
		text := c.do(opPing, nil)
		for !strings.Contains(text, "event type=2") { // expires after 6 to 8 s
			if time.Since(began) > patience {
				t.Fatalf("%s: the session does not expire", c.name)
			}
			time.Sleep(50 * time.Millisecond)
			text = c.do(opPing, nil)
		}
		took := time.Since(began)
		t.Logf("%s: expired after %v", c.name, took.Round(100*time.Millisecond))
		if i == 0 && took < 6*time.Second {
			t.Errorf("expired after %v", took)
		}
	}
	a.again(6000)

	b := connectBoth(t, &told, ours, theirs, "b", 30000)
	b.do("create", opCreate, words("/f", nil, open, 1))
	b.do("watch", opGetData, words("/f", true))
	b.do("children", opGetChildren, words("/f", true))
	b.do("close", opCloseSession, nil)
	b.again(30000)
}

// clone is a client that has got the password wrong.
func clone(c *conn) *conn {
	other := *c
	other.password = bytes.Repeat([]byte{7}, 16)
	return &other
}

// TestPipelines sends many requests at once: the answers come in their order, with events where the changes are.
func TestPipelines(t *testing.T) {
	ours, theirs := both(t)
	var told []string
	p := connectBoth(t, &told, ours, theirs, "a", 30000)
	p.do("create", opCreate, words("/p", []byte("0"), open, 0))
	type request struct {
		kind int
		body []byte
	}
	var all []request
	for i := range 200 {
		all = append(all,
			request{opGetData, words("/p", true)},
			request{opGetChildren, words("/p", true)},
			request{opCreate, words("/p/n-", []byte(fmt.Sprint(i)), open, 2)},
			request{opSetData, words("/p", []byte(fmt.Sprint(i)), -1)},
			request{opExists, words(fmt.Sprintf("/p/n-%010d", i), true)},
			request{opDelete, words(fmt.Sprintf("/p/n-%010d", i), 0)},
			request{opPing, nil},
		)
	}
	for _, batch := range slices.Collect(slices.Chunk(all, 100)) {
		var texts []string
		for _, c := range []*conn{p.ours, p.theirs} {
			var xids []int32
			for _, r := range batch {
				xids = append(xids, c.send(r.kind, r.body))
			}
			var text strings.Builder
			for i, r := range batch {
				text.WriteString(c.answer(r.kind, xids[i]) + "\n")
			}
			texts = append(texts, text.String())
		}
		p.same("100 requests", texts[0], texts[1])
	}
}

// TestWords compares the form of the answers to four-letter words: the same lines, whatever their numbers.
func TestWords(t *testing.T) {
	ours, theirs := both(t)
	var told []string
	p := connectBoth(t, &told, ours, theirs, "a", 30000)
	p.do("create an ephemeral", opCreate, words("/e", nil, open, 1))
	p.do("watch", opGetData, words("/e", true))
	numbers := regexp.MustCompile(`0x[0-9a-f]+|[0-9]+`)
	shape := func(peer *peer, word string) string {
		nc := peer.dial()
		if _, err := nc.Write([]byte(word)); err != nil {
			t.Fatal(err)
		}
		if half, ok := nc.(*net.TCPConn); ok { // as nc does it when its input ends
			_ = half.CloseWrite()
		}
		answer, err := io.ReadAll(nc)
		if err != nil {
			t.Fatal(err)
		}
		text := numbers.ReplaceAllString(string(answer), "#")
		var kept []string
		for line := range strings.Lines(text) {
			if skipped(word, line) {
				continue
			}
			kept = append(kept, line)
		}
		return strings.Join(kept, "")
	}
	for _, word := range []string{"srvr", "stat", "mntr", "dump", "wchs", "conf"} {
		if a, b := shape(ours, word), shape(theirs, word); a != b {
			t.Errorf("%s:\nmoldau:\n%s\nZooKeeper:\n%s", word, a, b)
		}
	}
}

// skipped reports whether a line of an answer is left out: what is true of one of the two only.
func skipped(word, line string) bool {
	switch word {
	case "conf":
		return strings.HasPrefix(line, "data") // we have no such folders
	case "mntr":
		return strings.Contains(line, "version") || strings.Contains(line, "file_descriptor")
	}
	return strings.Contains(line, "version") || strings.HasPrefix(line, "Session Sets") || strings.Contains(line, "expire at")
}
