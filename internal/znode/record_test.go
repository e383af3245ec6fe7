package znode

import (
	"encoding/hex"
	"reflect"
	"strings"
	"testing"

	"moldau/internal/coordinator"
)

// TestRecordBytes holds the bytes that lie in logs.
func TestRecordBytes(t *testing.T) {
	password := [16]byte{1, 2, 3}
	some := stat{czxid: 100, mzxid: 101, pzxid: 102, ctime: 1000, mtime: 1001, owner: 1 << 56, version: 1, creations: 2, aversion: 3}
	const someBytes = "c801 02 04 d00f 02 0100000000000000 02 04 06"
	for _, c := range []struct {
		e     entry
		bytes string
	}{
		{entry{kind: entryCreate, path: "/a", stat: some, data: []byte{}, view: true}, "01 04 2f61" + someBytes + "00 00 01"},
		{entry{kind: entryCreate, path: "/a", stat: some, acl: []ACL{{31, ID{"digest", "u:p"}}}}, "01 04 2f61" + someBytes + "01 3e 0c 646967657374 06 753a70 01 00"},
		{entry{kind: entryData, path: "/a", stat: some, data: []byte("x")}, "02 04 2f61" + someBytes + "02 78"},
		{entry{kind: entryACL, path: "/a", stat: some}, "03 04 2f61" + someBytes + "00"},
		{entry{kind: entryChild, path: "/", stat: some}, "04 02 2f" + someBytes},
		{entry{kind: entryDelete, path: "/a"}, "05 04 2f61"},
		{entry{kind: entryView, path: "/a", view: true}, "06 04 2f61 01"},
		{entry{kind: entrySession, session: sessionRecord{1 << 56, 6000, password}}, "07 0100000000000000 e05d 01020300000000000000000000000000"},
		{entry{kind: entrySessionEnd, session: sessionRecord{id: 1 << 56}}, "08 0100000000000000"},
	} {
		want := strings.ReplaceAll("00 0a 0c 0e 10"+c.bytes, " ", "")
		h := header{5, 6, 7, 8}
		value := appendEntry(appendHeader(nil, h), c.e)
		if got := hex.EncodeToString(value); got != want {
			t.Errorf("%+v\nbytes %s\nwant  %s", c.e, got, want)
		}
		kind, gotHeader, entries, err := readRecord(newRecord(kindSnapshotPart, value))
		if err != nil || kind != kindSnapshotPart || gotHeader != h || len(entries) != 1 || !reflect.DeepEqual(entries[0], c.e) {
			t.Errorf("%+v read as %d %+v %+v, %v", c.e, kind, gotHeader, entries, err)
		}
	}
}

// TestMark: a mark is a transaction that changes nothing but the newest zxid.
func TestMark(t *testing.T) {
	s := &shard{c: &Coordinator{}, tree: newTree(), sessions: map[int64]*session{}, watches: watches{data: watchTable{}, child: watchTable{}}, mirror: newMirror("c")}
	before, shown := len(s.tree.nodes), s.mirror.shown
	mark := s.Mark()
	mark.Offset = 41
	if err := s.Replay(mark); err != nil || s.zxid != 42 || len(s.tree.nodes) != before || s.mirror.shown != shown {
		t.Errorf("zxid %d, %d nodes, %v", s.zxid, len(s.tree.nodes), err)
	}
}

// FuzzReplay replays anything: an error, or a tree that holds together, and never a panic.
func FuzzReplay(f *testing.F) {
	x := appendHeader(nil, header{metadata: noMetadataOffset})
	f.Add(byte(kindTransaction), appendEntry(x, entry{kind: entryCreate, path: "/a/b", data: []byte("x")}))
	f.Add(byte(kindTransaction), appendEntry(x, entry{kind: entryDelete, path: "/zookeeper"}))
	f.Add(byte(kindSnapshotBegin), appendEntry(x, entry{kind: entrySession, session: sessionRecord{id: 7}}))
	f.Fuzz(func(t *testing.T, kind byte, value []byte) {
		s := &shard{c: &Coordinator{}, tree: newTree(), sessions: map[int64]*session{}, watches: watches{data: watchTable{}, child: watchTable{}}, mirror: newMirror("c")}
		if s.Replay(coordinator.Record{Key: []byte{0, kind}, Value: value}) != nil {
			return
		}
		for path := range s.tree.nodes {
			if parent, name := split(path); path != "/" {
				if n := s.tree.nodes[parent]; n != nil {
					if _, ok := n.children[name]; !ok {
						t.Errorf("%q is not among its parent's children", path)
					}
				}
			}
		}
	})
}
