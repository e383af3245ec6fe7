package zookeeper

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"
)

// peer is one of the servers that are compared.
type peer struct {
	t    *testing.T
	name string
	addr string

	sessions map[int64]string // by id, as they are called in the text
	zxids    map[int64]int    // of transactions, by when they were first told of
	seen     []int64          // the same in order
	highest  int64            // of the headers of answers
}

func newPeer(t *testing.T, name, addr string) *peer {
	return &peer{t: t, name: name, addr: addr, sessions: map[int64]string{}, zxids: map[int64]int{0: 0}, seen: []int64{0}}
}

// conn is a connection to one of them, which speaks in bytes of its own.
type conn struct {
	*peer
	who      string
	nc       net.Conn
	xid      int32
	id       int64
	password []byte
	events   []string
}

// patience is how long a server may take for an answer, on a busy machine and a slow disk.
const patience = time.Minute

func (p *peer) dial() net.Conn {
	p.t.Helper()
	nc, err := net.DialTimeout("tcp", p.addr, patience)
	if err != nil {
		p.t.Fatalf("%s: %v", p.name, err)
	}
	p.t.Cleanup(func() { _ = nc.Close() })
	if err := nc.SetDeadline(time.Now().Add(patience)); err != nil {
		p.t.Fatal(err)
	}
	return nc
}

func frame(body []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

// words builds requests: int32, int64, bool, string, []byte, nil (a buffer that is not there), []string.
func words(values ...any) []byte {
	var b []byte
	for _, v := range values {
		switch v := v.(type) {
		case int:
			b = binary.BigEndian.AppendUint32(b, uint32(int32(v)))
		case int32:
			b = binary.BigEndian.AppendUint32(b, uint32(v))
		case int64:
			b = binary.BigEndian.AppendUint64(b, uint64(v))
		case bool:
			if v {
				b = append(b, 1)
			} else {
				b = append(b, 0)
			}
		case string:
			b = append(binary.BigEndian.AppendUint32(b, uint32(len(v))), v...)
		case nil:
			b = binary.BigEndian.AppendUint32(b, 0xffffffff)
		case []byte:
			b = append(binary.BigEndian.AppendUint32(b, uint32(len(v))), v...)
		case []string:
			b = binary.BigEndian.AppendUint32(b, uint32(len(v)))
			for _, s := range v {
				b = append(b, words(s)...)
			}
		case raw:
			b = append(b, v...)
		default:
			panic(fmt.Sprintf("no such word: %T", v))
		}
	}
	return b
}

type raw []byte

// acl is one entry of an ACL.
type acl struct {
	perms      int32
	scheme, id string
}

func acls(list ...acl) raw {
	b := words(len(list))
	for _, a := range list {
		b = append(b, words(a.perms, a.scheme, a.id)...)
	}
	return b
}

var open = acls(acl{31, "world", "anyone"})

// readFrame returns nil when the connection is closed.
func readFrame(r io.Reader) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(length[:]))
	_, err := io.ReadFull(r, body)
	return body, err
}

func closed(err error) bool {
	var timeout net.Error
	return err != nil && !(errors.As(err, &timeout) && timeout.Timeout())
}

// connect begins a session, or takes one up again.
func (p *peer) connect(who string, timeoutMs int, of *conn) (c *conn, text string) {
	p.t.Helper()
	c = &conn{peer: p, who: who, nc: p.dial(), password: make([]byte, 16)}
	if of != nil {
		c.id, c.password, c.xid = of.id, of.password, of.xid
	}
	_, err := c.nc.Write(frame(words(0, int64(0), timeoutMs, c.id, c.password, false)))
	if err != nil {
		p.t.Fatalf("%s: %v", p.name, err)
	}
	return c, c.connected()
}

func (c *conn) connected() string {
	c.t.Helper()
	body, err := readFrame(c.nc)
	if closed(err) {
		return "closed"
	}
	if err != nil {
		c.t.Fatalf("%s: %s: connect: %v", c.name, c.who, err)
	}
	r := &cursor{b: body}
	version, timeout := r.int(), r.int()
	c.id, c.password = r.long(), r.buffer()
	if c.id != 0 && c.sessions[c.id] == "" {
		c.sessions[c.id] = fmt.Sprintf("session%d", len(c.sessions)+1)
	}
	return fmt.Sprintf("connected version=%d timeout=%d session=%v password=%d rest=%x", version, timeout, c.id != 0, len(c.password), r.b)
}

// send sends a request without waiting for its answer.
func (c *conn) send(kind int, body []byte) int32 {
	c.t.Helper()
	c.xid++
	xid := c.xid
	if kind == opPing {
		xid = -2
	}
	err := c.nc.SetDeadline(time.Now().Add(patience))
	if err == nil {
		_, err = c.nc.Write(frame(append(words(xid, kind), body...)))
	}
	if err != nil && !closed(err) {
		c.t.Fatalf("%s: %s: %v", c.name, c.who, err)
	}
	return xid
}

// do sends a request and returns what comes of it in text, the events before the answer included.
func (c *conn) do(kind int, body []byte) string {
	c.t.Helper()
	return c.answer(kind, c.send(kind, body))
}

// answer reads up to the answer to a request.
func (c *conn) answer(kind int, xid int32) string {
	c.t.Helper()
	for {
		body, err := readFrame(c.nc)
		if closed(err) {
			return c.takeEvents() + "closed"
		}
		if err != nil {
			c.t.Fatalf("%s: %s: no answer to op %d: %v", c.name, c.who, kind, err)
		}
		r := &cursor{b: body}
		got, zxid, code := r.int(), r.long(), r.int()
		if got == -1 {
			if zxid != -1 || code != 0 {
				c.t.Errorf("%s: an event with zxid %d and code %d", c.name, zxid, code)
			}
			c.events = append(c.events, fmt.Sprintf("event type=%d state=%d path=%q", r.int(), r.int(), r.string()))
			if len(r.b) > 0 {
				c.t.Errorf("%s: an event with %d bytes too many", c.name, len(r.b))
			}
			continue
		}
		if got != xid {
			c.t.Fatalf("%s: %s: answer to %d, want %d", c.name, c.who, got, xid)
		}
		text := fmt.Sprintf("code=%d", code)
		if zxid > 0 { // 0 and -1 are answers that no transaction stands behind
			if zxid < c.highest {
				c.t.Errorf("%s: zxid %d after %d", c.name, zxid, c.highest)
			}
			c.highest = max(c.highest, zxid)
		} else {
			text += fmt.Sprintf(" zxid=%d", zxid)
		}
		return c.takeEvents() + text + c.body(kind, code, r)
	}
}

func (c *conn) takeEvents() string {
	var out strings.Builder
	for _, e := range c.events {
		out.WriteString(e + "\n")
	}
	c.events = nil
	return out.String()
}

// The operations by ZooKeeper's numbers.
const (
	opCreate       = 1
	opDelete       = 2
	opExists       = 3
	opGetData      = 4
	opSetData      = 5
	opGetACL       = 6
	opSetACL       = 7
	opGetChildren  = 8
	opSync         = 9
	opPing         = 11
	opGetChildren2 = 12
	opCheck        = 13
	opMulti        = 14
	opAuth         = 100
	opSetWatches   = 101
	opCloseSession = -11
)

// body is the rest of an answer in text.
func (c *conn) body(kind int, code int32, r *cursor) string {
	var out strings.Builder
	if code == 0 {
		switch kind {
		case opCreate, opSync:
			fmt.Fprintf(&out, " path=%q", r.string())
		case opExists, opSetData, opSetACL:
			out.WriteString(c.stat(r))
		case opGetData:
			fmt.Fprintf(&out, " data=%s%s", r.data(), c.stat(r))
		case opGetACL:
			for range r.int() {
				fmt.Fprintf(&out, " %d:%s:%s", r.int(), r.string(), r.string())
			}
			out.WriteString(c.stat(r))
		case opGetChildren, opGetChildren2:
			var names []string
			for range r.int() {
				names = append(names, r.string())
			}
			slices.Sort(names) // their order is chance
			fmt.Fprintf(&out, " %q", names)
			if kind == opGetChildren2 {
				out.WriteString(c.stat(r))
			}
		case opMulti:
			c.results(&out, r)
		}
	}
	if len(r.b) > 0 || r.short {
		fmt.Fprintf(&out, " rest=%x short=%v", r.b, r.short)
	}
	return out.String()
}

func (c *conn) results(out *strings.Builder, r *cursor) {
	for {
		kind, done, code := r.int(), r.bool(), r.int()
		fmt.Fprintf(out, "\n  %d %v %d", kind, done, code)
		if done || r.short {
			return
		}
		switch kind {
		case opCreate:
			fmt.Fprintf(out, " path=%q", r.string())
		case opSetData:
			out.WriteString(c.stat(r))
		case -1:
			fmt.Fprintf(out, " %d", r.int())
		}
	}
}

// stat gives zxids by the order in which they were first told, since those of failed writes do not match; sessions by name;
// and of times only whether they can be true.
func (c *conn) stat(r *cursor) string {
	czxid, mzxid, ctime, mtime := r.long(), r.long(), r.long(), r.long()
	version, cversion, aversion, owner := r.int(), r.int(), r.int(), r.long()
	length, children, pzxid := r.int(), r.int(), r.long()
	if ctime > mtime || (ctime == 0) != (czxid == 0) {
		c.t.Errorf("%s: ctime %d, mtime %d, czxid %d", c.name, ctime, mtime, czxid)
	}
	text := fmt.Sprintf(" {czxid=%d mzxid=%d pzxid=%d version=%d cversion=%d aversion=%d length=%d children=%d",
		c.ordinal(czxid), c.ordinal(mzxid), c.ordinal(pzxid), version, cversion, aversion, length, children)
	if owner != 0 {
		text += " owner=" + c.sessions[owner]
	}
	return text + "}"
}

func (p *peer) ordinal(zxid int64) int {
	n, ok := p.zxids[zxid]
	if !ok {
		n = len(p.seen)
		p.zxids[zxid] = n
		p.seen = append(p.seen, zxid)
	}
	return n
}

// cursor reads an answer.
type cursor struct {
	b     []byte
	short bool
}

func (r *cursor) take(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.b, r.short = nil, true
		return make([]byte, max(0, min(n, 16)))
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *cursor) int() int32     { return int32(binary.BigEndian.Uint32(r.take(4))) }
func (r *cursor) long() int64    { return int64(binary.BigEndian.Uint64(r.take(8))) }
func (r *cursor) bool() bool     { return r.take(1)[0] != 0 }
func (r *cursor) buffer() []byte { return bytes.Clone(r.take(int(r.int()))) }
func (r *cursor) string() string { return string(r.buffer()) }

// data tells data that are not there from none.
func (r *cursor) data() string {
	n := r.int()
	if n == -1 {
		return "null"
	}
	return fmt.Sprintf("%q", r.take(int(n)))
}
