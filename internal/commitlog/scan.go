package commitlog

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"moldau/internal/batch"
)

// scanner reads a log file from front to back.
type scanner struct {
	f        io.ReaderAt
	pos, end int64
	chunk    int    // how much to read at once, 0 = scanBytes
	buf      []byte // what was read and not handed out yet; it lies at pos
	space    []byte // memory, what was read last at its start
	read     int    // how much that is, what was handed out of it included
}

const scanBytes = 256 << 10

// next returns the next batch, good until the call after. The error is ErrCorrupt or ErrShort if there is none, anything
// else if the file cannot be read.
func (s *scanner) next() (batch.Batch, error) {
	if err := s.fill(batch.PeekSize); err != nil {
		return nil, err
	}
	size, _, magic, err := batch.PeekHeader(s.buf)
	if err != nil {
		return nil, err
	}
	if int64(size) > s.end-s.pos {
		return nil, batch.ErrShort
	}
	if err := s.fill(size); err != nil {
		return nil, err
	}
	if magic != 2 {
		if oldFormat(s.buf[:size]) {
			return nil, fmt.Errorf("%w: convert the topic with Apache Kafka 3.9 first", batch.ErrOldMagic)
		}
		return nil, batch.ErrCorrupt // the zeros of a lost sector look like format 0
	}
	b, rest, err := batch.Next(s.buf[:size])
	if err != nil || len(rest) > 0 {
		return nil, errors.Join(err, batch.ErrCorrupt)
	}
	s.buf = s.buf[size:]
	s.pos += int64(size)
	return b, nil
}

// reads tells whether next will read from the file, over what it has handed out before.
func (s *scanner) reads() bool {
	if len(s.buf) < batch.PeekSize {
		return true
	}
	size, _, _, err := batch.PeekHeader(s.buf)
	return err == nil && size > len(s.buf)
}

// before returns the last n bytes that were handed out, all of them since the last read.
func (s *scanner) before(n int) []byte {
	at := s.read - len(s.buf)
	return s.space[at-n : at]
}

// zeros tells whether the place of the next header holds nothing but zeros.
func (s *scanner) zeros() bool {
	for _, b := range s.buf[:min(len(s.buf), batch.HeaderSize)] {
		if b != 0 {
			return false
		}
	}
	return true
}

// fill makes buf hold at least n bytes, or all that there are.
func (s *scanner) fill(n int) error {
	if len(s.buf) >= n {
		return nil
	}
	want := int(min(int64(max(n, cmp.Or(s.chunk, scanBytes))), s.end-s.pos))
	if want < n {
		return batch.ErrShort
	}
	if len(s.space) < want {
		s.space = make([]byte, want)
	}
	have := copy(s.space, s.buf)
	got, err := s.f.ReadAt(s.space[have:want], s.pos+int64(have))
	s.read = have + got
	s.buf = s.space[:s.read]
	if len(s.buf) < n {
		if err == nil || err == io.EOF {
			return batch.ErrShort
		}
		return err
	}
	return nil
}

// oldFormat tells whether bytes are a message of format 0 or 1: base offset, size, CRC-32 of the rest.
func oldFormat(b []byte) bool {
	return len(b) > batch.PeekSize && crc32.ChecksumIEEE(b[16:]) == binary.BigEndian.Uint32(b[12:])
}
