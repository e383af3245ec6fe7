package batch

import "io"

// blocks is a format that packs a stream block by block.
type blocks struct {
	bytes       int // of a block before it is packed
	header      []byte
	trailer     []byte
	appendBlock func(dst, plain []byte) []byte
}

// blockWriter packs what is written to it piece by piece.
type blockWriter struct {
	blocks
	out    io.Writer
	plain  []byte // less than a block
	packed []byte // not yet written to out: the header at first, then a block at a time
}

// newBlockWriter begins a stream.
func newBlockWriter(b blocks, out io.Writer) *blockWriter {
	w := &blockWriter{blocks: b}
	w.Reset(out)
	return w
}

// Reset begins a new stream.
func (w *blockWriter) Reset(out io.Writer) {
	w.out, w.plain, w.packed = out, w.plain[:0], append(w.packed[:0], w.header...)
}

func (w *blockWriter) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		take := min(len(p), w.bytes-len(w.plain))
		w.plain, p = append(w.plain, p[:take]...), p[take:]
		if len(w.plain) == w.bytes {
			w.pack()
			if err := w.flush(); err != nil {
				return 0, err
			}
		}
	}
	return n, nil
}

// Close ends the stream.
func (w *blockWriter) Close() error {
	if len(w.plain) > 0 {
		w.pack()
	}
	w.packed = append(w.packed, w.trailer...)
	return w.flush()
}

// pack makes a block of what is held.
func (w *blockWriter) pack() {
	w.packed, w.plain = w.appendBlock(w.packed, w.plain), w.plain[:0]
}

// flush writes what is packed.
func (w *blockWriter) flush() error {
	_, err := w.out.Write(w.packed)
	w.packed = w.packed[:0]
	return err
}
