package wire

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ErrBadResponse is in the chain of every error about bytes that are not the response awaited.
var ErrBadResponse = errors.New("malformed response")

const apiVersions = 18

// flexibleHeader reports whether the header before resp has tagged fields (response header version 1).
func flexibleHeader(resp kmsg.Response) bool { return resp.IsFlexible() && resp.Key() != apiVersions }

// AppendResponse appends a whole frame, length and header included. The version of resp must be set.
func AppendResponse(dst []byte, correlationID int32, resp kmsg.Response) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(correlationID))
	if flexibleHeader(resp) {
		dst = append(dst, 0)
	}
	return endFrame(resp.AppendTo(dst), start)
}

// ReadResponse decodes a response frame, without its four length bytes, into resp, whose version must be that of the
// request. Byte fields of resp alias frame. A broker that does not serve that version of ApiVersions answers in version 0
// (KIP-511); then resp's version is 0 on return.
func ReadResponse(frame []byte, resp kmsg.Response) (correlationID int32, err error) {
	if len(frame) < 4 {
		return 0, fmt.Errorf("%w: %d bytes, too few for a header", ErrBadResponse, len(frame))
	}
	correlationID = int32(binary.BigEndian.Uint32(frame))
	body := frame[4:]
	if flexibleHeader(resp) {
		var ok bool
		if body, ok = skipTags(body); !ok {
			return correlationID, fmt.Errorf("%w: tagged fields of the header", ErrBadResponse)
		}
	}
	if resp.Key() == apiVersions && len(body) >= 2 && int16(binary.BigEndian.Uint16(body)) == kerr.UnsupportedVersion.Code {
		resp.SetVersion(0)
	}
	if err := resp.ReadFrom(body); err != nil {
		return correlationID, fmt.Errorf("%w: %s version %d: %w", ErrBadResponse, kmsg.NameForKey(resp.Key()), resp.GetVersion(), err)
	}
	return correlationID, nil
}
