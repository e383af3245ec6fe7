package batch

import (
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// Packers keeps what compresses, and what it compresses from, from one conversion to the next: to make a compressor for gzip
// takes longer than to compress a batch of usual size, and all of them have buffers that are larger than such a batch. The
// zero value is ready; nil keeps nothing.
type Packers struct {
	packers  [Zstd][gzip.BestCompression + 1]sync.Pool // of packer, by codec and level
	gathered sync.Pool                                 // of *[]byte
}

// packer compresses what is written to it.
type packer interface {
	io.WriteCloser
	Reset(out io.Writer) // begins anew
}

// compressor is newCompressor. Close gives it back.
func (p *Packers) compressor(c Codec, level int, out io.Writer) (io.WriteCloser, error) {
	if p == nil {
		return newCompressor(c, level, out)
	}
	pool := &p.packers[c][level]
	if w, ok := pool.Get().(packer); ok {
		w.Reset(out)
		return &keptPacker{w, pool}, nil
	}
	fresh, err := newCompressor(c, level, out)
	if err != nil {
		return nil, err
	}
	return &keptPacker{fresh, pool}, nil
}

// keptPacker goes back to where it came from.
type keptPacker struct {
	packer
	pool *sync.Pool
}

// Close ends the stream. The writer must not be used after it.
func (w *keptPacker) Close() error {
	err := w.packer.Close()
	w.Reset(io.Discard) // lets go of what it wrote to
	w.pool.Put(w.packer)
	return err
}

// buffer returns an empty one of at least downGather and a message of usual size.
func (p *Packers) buffer() *[]byte {
	if p != nil {
		if kept, ok := p.gathered.Get().(*[]byte); ok {
			return kept
		}
	}
	fresh := make([]byte, 0, downGather+4<<10)
	return &fresh
}

// keep takes a buffer back.
func (p *Packers) keep(buffer *[]byte) {
	if p != nil {
		p.gathered.Put(buffer)
	}
}
