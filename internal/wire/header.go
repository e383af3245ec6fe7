package wire

import "errors"

// ErrBadRequest is in the chain of every error about bytes that are not a request. The connection must be closed.
var ErrBadRequest = errors.New("malformed request")

// Header is the header of a request.
type Header struct {
	Key           int16
	Version       int16
	CorrelationID int32
	ClientID      *string
	BodyOffset    int // where the body begins in the frame
}

// ParseHeader reads the header of a request. frame is without its four length bytes.
func ParseHeader(frame []byte) (Header, error) { return Header{}, errors.ErrUnsupported }
