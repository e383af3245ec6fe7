package server

import (
	"context"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/wire"
)

// Request is one request of a connection. Body's byte fields point into a pooled frame: they are valid until the reply
// has been written, so whatever outlives that must be copied. With Route.Reused that goes for all of the Request.
type Request struct {
	Header   wire.Header
	Body     kmsg.Request
	Conn     *Conn
	Size     int // bytes of the frame
	Received time.Time
	// Kept is the handler's. With Route.Reused it finds there what it has left for the next request in the same memory.
	Kept any

	route  *served
	frame  *frame
	answer KResponse // what Response returns
}

// Context ends when the connection has ended and nobody can read an answer any more.
func (r *Request) Context() context.Context { return r.Conn.ctx }

// Closing is closed when the connection reads no further requests: the node stops, or the client sent nonsense, or it
// is gone. A reply that waits for something better to say should then say what it has.
func (r *Request) Closing() <-chan struct{} { return r.Conn.closing }

// ClientID is the client's name for itself, "" if it gave none.
func (r *Request) ClientID() string {
	if r.Header.ClientID == nil {
		return ""
	}
	return *r.Header.ClientID
}

// Answer makes a ready reply of body, in the version of the request.
func (r *Request) Answer(body kmsg.Response) Reply { return Reply{Response: r.Response(body)} }

// Response makes a response of body, in the version of the request. It is the request's only one.
func (r *Request) Response(body kmsg.Response) Response {
	body.SetVersion(r.Header.Version)
	r.answer = KResponse{CorrelationID: r.Header.CorrelationID, Body: body, frames: &r.Conn.srv.frames}
	return &r.answer
}

// finish lets go of the memory of a request that nobody uses any more.
func (r *Request) finish() {
	r.Conn.srv.frames.put(r.frame)
	if r.route.Reused {
		r.Conn, r.frame = nil, nil
		r.route.spare.Put(r)
	}
}

// Response is an answer that can be written. A Response with a method Release() gets that called once after it has been
// written, or instead of being written.
type Response interface {
	WriteTo(w io.Writer) (int64, error)
}

// Reply is what a route makes of a request: exactly one of Response, Wait and None is set.
type Reply struct {
	Response Response        // ready now
	Wait     func() Response // called once, on the goroutine that writes; must return soon after Request.Context is done
	Ready    func() bool     // with Wait: whether that would return at once; nil: it is not known
	None     bool            // no answer (acks=0)
	Close    bool            // close the connection after this reply
	// Takeover, with Response: the connection's requests end with this one. Once it is answered, Takeover has the connection
	// for itself, on the goroutine that read the request, until it returns; then the connection is closed.
	Takeover func(net.Conn)
	Reason   string // with Close: what the log line says
}

// KResponse is a response that kmsg encodes.
type KResponse struct {
	CorrelationID int32
	Body          kmsg.Response // with its version set
	frames        *frames
}

// WriteTo writes the whole frame, its length included, in one Write.
func (r *KResponse) WriteTo(w io.Writer) (int64, error) {
	f := r.frames.get(smallestFrame)
	f.buf = r.appendTo(f.buf[:0])
	n, err := w.Write(f.buf)
	r.frames.put(f)
	return int64(n), err
}

func (r *KResponse) appendTo(dst []byte) []byte {
	return wire.AppendResponse(dst, r.CorrelationID, r.Body)
}

// pieced is a Response that may make several writes which should leave together. Then what does not fill a packet waits for the
// next: a reader that is woken for the first bytes of an answer finds that the rest is missing.
type pieced interface{ InPieces() bool }

func inPieces(r Response) bool {
	p, ok := r.(pieced)
	return ok && p.InPieces()
}

// releaser is a Response that holds something, such as a region of a log, until it is written.
type releaser interface{ Release() }

func release(r Response) {
	if h, ok := r.(releaser); ok {
		h.Release()
	}
}
