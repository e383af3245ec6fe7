package wire

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// NewRequest returns an empty request of a key that kmsg knows, with the version set. It reports false for others.
func NewRequest(key, version int16) (kmsg.Request, bool) { return nil, false }

// DecodeRequest decodes the body of a request; the result aliases body.
func DecodeRequest(h Header, body []byte) (kmsg.Request, error) { return nil, errors.ErrUnsupported }

// AppendRequest appends a whole frame, length included.
func AppendRequest(dst []byte, correlationID int32, clientID *string, req kmsg.Request) []byte {
	return dst
}
