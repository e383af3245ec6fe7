package server

import (
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/wire"
)

const (
	// heavyBytes is what a request takes once it is decoded from which on it needs one of heavySlots. Honest ones are as
	// heavy when they name some 10,000 partitions; the records of a Produce do not count. A request that is shorter than
	// heavyFromBytes never is, since wire refuses what grows more than 24 times.
	heavyBytes     = 4 << 20
	heavyFromBytes = heavyBytes / 32
	heavySlots     = 2

	apiVersionsKey = 18

	// provenBytes bounds what a connection gets for a frame of which it has sent nothing yet, because the last one was as large.
	provenBytes = 1 << 20
)

// refusal is a client's breach of the protocol. It closes the connection.
type refusal struct{ reason string }

func (r *refusal) Error() string { return r.reason }

func refuse(format string, args ...any) error { return &refusal{fmt.Sprintf(format, args...)} }

var (
	errIdle        = errors.New("idle for connections.max.idle.ms")
	errStopReading = errors.New("no further requests are read")
	errTakenOver   = errors.New("it has served its other purpose")
)

// readLoop reads and dispatches requests. It returns the reason for which it ended, a *refusal if that is the client's
// breach of the protocol.
func (c *Conn) readLoop() error {
	for {
		if err := c.awaitRoom(); err != nil {
			return err
		}
		f, size, err := c.readFrame()
		if err != nil {
			if c.stopped() {
				return errStopReading
			}
			return err
		}
		c.active()
		if err := c.dispatch(f, size); err != nil {
			return err
		}
	}
}

// readFrame reads one request into a pooled frame, of which the first size bytes are the request.
func (c *Conn) readFrame() (f *frame, size int, err error) {
	c.in.since = 0
	buf, err := wire.ReadFrame(c.in, c.srv.limits.RequestMaxBytes, c.getBuffer)
	for _, t := range c.taken {
		if err == nil && f == nil && len(buf) > 0 && &t.buf[0] == &buf[0] {
			f = t
			continue
		}
		c.srv.frames.put(t)
	}
	c.taken = c.taken[:0]
	switch {
	case err == nil && f == nil: // an empty request, which the header's parser refuses
		return &frame{buf: buf}, len(buf), nil
	case err == nil:
		c.proven = min(len(buf), provenBytes)
		return f, len(buf), nil
	case errors.Is(err, wire.ErrFrameTooLarge):
		return nil, 0, refuse("%v: the largest allowed is socket.request.max.bytes=%d", err, c.srv.limits.RequestMaxBytes)
	case errors.Is(err, wire.ErrFrameLength):
		return nil, 0, refuse("%v", err)
	}
	return nil, 0, err
}

// takeBuffer gives wire.ReadFrame a buffer. It may ask for several while a frame grows; readFrame sorts them out. A large frame need
// not grow, and be copied, up to the size that its connection has just sent a whole one of.
func (c *Conn) takeBuffer(n int) []byte {
	if n >= wire.FirstStepBytes {
		n = max(n, c.proven)
	}
	f := c.srv.frames.get(n)
	c.taken = append(c.taken, f)
	return f.buf[:n]
}

// dispatch has one request served and its reply sent or queued. The frame is the queue's from here on.
func (c *Conn) dispatch(f *frame, size int) error {
	received, h, raw := c.srv.now(), &c.header, f.buf[:size]
	if err := h.Parse(raw); err != nil {
		return refuse("unreadable request: %v", err)
	}
	route, ok := c.srv.routes.find(*h, c.listener.Kind)
	if !ok {
		return refuse("request with %s, which this listener does not serve", nameOf(h.Key))
	}
	r := route.request()
	r.Header, r.Conn, r.Size, r.Received, r.frame = *h, c, size, received, f
	if h.Version < route.Min || h.Version > route.Max {
		if h.Key == apiVersionsKey {
			return c.enqueue(pending{r, Reply{Response: c.wrongApiVersions(r)}})
		}
		return refuse("%s version %d: served are %d to %d", nameOf(h.Key), h.Version, route.Min, route.Max)
	}
	if route.MaxBytes > 0 && size > route.MaxBytes {
		return refuse("%s of %d bytes: the largest allowed is %d", nameOf(h.Key), size, route.MaxBytes)
	}
	if route.Hold {
		c.awaitReplies()
	}
	c.srv.meters.bytesIn.Add(float64(size + 4))
	reply, err := c.handle(r, raw[h.BodyOffset:])
	if err != nil {
		return refuse("unreadable %s version %d: %v", nameOf(h.Key), h.Version, err)
	}
	p := pending{r, reply}
	if reply.Takeover != nil {
		return c.handOver(p)
	}
	return c.enqueue(p)
}

// handOver answers a request, and gives the connection to whoever has asked for it.
func (c *Conn) handOver(p pending) error {
	if err := c.enqueue(p); err != nil {
		return err
	}
	c.awaitReplies()
	if c.idle != nil {
		c.idle.Stop()
	}
	p.reply.Takeover(&takenConn{Conn: c.nc, in: c.in})
	return errTakenOver
}

// takenConn is a connection of which some bytes have been read already.
type takenConn struct {
	net.Conn
	in *ahead
}

func (c *takenConn) Read(b []byte) (int, error) {
	if c.in.Buffered() > 0 {
		return c.in.Read(b)
	}
	return c.Conn.Read(b)
}

// handle decodes a request and has it served. Those that take much memory once they are decoded take turns.
func (c *Conn) handle(r *Request, raw []byte) (Reply, error) {
	if r.Size >= heavyFromBytes {
		growth, err := wire.Growth(r.Header, raw)
		if err != nil {
			return Reply{}, err
		}
		if growth >= heavyBytes {
			c.srv.heavy <- struct{}{}
			defer func() { <-c.srv.heavy }()
		}
	}
	var err error
	if r.Body, err = wire.DecodeAgain(r.Header, raw, r.Body); err != nil {
		return Reply{}, err
	}
	return r.route.Handle(r), nil
}

// wrongApiVersions is the answer to ApiVersions in a version that we do not serve: always in version 0, with the row of
// ApiVersions itself, so that the client can ask again (KIP-511).
func (c *Conn) wrongApiVersions(r *Request) Response {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.ErrorCode = kerr.UnsupportedVersion.Code
	row := kmsg.NewApiVersionsResponseApiKey()
	row.ApiKey, row.MinVersion, row.MaxVersion = apiVersionsKey, r.route.Min, r.route.Max
	resp.ApiKeys = append(resp.ApiKeys, row)
	return &KResponse{CorrelationID: r.Header.CorrelationID, Body: resp, frames: &c.srv.frames}
}

// nameOf names an API key for a log line.
func nameOf(key int16) string {
	if name := kmsg.NameForKey(key); name != "Unknown" {
		return name
	}
	return "API key " + strconv.Itoa(int(key))
}
