package zookeeper

import (
	"encoding/binary"
	"errors"
	"io"
)

// maxFrame is the longest frame that is read, in bytes (jute.maxbuffer).
const maxFrame = 1<<20 - 1

// growth is how many bytes of a frame are made room for before the first of them have come.
const growth = 16 << 10

var errFrame = errors.New("frame is longer than jute.maxbuffer, or its length is negative")

// readFrame reads one frame into buf, which grows if it has to, with the bytes that come.
func readFrame(r io.Reader, buf []byte) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return buf, err
	}
	return readBody(r, buf, length)
}

func readBody(r io.Reader, buf []byte, length [4]byte) ([]byte, error) {
	n := int(int32(binary.BigEndian.Uint32(length[:])))
	if n < 0 || n > maxFrame {
		return buf, errFrame
	}
	buf = buf[:0]
	for len(buf) < n {
		step := min(n-len(buf), max(cap(buf)-len(buf), growth, len(buf)))
		at := len(buf)
		buf = append(buf, make([]byte, step)...)
		if _, err := io.ReadFull(r, buf[at:]); err != nil {
			return buf[:0], err
		}
	}
	return buf, nil
}
