package server

import (
	"encoding/binary"
	"net"
	"slices"
	"testing"

	"moldau/internal/wire"
)

// TestProvenSize: a large frame takes one buffer where the one before it was as large, and what is only declared takes no more.
func TestProvenSize(t *testing.T) {
	w := newWorld(t, Limits{RequestMaxBytes: 100 << 20}, Listener{})
	defer w.stop()
	ours, theirs := net.Pipe()
	defer theirs.Close()
	c := newConn(w.srv, ours, Listener{})
	var gave []int
	give := c.getBuffer
	c.getBuffer = func(n int) []byte {
		b := give(n)
		gave = append(gave, len(b))
		return b
	}
	frame := func(bytes int) {
		t.Helper()
		gave = gave[:0]
		go func() {
			_, _ = theirs.Write(append(binary.BigEndian.AppendUint32(nil, uint32(bytes)), make([]byte, bytes)...))
		}()
		f, size, err := c.readFrame()
		if err != nil || size != bytes {
			t.Fatalf("a frame of %d bytes: %d, %v", bytes, size, err)
		}
		w.srv.frames.put(f)
	}
	expect := func(what string, want ...int) {
		t.Helper()
		if !slices.Equal(gave, want) {
			t.Fatalf("%s: buffers of %v bytes, want %v", what, gave, want)
		}
	}
	frame(200_000)
	expect("the first large frame", wire.FirstStepBytes, 200_000)
	frame(190_000)
	expect("another", 200_000)
	frame(220_000)
	expect("a larger one", 190_000, 220_000)
	frame(100)
	expect("a small one", 100)
	frame(200_000)
	expect("a large one after a small one", wire.FirstStepBytes, 200_000)
	frame(3 << 20)
	frame(3 << 20)
	expect("a very large one after another", provenBytes, 3<<20)
	gave = gave[:0]
	go func() {
		_, _ = theirs.Write([]byte{4, 0, 0, 0, 1})
		_ = theirs.Close()
	}()
	if _, _, err := c.readFrame(); err == nil {
		t.Fatal("a frame that never came")
	}
	expect("64 MiB that are only declared", provenBytes)
}
