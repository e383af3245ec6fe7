package server

import (
	"math/bits"
	"sync"
)

// Buffers are pooled by size class: powers of two from smallestFrame to largestFrame. Larger ones are left to the
// garbage collector, so that a burst of huge requests is not held for ever.
const (
	smallestFrame = 1 << 10
	largestFrame  = 1 << 22
	frameClasses  = 13
)

// frame is a pooled buffer.
type frame struct{ buf []byte }

// frames is a pool of buffers, by size class.
type frames struct {
	classes [frameClasses]sync.Pool
}

// class returns the smallest class whose buffers hold n bytes.
func class(n int) int {
	if n <= smallestFrame {
		return 0
	}
	return bits.Len(uint(n-1)) - bits.Len(uint(smallestFrame-1))
}

// get returns a frame whose buffer has n bytes or more.
func (p *frames) get(n int) *frame {
	c := class(n)
	if c >= frameClasses {
		return &frame{buf: make([]byte, n)}
	}
	if f, ok := p.classes[c].Get().(*frame); ok {
		f.buf = f.buf[:cap(f.buf)]
		return f
	}
	return &frame{buf: make([]byte, smallestFrame<<c)}
}

// put takes a frame back. Nothing may point into it any more.
func (p *frames) put(f *frame) {
	size := cap(f.buf)
	if size < smallestFrame || size > largestFrame {
		return
	}
	// A buffer that append has grown may lie between two classes: it serves the lower one.
	p.classes[bits.Len(uint(size))-bits.Len(uint(smallestFrame))].Put(f)
}
