package api

import (
	"encoding/binary"
	"io"
	"net"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/metadata"
	"moldau/internal/server"
	"moldau/internal/wire"
)

// wholeMetadata keeps the encoded answers to those who ask Metadata of all topics: with many of them it is long work that is
// the same for all until the image changes. Brokers that start, consumers of patterns and monitoring all ask for it.
type wholeMetadata struct {
	mu      sync.Mutex
	image   *metadata.Image // of which answers are; nil: there are none
	answers map[wholeKey][]byte
}

// wholeKey is what else an answer depends on.
type wholeKey struct {
	listener string
	version  int16
	topics   bool // with authorized operations
	cluster  bool
}

// of returns the answer that is kept, nil if there is none.
func (w *wholeMetadata) of(image *metadata.Image, key wholeKey) []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.image != image {
		return nil
	}
	return w.answers[key]
}

// keep stores an answer, and drops those of other images.
func (w *wholeMetadata) keep(image *metadata.Image, key wholeKey, frame []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.image != image {
		w.image, w.answers = image, make(map[wholeKey][]byte)
	}
	w.answers[key] = frame
}

// encodedAnswer is a response frame that others get too: only the correlation id is its own.
type encodedAnswer struct {
	correlationID int32
	frame         []byte // with the id of another
}

// encode makes frame of a body, in the version of r.
func encode(r *server.Request, body kmsg.Response) []byte {
	body.SetVersion(r.Header.Version)
	return wire.AppendResponse(nil, 0, body)
}

// WriteTo writes the frame, with its own correlation id in the place of the other.
func (a *encodedAnswer) WriteTo(w io.Writer) (int64, error) {
	var head [8]byte
	copy(head[:4], a.frame)
	binary.BigEndian.PutUint32(head[4:], uint32(a.correlationID))
	whole := net.Buffers{head[:], a.frame[8:]}
	return whole.WriteTo(w)
}
