package batch

import (
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// Packers keeps what compresses by gzip from one conversion to the next: to make it takes longer than to compress a batch of
// usual size, and more memory. The zero value is ready; nil keeps nothing.
type Packers struct {
	gzip [gzip.BestCompression + 1]sync.Pool // of *gzip.Writer, by level
}

// compressor is newCompressor.
func (p *Packers) compressor(c Codec, level int, out io.Writer) (io.WriteCloser, error) {
	if p == nil || c != Gzip {
		return newCompressor(c, level, out)
	}
	pool := &p.gzip[level]
	w, ok := pool.Get().(*gzip.Writer)
	if !ok {
		fresh, err := newCompressor(c, level, out)
		if err != nil {
			return nil, err
		}
		w = fresh.(*gzip.Writer)
	}
	w.Reset(out)
	return &keptWriter{w, pool}, nil
}

// keptWriter goes back to where it came from.
type keptWriter struct {
	*gzip.Writer
	pool *sync.Pool
}

// Close ends the stream. The writer must not be used after it.
func (w *keptWriter) Close() error {
	err := w.Writer.Close()
	w.Reset(io.Discard) // lets go of what it wrote to
	w.pool.Put(w.Writer)
	return err
}
