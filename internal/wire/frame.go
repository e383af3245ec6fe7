package wire

import (
	"errors"
	"io"
)

var (
	// ErrFrameTooLarge says that a frame declares more bytes than are allowed.
	ErrFrameTooLarge = errors.New("frame is larger than allowed")
	// ErrFrameLength says that a frame declares a negative length or one too small for its header.
	ErrFrameLength = errors.New("frame has an impossible length")
)

// ReadFrame reads one frame and returns it without its four length bytes. get returns a buffer of length n, which may be
// larger in capacity; nil means plain make. At a clean end of the stream the error is io.EOF, inside a frame it is
// io.ErrUnexpectedEOF.
func ReadFrame(r io.Reader, maxBytes int, get func(n int) []byte) ([]byte, error) {
	return nil, errors.ErrUnsupported
}
