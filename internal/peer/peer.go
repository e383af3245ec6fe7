package peer

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/wire"
	"moldau/internal/xsync"
)

// Options say how to reach another node.
type Options struct {
	Dial            func(ctx context.Context, address string) (net.Conn, error)
	ClientID        string
	SoftwareName    string // told to the other side with ApiVersions (KIP-511); "": moldau
	SoftwareVersion string // "": unknown
	MaxBytes        int    // largest response taken; 0: 100 MiB
	// Buffer gives the memory for a response as wire.ReadFrame asks for it, of which what is decoded may be a part; nil: make.
	Buffer func(n int) []byte
}

const (
	defaultMaxBytes = 100 << 20
	apiVersionsKey  = 18
)

// Conn is a connection to one node. Make it with Dial.
type Conn struct {
	nc       net.Conn
	o        Options
	versions map[int16]versionRange // written before Dial returns, read only after
	writer   chan struct{}          // holding its one slot is the right to write
	reading  chan struct{}          // closed when the reading goroutine has ended

	mu struct {
		xsync.Mutex
		nextID  int32
		waiting []*Call // requests without a response, oldest first
		err     error   // why the connection has failed
	}
}

type versionRange struct{ min, max int16 }

// ErrClosed is the failure of a connection that Close has ended.
var ErrClosed = errors.New("connection to peer is closed")

// Dial connects to address and learns what the other side serves. The context bounds both.
func Dial(ctx context.Context, address string, o Options) (*Conn, error) {
	if o.MaxBytes <= 0 {
		o.MaxBytes = defaultMaxBytes
	}
	nc, err := o.Dial(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	c := &Conn{nc: nc, o: o, writer: make(chan struct{}, 1), reading: make(chan struct{})}
	go c.readLoop()
	if err := c.learnVersions(ctx); err != nil {
		c.Close()
		return nil, fmt.Errorf("ask %s for its versions: %w", address, err)
	}
	return c, nil
}

// learnVersions asks with ApiVersions 3, and in version 0 if the other side is too old for that (KIP-511).
func (c *Conn) learnVersions(ctx context.Context) error {
	for _, version := range []int16{3, 0} {
		req := kmsg.NewPtrApiVersionsRequest()
		req.Version = version
		req.ClientSoftwareName, req.ClientSoftwareVersion = cmp.Or(c.o.SoftwareName, "moldau"), cmp.Or(c.o.SoftwareVersion, "unknown")
		call, err := c.send(ctx, req)
		if err != nil {
			return err
		}
		answer, err := call.Wait(ctx)
		if err != nil {
			return err
		}
		resp, ok := answer.(*kmsg.ApiVersionsResponse)
		if !ok {
			return fmt.Errorf("answered with a %T", answer)
		}
		if resp.ErrorCode == kerr.UnsupportedVersion.Code && version > 0 {
			continue
		}
		if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
			return err
		}
		c.versions = make(map[int16]versionRange, len(resp.ApiKeys))
		for _, k := range resp.ApiKeys {
			c.versions[k.ApiKey] = versionRange{k.MinVersion, k.MaxVersion}
		}
		return nil
	}
	return kerr.UnsupportedVersion
}

// Versions returns the lowest and highest version of an API that the other side serves.
func (c *Conn) Versions(key int16) (lowest, highest int16, ok bool) {
	r, ok := c.versions[key]
	return r.min, r.max, ok
}

// Do sends a request and waits for its response. The request's version is the highest that the caller can work with: it
// is lowered to what the other side serves, and UNSUPPORTED_VERSION is returned when that is not possible.
func (c *Conn) Do(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	call, err := c.Send(ctx, req)
	if err != nil {
		return nil, err
	}
	return call.Wait(ctx)
}

// Send sends a request, with its version lowered as Do does, and returns without waiting for the response.
func (c *Conn) Send(ctx context.Context, req kmsg.Request) (*Call, error) {
	r, ok := c.versions[req.Key()]
	version := min(req.GetVersion(), r.max)
	if !ok || version < r.min {
		return nil, fmt.Errorf("%s version %d: %w", kmsg.NameForKey(req.Key()), req.GetVersion(), kerr.UnsupportedVersion)
	}
	req.SetVersion(version)
	return c.send(ctx, req)
}

// DoPrivate exchanges bodies under a private API key, which ApiVersions does not list.
func (c *Conn) DoPrivate(ctx context.Context, key int16, body []byte) ([]byte, error) {
	call, err := c.send(ctx, &wire.PrivateRequest{APIKey: key, Body: body})
	if err != nil {
		return nil, err
	}
	resp, err := call.Wait(ctx)
	if err != nil {
		return nil, err
	}
	private, ok := resp.(*wire.PrivateResponse)
	if !ok {
		return nil, fmt.Errorf("answered with a %T", resp)
	}
	return private.Body, nil
}

// Call is a request that has been sent.
type Call struct {
	req  kmsg.Request
	id   int32
	done chan struct{}
	resp kmsg.Response // valid after done
	err  error
}

// Wait returns the response, or the reason why there is none.
func (call *Call) Wait(ctx context.Context) (kmsg.Response, error) {
	select {
	case <-call.done:
		return call.resp, call.err
	case <-ctx.Done():
	}
	select {
	case <-call.done: // both have come together
		return call.resp, call.err
	default:
		return nil, context.Cause(ctx)
	}
}

// Done is closed when the response is there or will never come.
func (call *Call) Done() <-chan struct{} { return call.done }

func (c *Conn) send(ctx context.Context, req kmsg.Request) (*Call, error) {
	select {
	case c.writer <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-c.writer }()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	call := &Call{req: req, done: make(chan struct{})}
	c.mu.Lock()
	if err := c.mu.err; err != nil {
		c.mu.Unlock()
		return nil, err
	}
	call.id = c.mu.nextID
	c.mu.nextID++
	c.mu.waiting = append(c.mu.waiting, call) // before the write: the response may be faster than our next line
	c.mu.Unlock()

	// The context can end a wait for a peer that takes no bytes only by ending the connection: half a request is on it.
	over := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(over)
		_ = c.nc.SetWriteDeadline(time.Unix(1, 0))
	})
	_, err := c.nc.Write(wire.AppendRequest(nil, call.id, &c.o.ClientID, req))
	if !stop() {
		<-over // else the deadline could be set after it is taken back, and fail whatever is sent next
		if err == nil {
			err = c.nc.SetWriteDeadline(time.Time{})
		}
	}
	if err != nil {
		c.fail(fmt.Errorf("send %s: %w", kmsg.NameForKey(req.Key()), err))
		if <-call.done; call.err == nil {
			return call, nil // the response was faster than the failure
		}
		return nil, call.err
	}
	return call, nil
}

// Close ends the connection and waits until nothing of it runs. Calls that wait fail with ErrClosed.
func (c *Conn) Close() {
	c.fail(ErrClosed)
	<-c.reading
}

// fail ends the connection for a reason, the first one counting, and every call that waits.
func (c *Conn) fail(reason error) {
	c.mu.Lock()
	if c.mu.err == nil {
		c.mu.err = reason
	}
	reason = c.mu.err
	waiting := c.mu.waiting
	c.mu.waiting = nil
	c.mu.Unlock()
	_ = c.nc.Close()
	for _, call := range waiting {
		call.err = reason
		close(call.done)
	}
}

// Err is the reason why the connection has failed, nil while it works.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.err
}

// Done is closed when the connection has failed, or was closed.
func (c *Conn) Done() <-chan struct{} { return c.reading }

func (c *Conn) readLoop() {
	defer close(c.reading)
	in := bufio.NewReader(c.nc)
	for {
		if err := c.readOne(in); err != nil {
			c.fail(fmt.Errorf("read from peer: %w", err))
			return
		}
	}
}

func (c *Conn) readOne(in io.Reader) error {
	frame, err := wire.ReadFrame(in, c.o.MaxBytes, c.o.Buffer)
	if err != nil {
		return err
	}
	c.mu.Lock()
	var call *Call
	if len(c.mu.waiting) > 0 {
		call = c.mu.waiting[0]
		c.mu.waiting[0] = nil
		c.mu.waiting = c.mu.waiting[1:]
	}
	c.mu.Unlock()
	if call == nil {
		return errors.New("a response that nobody asked for")
	}
	resp := call.req.ResponseKind()
	if resp.Key() == apiVersionsKey && len(frame) >= 6 && int16(binary.BigEndian.Uint16(frame[4:])) == kerr.UnsupportedVersion.Code {
		resp.SetVersion(0) // whoever does not know the version asked in answers in version 0
	}
	id, err := wire.ReadResponse(frame, resp)
	if err == nil && id != call.id {
		err = fmt.Errorf("response %d where %d was due", id, call.id)
	}
	if err != nil {
		call.err = fmt.Errorf("read the response to %s: %w", kmsg.NameForKey(call.req.Key()), err)
	} else {
		call.resp = resp
	}
	close(call.done)
	return err
}
