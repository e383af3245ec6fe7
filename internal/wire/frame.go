package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

var (
	// ErrFrameTooLarge says that a frame declares more bytes than are allowed.
	ErrFrameTooLarge = errors.New("frame is larger than allowed")
	// ErrFrameLength says that a frame declares a negative length.
	ErrFrameLength = errors.New("frame has a negative length")
)

// A frame's buffer begins with at most FirstStepBytes and grows by growFactor each time that it is full, so that a sender
// who only declares a large frame holds little of our memory.
const (
	FirstStepBytes = 64 << 10
	growFactor     = 8
)

// ReadFrame reads one frame and returns it without its four length bytes.
//
// get returns a buffer of at least n bytes, all of which are used; nil stands for make. It is called once for a frame of up to
// FirstStepBytes, with FirstStepBytes for a larger one, and again with more when its buffer is full; what it returned before is the
// caller's again when ReadFrame returns.
//
// At the end of the stream between two frames the error is io.EOF, inside one io.ErrUnexpectedEOF. It is ErrFrameTooLarge
// or ErrFrameLength, with the declared length in the text, before anything of the frame is read.
func ReadFrame(r io.Reader, maxBytes int, get func(n int) []byte) ([]byte, error) {
	if get == nil {
		get = func(n int) []byte { return make([]byte, n) }
	}
	var prefix [4]byte
	if _, err := io.ReadFull(r, prefix[:]); err != nil {
		return nil, err
	}
	declared := int32(binary.BigEndian.Uint32(prefix[:]))
	if declared < 0 {
		return nil, fmt.Errorf("%w: %d", ErrFrameLength, declared)
	}
	length := int(declared)
	if length > maxBytes {
		return nil, fmt.Errorf("%w: %d bytes declared, the limit is %d", ErrFrameTooLarge, length, maxBytes)
	}
	buf := get(min(length, FirstStepBytes)) // after the prefix: an idle connection holds no buffer
	for have := 0; have < length; {
		if have == len(buf) {
			larger := get(min(length, growFactor*have))
			copy(larger, buf)
			buf = larger
		}
		n, err := io.ReadFull(r, buf[have:min(length, len(buf))])
		have += n
		if err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return nil, fmt.Errorf("after %d of %d bytes of a frame: %w", have, length, err)
		}
	}
	return buf[:length:length], nil
}
