package uplink

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/peer"
	"moldau/internal/wire"
	"moldau/internal/xsync"
)

// Active is where the active controller is.
type Active struct {
	ID      kafka.NodeID
	Address string // host:port of its controller listener
}

// LinkOptions say how to reach the active controller.
type LinkOptions struct {
	NodeID kafka.NodeID
	Where  func() (Active, bool) // false: nobody is known to be active
	Local  Call                  // the controller of this process; nil: there is none
	Dial   func(ctx context.Context, address string) (net.Conn, error)
}

// Link is a way to the active controller, wherever it is: one connection at most, made when it is needed.
type Link struct {
	o LinkOptions

	mu     xsync.Mutex // guards what follows; not held while dialling
	conn   *peer.Conn
	to     Active
	closed bool
	term   context.Context // ended by Moved
	end    context.CancelFunc

	dialling chan struct{} // holding its one slot is the right to replace conn
}

// NewLink returns a link that connects at its first Call.
func NewLink(o LinkOptions) *Link {
	l := &Link{o: o, dialling: make(chan struct{}, 1)}
	l.term, l.end = context.WithCancel(context.Background())
	return l
}

// Moved says that another controller is active than before: whoever waits for the old one's answer waits in vain if that
// one is paused or cut off, and is told NOT_CONTROLLER now.
func (l *Link) Moved() {
	active, _ := l.o.Where()
	l.mu.Lock()
	l.end()
	l.term, l.end = context.WithCancel(context.Background())
	var old *peer.Conn
	if l.to != active {
		old, l.conn = l.conn, nil
	}
	l.mu.Unlock()
	if old != nil {
		old.Close()
	}
}

// Call sends a request once. When nobody is active, or the connection breaks, the error is NOT_CONTROLLER with the reason:
// whether the request was carried out is then unknown. What a broker says for itself goes as it is, a client's request in an
// Envelope with its principal (KIP-590).
func (l *Link) Call(ctx context.Context, req kmsg.Request, client Client) (kmsg.Response, error) {
	l.mu.Lock()
	term := l.term // before asking where: what moves after this ends it
	l.mu.Unlock()
	active, ok := l.o.Where()
	switch {
	case !ok:
		return nil, fmt.Errorf("no controller is known to be active: %w", kerr.NotController)
	case active.ID == l.o.NodeID && l.o.Local != nil:
		return l.o.Local(ctx, req, client)
	}
	bound, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(term, cancel)()
	conn, err := l.connect(bound, active)
	if err != nil {
		return nil, unreachable(ctx, active, err)
	}
	resp, err := l.send(bound, conn, req, client)
	if err != nil && (conn.Err() != nil || bound.Err() != nil) {
		return nil, unreachable(ctx, active, err)
	}
	return resp, err
}

// Close ends the connection. Calls under way and to come fail.
func (l *Link) Close() {
	l.mu.Lock()
	l.end()
	conn := l.conn
	l.conn, l.closed = nil, true
	l.mu.Unlock()
	if conn != nil {
		conn.Close()
	}
}

func unreachable(ctx context.Context, active Active, err error) error {
	if ctx.Err() != nil {
		return err
	}
	return fmt.Errorf("controller %d at %s: %w (%w)", active.ID, active.Address, err, kerr.NotController)
}

var errLinkClosed = errors.New("the link to the controller is closed")

// current returns the connection if it works and leads where it should.
func (l *Link) current(active Active) (*peer.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, errLinkClosed
	}
	if l.conn != nil && l.to == active && l.conn.Err() == nil {
		return l.conn, nil
	}
	return nil, nil
}

func (l *Link) connect(ctx context.Context, active Active) (*peer.Conn, error) {
	if conn, err := l.current(active); conn != nil || err != nil {
		return conn, err
	}
	select {
	case l.dialling <- struct{}{}:
		defer func() { <-l.dialling }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if conn, err := l.current(active); conn != nil || err != nil {
		return conn, err
	}
	conn, err := peer.Dial(ctx, active.Address, peer.Options{Dial: l.o.Dial, ClientID: fmt.Sprintf("broker-%d", l.o.NodeID)})
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	old, closed := l.conn, l.closed
	if !closed {
		l.conn, l.to = conn, active
	}
	l.mu.Unlock()
	if closed {
		old, err = conn, errLinkClosed
	}
	if old != nil {
		old.Close()
	}
	return conn, err
}

func (l *Link) send(ctx context.Context, conn *peer.Conn, req kmsg.Request, client Client) (kmsg.Response, error) {
	switch req.(type) {
	case *kmsg.BrokerRegistrationRequest, *kmsg.BrokerHeartbeatRequest, *kmsg.AlterPartitionRequest,
		*kmsg.AllocateProducerIDsRequest, *kmsg.AssignReplicasToDirsRequest:
		return conn.Do(ctx, req)
	}
	if _, highest, ok := conn.Versions(req.Key()); !ok || req.GetVersion() > highest {
		return nil, fmt.Errorf("%s version %d is more than the controller serves: %w", kmsg.NameForKey(req.Key()), req.GetVersion(), kerr.UnsupportedVersion)
	}
	resp, err := conn.Do(ctx, envelope(req, client))
	if err != nil {
		return nil, err
	}
	return opened(req, resp.(*kmsg.EnvelopeResponse))
}

// envelope wraps a client's request.
func envelope(req kmsg.Request, client Client) *kmsg.EnvelopeRequest {
	kind, name, _ := strings.Cut(client.Principal, ":")
	principal := kmsg.DefaultPrincipalData{Type: kind, Name: name}
	e := kmsg.NewPtrEnvelopeRequest()
	e.RequestData = wire.AppendRequest(nil, 0, &client.ID, req)[4:] // the length is the envelope's
	e.RequestPrincipal = principal.AppendTo(nil)
	e.ClientHostAddress = client.Address
	return e
}

// opened takes the answer to req out of its envelope.
func opened(req kmsg.Request, e *kmsg.EnvelopeResponse) (kmsg.Response, error) {
	if err := kerr.ErrorForCode(e.ErrorCode); err != nil {
		return nil, fmt.Errorf("the controller did not open the envelope: %w", err)
	}
	resp := req.ResponseKind()
	if _, err := wire.ReadResponse(e.ResponseData, resp); err != nil {
		return nil, err
	}
	return resp, nil
}
