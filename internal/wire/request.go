package wire

import (
	"encoding/binary"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// DecodeRequest decodes the body of a request, frame[h.BodyOffset:]. Byte fields of the result alias body, strings do
// not. Errors wrap ErrBadRequest. The version must be one that kmsg knows.
func DecodeRequest(h Header, body []byte) (kmsg.Request, error) { return DecodeAgain(h, body, nil) }

// DecodeAgain is DecodeRequest into the memory of an earlier request of the same API, of which nothing is in use any more.
// It is the result, if it is one of Produce or Fetch, which are all that is worth it. nil: there is none.
func DecodeAgain(h Header, body []byte, earlier kmsg.Request) (kmsg.Request, error) {
	req := earlier
	switch r := earlier.(type) { // kmsg lets fields be that a version does not have, and reuses arrays
	case *kmsg.ProduceRequest:
		topics := r.Topics[:0]
		*r = kmsg.NewProduceRequest()
		r.Topics = topics
		r.SetVersion(h.Version)
	case *kmsg.FetchRequest:
		topics, forgotten := r.Topics[:0], r.ForgottenTopics[:0]
		*r = kmsg.NewFetchRequest()
		r.Topics, r.ForgottenTopics = topics, forgotten
		r.SetVersion(h.Version)
	default:
		var err error
		if req, err = empty(h); err != nil {
			return nil, err
		}
	}
	if _, err := guard(req, body); err != nil {
		return nil, err
	}
	if err := req.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("%w: %s version %d: %w", ErrBadRequest, kmsg.NameForKey(h.Key), h.Version, err)
	}
	return req, nil
}

// Growth returns how many bytes DecodeRequest allocates for a body, about, besides the body itself: 64 MiB at most, 0 for a
// small one. Errors are those of DecodeRequest.
func Growth(h Header, body []byte) (int, error) {
	req, err := empty(h)
	if err != nil {
		return 0, err
	}
	return guard(req, body)
}

// empty returns a request to decode into.
func empty(h Header) (kmsg.Request, error) {
	req, ok := NewRequest(h.Key, h.Version)
	if !ok {
		return nil, fmt.Errorf("%w %d", ErrUnknownKey, h.Key)
	}
	if h.Version > req.MaxVersion() {
		return nil, fmt.Errorf("%w: version %d of %s", ErrBadRequest, h.Version, kmsg.NameForKey(h.Key))
	}
	return req, nil
}

// AppendRequest appends a whole frame, length and header included. The version of req must be set.
func AppendRequest(dst []byte, correlationID int32, clientID *string, req kmsg.Request) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint16(dst, uint16(req.Key()))
	dst = binary.BigEndian.AppendUint16(dst, uint16(req.GetVersion()))
	dst = binary.BigEndian.AppendUint32(dst, uint32(correlationID))
	if req.Key() != controlledShutdown || req.GetVersion() != 0 {
		if clientID == nil {
			dst = append(dst, 0xff, 0xff)
		} else {
			dst = binary.BigEndian.AppendUint16(dst, uint16(len(*clientID)))
			dst = append(dst, *clientID...)
		}
	}
	if req.IsFlexible() {
		dst = append(dst, 0)
	}
	return endFrame(req.AppendTo(dst), start)
}

// endFrame fills in the length of the frame that begins at start.
func endFrame(dst []byte, start int) []byte {
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-4))
	return dst
}
