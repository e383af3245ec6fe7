package vfs

import (
	"io"
	"sync"
)

// sendBytes is how much one read and one write of send move.
const sendBytes = 64 << 10

// buffers lends the buffers that send copies through.
type buffers struct{ pool sync.Pool }

// send copies src's [pos, pos+n) to dst and returns how many bytes dst took.
func (b *buffers) send(dst io.Writer, src io.ReaderAt, pos, n int64) (sent int64, err error) {
	buf, _ := b.pool.Get().(*[sendBytes]byte)
	if buf == nil {
		buf = new([sendBytes]byte)
	}
	defer b.pool.Put(buf)
	for sent < n {
		piece := buf[:min(n-sent, sendBytes)]
		got, readErr := src.ReadAt(piece, pos+sent)
		wrote, err := dst.Write(piece[:got])
		sent += int64(wrote)
		if err != nil {
			return sent, err
		}
		if got < len(piece) {
			if readErr == io.EOF {
				readErr = io.ErrUnexpectedEOF
			}
			return sent, readErr
		}
	}
	return sent, nil
}
