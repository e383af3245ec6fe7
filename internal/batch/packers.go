package batch

import (
	"bytes"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Packers keeps what compresses and decompresses, and the buffers between the two, from one batch to the next: to make a
// compressor for gzip takes longer than to compress a batch of usual size, and all of them have buffers that are larger than
// such a batch. The zero value is ready; nil keeps nothing.
type Packers struct {
	packers [Zstd][maxLZ4Level + 1]sync.Pool         // of packer, by codec and level
	zstds   [zstd.SpeedBestCompression + 1]sync.Pool // of *zstd.Encoder, by level
	gunzips sync.Pool                                // of *gzip.Reader
	buffers sync.Pool                                // of *[]byte
}

// maxLZ4Level is the highest level that a codec has; zstd's higher ones are all the same here.
const maxLZ4Level = 17

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
	pool := &p.packers[c][max(level, 0)] // gzip's default is -1 in Kafka
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

// zstd returns an encoder for a level.
func (p *Packers) zstd(level int) (*zstd.Encoder, error) {
	speed := zstdSpeed(level)
	if p != nil {
		if kept, ok := p.zstds[speed].Get().(*zstd.Encoder); ok {
			return kept, nil
		}
	}
	w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true), zstd.WithZeroFrames(true), zstd.WithEncoderLevel(speed))
	if err != nil {
		return nil, fmt.Errorf("zstd level %d: %w", level, err)
	}
	return w, nil
}

// keepZstd takes an encoder back.
func (p *Packers) keepZstd(level int, w *zstd.Encoder) {
	if p != nil {
		p.zstds[zstdSpeed(level)].Put(w)
	}
}

// zstdSpeed maps Kafka's levels to the four of this library.
func zstdSpeed(level int) zstd.EncoderLevel {
	if level == 0 {
		return zstd.SpeedDefault
	}
	return zstd.EncoderLevelFromZstd(level)
}

// gunzip is gzip.NewReader.
func (p *Packers) gunzip(src []byte) (*gzip.Reader, error) {
	if p != nil {
		if r, ok := p.gunzips.Get().(*gzip.Reader); ok {
			return r, r.Reset(bytes.NewReader(src))
		}
	}
	return gzip.NewReader(bytes.NewReader(src))
}

// keepGunzip takes a reader back.
func (p *Packers) keepGunzip(r *gzip.Reader) {
	if p != nil {
		p.gunzips.Put(r)
	}
}

const (
	smallestBuffer = downGather + 4<<10 // what gathers, and a message of usual size
	largestBuffer  = 1 << 20            // that is kept: few batches need more
)

// buffer returns an empty one of at least smallestBuffer.
func (p *Packers) buffer() *[]byte {
	if p != nil {
		if kept, ok := p.buffers.Get().(*[]byte); ok {
			return kept
		}
	}
	fresh := make([]byte, 0, smallestBuffer)
	return &fresh
}

// keep takes a buffer back, or the longer one that it has become.
func (p *Packers) keep(buffer *[]byte, grown []byte) {
	if cap(grown) > cap(*buffer) {
		*buffer = grown[:0]
	}
	if p != nil && cap(*buffer) <= largestBuffer {
		p.buffers.Put(buffer)
	}
}
