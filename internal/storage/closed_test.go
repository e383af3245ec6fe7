package storage

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"testing"

	"moldau/internal/vfs"
)

// TestClosedBytes writes the file that docs/format/closed.md shows, and reads it.
func TestClosedBytes(t *testing.T) {
	summary, err := hex.DecodeString("112233445566778802f0a5bcb3f16600f0a5bcb3f1669a0102010000")
	must(t, err)
	logs := closedLogs{tp("first", 0): {id(7), summary}, tp("first", 1): {id(7), nil}}
	b := logs.encode()
	const want = "4d4f4c444155430100000033a9ba71ce0900000000000000000000000000000700056669727374112233445566778802f0a5bcb3f16600f0a5bcb3f1669a01020100000000001792a8f1c90900000000000000000000000000000701056669727374"
	if got := hex.EncodeToString(b); got != want {
		t.Errorf("have\n%s\nwant\n%s", got, want)
	}
	read := parseClosed(b)
	if len(read) != 2 || !bytes.Equal(read[tp("first", 0)].summary, summary) || read[tp("first", 1)].id != id(7) {
		t.Errorf("read %v", read)
	}
	if first := parseClosed(b[:len(b)-1]); len(first) != 1 || first[tp("first", 0)].id != id(7) {
		t.Errorf("of a file that is cut %v is read", first)
	}
	if first := (closedLogs{tp("first", 0): {id(7), make([]byte, maxEntryBytes)}}).encode(); len(first) != len(closedMagic) {
		t.Error("an entry is written that cannot be read")
	}
}

// FuzzClosed: no content of the file does harm, and what is read of it is written again.
func FuzzClosed(f *testing.F) {
	f.Add([]byte(closedMagic))
	f.Add(closedLogs{tp("a", 0): {id(1), []byte{1}}, tp("b", 3): {id(2), make([]byte, 100)}}.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		logs := parseClosed(b)
		if again := parseClosed(logs.encode()); !reflect.DeepEqual(again, logs) {
			t.Fatalf("%x: %v, and written again %v", b, logs, again)
		}
	})
}

// TestSummariesOfUnopenedLogs: what a stop knew of a log stays known over a run in which nobody opens it, and goes with the partition.
func TestSummariesOfUnopenedLogs(t *testing.T) {
	mem := vfs.NewMem()
	s := run(t, options(mem, "/a"))
	writeAll(t, []*Log{open(t, s, "a", 1), open(t, s, "b", 2), open(t, s, "c", 3)})
	must(t, s.Stop(true))
	s = run(t, options(mem, "/a"))
	open(t, s, "a", 1)
	must(t, s.DeleteClosed(tp("c", 0), id(3)))
	must(t, s.Stop(true))
	s, err := OpenDirectories(options(mem, "/a"))
	must(t, err)
	defer s.Stop(false)
	closed := s.dirs[0].closed
	if closed[tp("a", 0)].id != id(1) || closed[tp("b", 0)].id != id(2) || len(closed) != 2 {
		t.Errorf("known are %v", closed)
	}
}

// TestClosedLogsAreOfCleanStops: after a kill nobody believes what the stop before it has left.
func TestClosedLogsAreOfCleanStops(t *testing.T) {
	mem := vfs.NewMem()
	s := run(t, options(mem, "/a"))
	writeAll(t, []*Log{open(t, s, "a", 1)})
	must(t, s.Stop(true))
	s = run(t, options(mem, "/a"))
	must(t, s.Stop(false))
	s, err := OpenDirectories(options(mem, "/a"))
	must(t, err)
	defer s.Stop(false)
	if len(s.dirs[0].closed) != 0 {
		t.Errorf("known are %v", s.dirs[0].closed)
	}
}
