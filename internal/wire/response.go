package wire

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// AppendResponse appends a whole frame, length and header included. The version of resp must be set.
func AppendResponse(dst []byte, correlationID int32, resp kmsg.Response) []byte { return dst }

// ReadResponse decodes a response frame, without its four length bytes, into resp, whose version must be set. The result
// aliases frame.
func ReadResponse(frame []byte, resp kmsg.Response) (correlationID int32, err error) {
	return 0, errors.ErrUnsupported
}
