package fetcher

import "moldau/internal/xsync"

const (
	smallFrame = 64 << 10 // a frame below it gets a slice of its own
	heldBytes  = 2 << 20  // a larger buffer is not kept
)

// buffer is the memory that the answers on one connection are read into, one after the other: records are on the disk
// before the next answer is asked for.
type buffer struct {
	mu   xsync.Mutex
	free []byte // nil: it is out, or there is none
	out  []byte
}

// get returns n bytes or more for a frame, as wire.ReadFrame wants them.
func (b *buffer) get(n int) []byte {
	if n < smallFrame {
		return make([]byte, n)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if cap(b.free) >= n {
		b.out, b.free = b.free, nil
	} else {
		b.out, b.free = make([]byte, n), nil
	}
	return b.out
}

// done says that nothing of the last answer is in use any more. busy keeps its memory for the next.
func (b *buffer) done(busy bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if busy && b.out != nil && cap(b.out) <= heldBytes {
		b.free = b.out
	}
	if !busy {
		b.free = nil
	}
	b.out = nil
}
