package zookeeper

import (
	"encoding/binary"
	"strings"

	"moldau/internal/znode"
)

// reader reads jute's types from a request. After the first error everything is zero.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.b, r.bad = nil, true
		return nil
	}
	taken := r.b[:n:n]
	r.b = r.b[n:]
	return taken
}

func (r *reader) bool() bool {
	b := r.take(1)
	return len(b) == 1 && b[0] != 0
}

func (r *reader) int() int32 {
	if b := r.take(4); len(b) == 4 {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *reader) long() int64 {
	if b := r.take(8); len(b) == 8 {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// buffer returns a part of the request; nil if there is none (length -1).
func (r *reader) buffer() []byte {
	n := r.int()
	if n == -1 {
		return nil
	}
	b := r.take(int(n))
	if b == nil && !r.bad {
		return []byte{}
	}
	return b
}

// string may be "" but not absent. What is no UTF-8 is replaced, as Java does it.
func (r *reader) string() string {
	return strings.ToValidUTF8(string(r.take(int(r.int()))), "\ufffd")
}

// count returns the length of a vector, which may not be absent, and whose items take at least size bytes each.
func (r *reader) count(size int) int {
	n := int(r.int())
	if n < 0 || n > len(r.b)/size {
		r.b, r.bad = nil, true
		return 0
	}
	return n
}

func (r *reader) strings() []string {
	n := r.count(4)
	out := make([]string, 0, n)
	for range n {
		out = append(out, r.string())
	}
	return out
}

// acl returns nil if there is none, as opposed to an empty one.
func (r *reader) acl() []znode.ACL {
	if len(r.b) >= 4 && int32(binary.BigEndian.Uint32(r.b)) == -1 {
		r.take(4)
		return nil
	}
	n := r.count(12)
	out := make([]znode.ACL, 0, n)
	for range n {
		a := znode.ACL{Perms: r.int()}
		a.Scheme, a.Name = r.string(), r.string()
		out = append(out, a)
	}
	return out
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

func appendInt(b []byte, v int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(v)) }

func appendLong(b []byte, v int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(v)) }

func appendBuffer(b, v []byte) []byte {
	if v == nil {
		return appendInt(b, -1)
	}
	return append(appendInt(b, int32(len(v))), v...)
}

func appendString(b []byte, v string) []byte { return append(appendInt(b, int32(len(v))), v...) }

func appendStat(b []byte, s znode.Stat) []byte {
	for _, v := range []int64{s.Czxid, s.Mzxid, s.Ctime, s.Mtime} {
		b = appendLong(b, v)
	}
	for _, v := range []int32{s.Version, s.Cversion, s.Aversion} {
		b = appendInt(b, v)
	}
	b = appendLong(b, s.Owner)
	b = appendInt(b, s.DataLength)
	b = appendInt(b, s.NumChildren)
	return appendLong(b, s.Pzxid)
}
