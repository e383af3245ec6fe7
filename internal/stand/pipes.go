package stand

import (
	"net"
	"sync"
)

// Pipes is a listener of connections in memory. Give it one end of a net.Pipe by Conns.
type Pipes struct {
	Conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

var _ net.Listener = (*Pipes)(nil)

// NewPipes returns a listener.
func NewPipes() *Pipes { return &Pipes{Conns: make(chan net.Conn), closed: make(chan struct{})} }

// Accept waits for a connection; net.ErrClosed once the listener is closed.
func (p *Pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.Conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept.
func (p *Pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

// Closed is closed with the listener.
func (p *Pipes) Closed() <-chan struct{} { return p.closed }

// Addr is an address that says what it is.
func (p *Pipes) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe:1" }
