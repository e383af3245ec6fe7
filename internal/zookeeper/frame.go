package zookeeper

import (
	"encoding/binary"
	"errors"
	"io"
	"time"
)

// maxFrame is the longest frame that is read, in bytes (jute.maxbuffer).
const maxFrame = 1<<20 - 1

// growth is how many bytes of a frame are made room for before the first of them have come.
const growth = 16 << 10

// maxConnect is the longest first frame. Honest ones have 45 bytes.
const maxConnect = 1 << 10

// largeFrame is the length from which on a frame takes one of largeSlots: so many clients may have sent so much of a request.
const (
	largeFrame = 64 << 10
	largeSlots = 256
)

// largePatience is how long a large frame waits for its place: less than any session's timeout, in which nobody hears from
// that client.
const largePatience = 2 * time.Second

var errLarge = errors.New("too many large requests are under way")

var errFrame = errors.New("frame is longer than jute.maxbuffer, or its length is negative")

// readLength reads the length of a frame that may have most bytes.
func readLength(r io.Reader, most int) (int, error) {
	var b [4]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return 0, err
	}
	return length(b, most)
}

func length(b [4]byte, most int) (int, error) {
	n := int(int32(binary.BigEndian.Uint32(b[:])))
	if n < 0 || n > most {
		return 0, errFrame
	}
	return n, nil
}

// readBody reads n bytes into buf, which grows if it has to, with the bytes that come.
func readBody(r io.Reader, buf []byte, n int) ([]byte, error) {
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
