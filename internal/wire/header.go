package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var (
	// ErrBadRequest is in the chain of every error about bytes that are not a request. The connection must be closed.
	ErrBadRequest = errors.New("malformed request")
	// ErrUnknownKey says that a request has an API key that kmsg does not know, so that not even the end of its header can
	// be found. It wraps ErrBadRequest.
	ErrUnknownKey = fmt.Errorf("%w: unknown API key", ErrBadRequest)
)

// Header is the header of a request.
type Header struct {
	Key           int16
	Version       int16
	CorrelationID int32
	ClientID      *string // nil is null
	BodyOffset    int     // where the body begins in the frame
}

// controlledShutdown is the one API whose version 0 has a header without client id (header version 0).
const controlledShutdown = 7

// ParseHeader reads the header of a request. frame is without its four length bytes. Whether key and version are served is
// not looked at: a version of a known key that is not served has a header too, and ApiVersions must answer it. With an
// error the fields that could be read are set, for the log.
func ParseHeader(frame []byte) (Header, error) {
	var h Header
	err := h.Parse(frame)
	return h, err
}

// Parse is ParseHeader for all requests of a connection: where the client id is the one that h has, no memory is taken.
func (h *Header) Parse(frame []byte) error {
	known := h.ClientID
	*h = Header{}
	if len(frame) < 8 {
		return fmt.Errorf("%w: %d bytes, too few for a header", ErrBadRequest, len(frame))
	}
	h.Key = int16(binary.BigEndian.Uint16(frame))
	h.Version = int16(binary.BigEndian.Uint16(frame[2:]))
	h.CorrelationID = int32(binary.BigEndian.Uint32(frame[4:]))
	if h.Version < 0 {
		return fmt.Errorf("%w: version %d of API key %d", ErrBadRequest, h.Version, h.Key)
	}
	flexible, ok := flexibleRequest(h.Key, h.Version)
	if !ok {
		return fmt.Errorf("%w %d", ErrUnknownKey, h.Key)
	}
	at := 8
	if h.Key == controlledShutdown && h.Version == 0 {
		h.BodyOffset = at
		return nil
	}
	if len(frame) < at+2 {
		return fmt.Errorf("%w: header ends in the client id", ErrBadRequest)
	}
	n := int(int16(binary.BigEndian.Uint16(frame[at:])))
	at += 2
	if n > len(frame)-at {
		return fmt.Errorf("%w: client id of %d bytes, %d left", ErrBadRequest, n, len(frame)-at)
	}
	if n >= 0 {
		if id := frame[at : at+n]; known != nil && *known == string(id) {
			h.ClientID = known
		} else {
			h.ClientID = kmsg.StringPtr(string(id))
		}
		at += n
	}
	if flexible {
		rest, ok := skipTags(frame[at:])
		if !ok {
			return fmt.Errorf("%w: tagged fields of the header", ErrBadRequest)
		}
		at = len(frame) - len(rest)
	}
	h.BodyOffset = at
	return nil
}

// flexibleRequest reports whether requests of a version have tagged fields (KIP-482); ok says that the key is known.
func flexibleRequest(key, version int16) (flexible, ok bool) {
	if isPrivate(key) {
		return true, true
	}
	if key < 0 || int(key) >= len(layouts) || len(layouts[key]) == 0 {
		return false, false
	}
	of := layouts[key][0]
	for _, l := range layouts[key] {
		if l.from <= version {
			of = l
		}
	}
	return strings.HasSuffix(of.text, "t"), true
}

// skipTags returns what follows a section of tagged fields (KIP-482).
func skipTags(b []byte) (rest []byte, ok bool) {
	count, b, ok := uvarint(b)
	if !ok {
		return nil, false
	}
	for range count { // each takes two bytes at least, so b runs out before a lying count does harm
		var size uint32
		if _, b, ok = uvarint(b); !ok {
			return nil, false
		}
		if size, b, ok = uvarint(b); !ok || uint64(size) > uint64(len(b)) {
			return nil, false
		}
		b = b[size:]
	}
	return b, true
}

// uvarint reads an unsigned varint of at most 32 bits.
func uvarint(b []byte) (v uint32, rest []byte, ok bool) {
	u, n := binary.Uvarint(b)
	if n <= 0 || u > 1<<32-1 {
		return 0, nil, false
	}
	return uint32(u), b[n:], true
}

// NewRequest returns an empty request with its version set. It reports false for a key that is neither kmsg's nor private.
func NewRequest(key, version int16) (kmsg.Request, bool) {
	if isPrivate(key) {
		return &PrivateRequest{APIKey: key, Version: version}, true
	}
	req := kmsg.RequestForKey(key)
	if req == nil {
		return nil, false
	}
	req.SetVersion(version)
	return req, true
}
