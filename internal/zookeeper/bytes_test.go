package zookeeper

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"moldau/internal/znode"
)

func unhex(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestRequestBytes reads what a client of Apache Kafka 1.1.1 sends.
func TestRequestBytes(t *testing.T) {
	open := []znode.ACL{{Perms: 31, ID: znode.ID{Scheme: "world", Name: "anyone"}}}
	for _, c := range []struct {
		bytes string
		xid   int32
		op    znode.Op
	}{
		{"00000001 0000000c 0000000c 2f62726f6b6572732f696473 00", 1, znode.GetChildren{Path: "/brokers/ids", WithStat: true}},
		{"00000003 00000003 00000015 2f62726f6b6572732f746f706963732f6669727374 00", 3, znode.Exists{Path: "/brokers/topics/first"}},
		{"00000004 00000001 0000000f 2f636f6e6669672f6368616e676573 ffffffff 00000001 0000001f 00000005 776f726c64 00000006 616e796f6e65 00000000",
			4, znode.Create{Path: "/config/changes", ACL: open}},
		{"00000005 00000001 0000001e 2f636f6e6669672f6368616e6765732f636f6e6669675f6368616e67655f 00000002 7b7d 00000001 0000001f 00000005 776f726c64 00000006 616e796f6e65 00000002",
			5, znode.Create{Path: "/config/changes/config_change_", Data: []byte("{}"), ACL: open, Flags: 2}},
		{"fffffffe 0000000b", -2, znode.Ping{}},
		{"00000007 fffffff5", 7, znode.CloseSession{}},
	} {
		xid, _, op, err := readRequest(unhex(t, c.bytes))
		if err != nil || xid != c.xid || !reflect.DeepEqual(op, c.op) {
			t.Errorf("%s\ngot  %d %#v, %v\nwant %d %#v", c.bytes, xid, op, err, c.xid, c.op)
		}
	}
	req, flagged, err := readConnect(unhex(t, "00000000 0000000000000000 00007530 0000000000000000 00000010 00000000000000000000000000000000 00"))
	if err != nil || !flagged || req.TimeoutMs != 30000 || len(req.Password) != 16 {
		t.Errorf("connect: %+v %v %v", req, flagged, err)
	}
	if _, flagged, err := readConnect(unhex(t, "00000000 0000000000000000 00007530 0000000000000000 00000010 00000000000000000000000000000000")); flagged || err != nil {
		t.Errorf("connect of an old client: %v %v", flagged, err)
	}
}

// TestAnswerBytes writes what a ZooKeeper 3.4.10 sends to it.
func TestAnswerBytes(t *testing.T) {
	password := [16]byte(unhex(t, "1938cc3cbbae1f254983c0ee30adf2e4"))
	for _, c := range []struct {
		m     znode.Message
		bytes string
	}{
		{znode.Message{Answer: znode.Connected{SessionID: 0x01a2295d603c0001, TimeoutMs: 30000, Password: password}},
			"00000025 00000000 00007530 01a2295d603c0001 00000010 1938cc3cbbae1f254983c0ee30adf2e4 00"},
		{znode.Message{Xid: 1, Zxid: 0x1e, Answer: znode.Children{Names: []string{"1"}, Stat: &znode.Stat{
			Czxid: 5, Mzxid: 5, Ctime: 0x000001a2295d739b, Mtime: 0x000001a2295d739b, Cversion: 1, NumChildren: 1, Pzxid: 0x18,
		}}}, "0000005d 00000001 000000000000001e 00000000 00000001 00000001 31" +
			"0000000000000005 0000000000000005 000001a2295d739b 000001a2295d739b 00000000 00000001 00000000 0000000000000000 00000000 00000001 0000000000000018"},
		{znode.Message{Xid: 3, Zxid: 0x1e, Code: znode.NoNode}, "00000010 00000003 000000000000001e ffffff9b"},
		{znode.Message{Xid: 4, Zxid: 0x28, Code: znode.NodeExists}, "00000010 00000004 0000000000000028 ffffff92"},
		{znode.Message{Xid: 5, Zxid: 0x29, Answer: znode.Created{Path: "/config/changes/config_change_0000000000"}},
			"0000003c 00000005 0000000000000029 00000000 00000028 2f636f6e6669672f6368616e6765732f636f6e6669675f6368616e67655f30303030303030303030"},
		{znode.Message{Xid: -2, Zxid: 0x35}, "00000010 fffffffe 0000000000000035 00000000"},
		{znode.Message{Xid: -1, Zxid: -1, Answer: znode.Event{Type: znode.NodeChildrenChanged, Path: "/consumers/test_group/ids"}},
			"00000035 ffffffff ffffffffffffffff 00000000 00000004 00000003 00000019 2f636f6e73756d6572732f746573745f67726f75702f696473"},
		{znode.Message{Xid: 7, Zxid: 0x24, Close: true}, "00000010 00000007 0000000000000024 00000000"},
	} {
		if got, want := appendMessage(nil, c.m, true), unhex(t, c.bytes); !bytes.Equal(got, want) {
			t.Errorf("%+v\ngot  %x\nwant %x", c.m, got, want)
		}
	}
}

// FuzzRequest reads anything: no panic, and no more memory than in proportion to what came.
func FuzzRequest(f *testing.F) {
	for _, seed := range []string{
		"00000001 0000000c 00000001 2f 00", "00000001 0000000e 0000000d00ffffffff000000012f00000000 ffffffff01ffffffff",
		"00000001 00000065 0000000000000000 00000001 00000001 2f 00000000 00000000", "00000001 00000065 0000000000000000 7fffffff",
		"00000001 00000001 7fffffff", "00000001 00000007 00000001 2f 0fffffff",
	} {
		f.Add(unhex(f, seed))
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _, op, err := readRequest(frame)
		_, _, _ = readConnect(frame)
		runtime.ReadMemStats(&after)
		if err == nil && op == nil {
			t.Error("neither an operation nor an error")
		}
		if grown := after.TotalAlloc - before.TotalAlloc; grown > uint64(100*len(frame)+1<<20) {
			t.Errorf("%d bytes for a frame of %d", grown, len(frame))
		}
	})
}

// FuzzPassed reads anything that claims to be another node's request.
func FuzzPassed(f *testing.F) {
	f.Add(appendPassed(nil, 3, "127.0.0.1:1234"))
	f.Fuzz(func(t *testing.T, body []byte) {
		by, remote, err := parsePassed(body)
		if err == nil && !bytes.Equal(appendPassed(nil, by, remote), body) {
			t.Errorf("%x is read as %d %q", body, by, remote)
		}
	})
}
