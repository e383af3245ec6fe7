package znode

import (
	"encoding/binary"
	"errors"
	"fmt"

	"moldau/internal/coordinator"
)

// The kinds of record in Topic, by the number that is a record's key. docs/format has their bytes.
const (
	kindTransaction    = 0
	kindSnapshotBegin  = 1
	kindSnapshotPart   = 2
	kindSnapshotEnd    = 3
	formatVersion      = 0
	noMetadataOffset   = -1
	maxTransactionSize = 4 << 20 // from which on a transaction that can be cut is cut
)

// MaxRecordBytes is more than any record needs: what max.message.bytes of Topic has to be. A multi of the longest packet
// takes about four times its length.
const MaxRecordBytes = 16 << 20

// The kinds of entry in a record, in the order in which they take effect.
const (
	entryCreate  = iota + 1 // a node comes: stat, ACL, data
	entryData               // data are set: stat, data
	entryACL                // an ACL is set: stat, ACL
	entryChild              // a child has come or gone: stat
	entryDelete             // a node goes
	entryView               // the cluster gives this node from now on, or no longer
	entrySession            // a session begins, or its timeout is another
	entrySessionEnd
)

var errRecord = errors.New("record of " + Topic + " is malformed")

// header begins the value of every record.
type header struct {
	zxid     int64 // of the last transaction before a snapshot; of a transaction 0, since its offset tells
	timeMs   int64
	metadata int64 // the offset of the metadata that the views then showed; noMetadataOffset in a client's transaction
	sessions int64 // the last id that a session has got; in a snapshot's beginning only
}

func appendHeader(b []byte, h header) []byte {
	b = append(b, formatVersion)
	b = binary.AppendVarint(b, h.zxid)
	b = binary.AppendVarint(b, h.timeMs)
	b = binary.AppendVarint(b, h.metadata)
	return binary.AppendVarint(b, h.sessions)
}

func newRecord(kind byte, value []byte) coordinator.Record {
	return coordinator.Record{Key: []byte{0, kind}, Value: value}
}

// entry is one step of a record. Which fields count depends on its kind.
type entry struct {
	kind    byte
	path    string
	stat    stat
	acl     []ACL
	data    []byte
	view    bool
	session sessionRecord
}

type sessionRecord struct {
	id        int64
	timeoutMs int32
	password  [16]byte
}

func appendEntry(b []byte, e entry) []byte {
	b = append(b, e.kind)
	switch e.kind {
	case entrySession:
		b = binary.BigEndian.AppendUint64(b, uint64(e.session.id))
		b = binary.AppendVarint(b, int64(e.session.timeoutMs))
		return append(b, e.session.password[:]...)
	case entrySessionEnd:
		return binary.BigEndian.AppendUint64(b, uint64(e.session.id))
	}
	b = appendBytes(b, []byte(e.path))
	switch e.kind {
	case entryCreate:
		b = appendStat(b, e.stat)
		b = appendACL(b, e.acl)
		b = appendBytes(b, e.data)
		b = appendBool(b, e.view)
	case entryData:
		b = appendStat(b, e.stat)
		b = appendBytes(b, e.data)
	case entryACL:
		b = appendStat(b, e.stat)
		b = appendACL(b, e.acl)
	case entryChild:
		b = appendStat(b, e.stat)
	case entryView:
		b = appendBool(b, e.view)
	}
	return b
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// appendBytes writes nil and empty apart.
func appendBytes(b, v []byte) []byte {
	if v == nil {
		return binary.AppendVarint(b, -1)
	}
	return append(binary.AppendVarint(b, int64(len(v))), v...)
}

func appendStat(b []byte, s stat) []byte {
	for _, v := range []int64{s.czxid, s.mzxid - s.czxid, s.pzxid - s.czxid, s.ctime, s.mtime - s.ctime} {
		b = binary.AppendVarint(b, v)
	}
	b = binary.BigEndian.AppendUint64(b, uint64(s.owner))
	for _, v := range []int32{s.version, s.creations, s.aversion} {
		b = binary.AppendVarint(b, int64(v))
	}
	return b
}

func appendACL(b []byte, acl []ACL) []byte {
	b = binary.AppendUvarint(b, uint64(len(acl)))
	for _, a := range acl {
		b = binary.AppendVarint(b, int64(a.Perms))
		b = appendBytes(b, []byte(a.Scheme))
		b = appendBytes(b, []byte(a.Name))
	}
	return b
}

// decoder reads the value of a record. After the first error everything is zero.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) fail() {
	d.b, d.bad = nil, true
}

func (d *decoder) take(n int) []byte {
	if n < 0 || n > len(d.b) {
		d.fail()
		return make([]byte, 0)
	}
	taken := d.b[:n:n]
	d.b = d.b[n:]
	return taken
}

func (d *decoder) byte() byte {
	if b := d.take(1); len(b) == 1 {
		return b[0]
	}
	return 0
}

func (d *decoder) fixed() int64 {
	if b := d.take(8); len(b) == 8 {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

// bytes returns a copy: a record must not be kept.
func (d *decoder) bytes() []byte {
	n := d.varint()
	if n == -1 {
		return nil
	}
	if n < 0 || n > int64(len(d.b)) {
		d.fail()
		return nil
	}
	return append(make([]byte, 0, n), d.take(int(n))...)
}

func (d *decoder) stat() stat {
	var s stat
	s.czxid = d.varint()
	s.mzxid = s.czxid + d.varint()
	s.pzxid = s.czxid + d.varint()
	s.ctime = d.varint()
	s.mtime = s.ctime + d.varint()
	s.owner = d.fixed()
	s.version, s.creations, s.aversion = int32(d.varint()), int32(d.varint()), int32(d.varint())
	return s
}

func (d *decoder) acl() []ACL {
	n, size := binary.Uvarint(d.b)
	if size <= 0 || n > uint64(len(d.b)) {
		d.fail()
		return nil
	}
	d.b = d.b[size:]
	if n == 0 {
		return nil
	}
	acl := make([]ACL, 0, n)
	for range n {
		acl = append(acl, ACL{int32(d.varint()), ID{string(d.bytes()), string(d.bytes())}})
	}
	return acl
}

func (d *decoder) header() header {
	if v := d.byte(); v != formatVersion {
		d.fail()
	}
	return header{d.varint(), d.varint(), d.varint(), d.varint()}
}

func (d *decoder) entry() entry {
	e := entry{kind: d.byte()}
	switch e.kind {
	case entrySession:
		e.session.id, e.session.timeoutMs = d.fixed(), int32(d.varint())
		copy(e.session.password[:], d.take(16))
		return e
	case entrySessionEnd:
		e.session.id = d.fixed()
		return e
	}
	e.path = string(d.bytes())
	switch e.kind {
	case entryCreate:
		e.stat, e.acl, e.data, e.view = d.stat(), d.acl(), d.bytes(), d.byte() == 1
	case entryData:
		e.stat, e.data = d.stat(), d.bytes()
	case entryACL:
		e.stat, e.acl = d.stat(), d.acl()
	case entryChild:
		e.stat = d.stat()
	case entryDelete:
	case entryView:
		e.view = d.byte() == 1
	default:
		d.fail()
	}
	if !validPath(e.path) {
		d.fail()
	}
	return e
}

// readRecord reads a whole record.
func readRecord(r coordinator.Record) (kind byte, h header, entries []entry, err error) {
	if len(r.Key) != 2 || r.Key[0] != 0 || r.Key[1] > kindSnapshotEnd {
		return 0, h, nil, fmt.Errorf("%w: key %x", errRecord, r.Key)
	}
	d := decoder{b: r.Value}
	h = d.header()
	for len(d.b) > 0 {
		entries = append(entries, d.entry())
	}
	if d.bad {
		return 0, h, nil, errRecord
	}
	return r.Key[1], h, entries, nil
}
