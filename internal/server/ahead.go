package server

import (
	"errors"
	"io"
	"net"
	"syscall"
)

const (
	// readAhead is how much is read at once: small requests cost one system call. The rest of a large one goes straight to its
	// frame.
	readAhead = 4 << 10
	// idleStep is how many bytes of one frame count as a sign of life: a frame that dribbles in is cut off.
	idleStep = 64 << 10
)

// ahead reads from a connection, ahead of the request that is asked for. Of a socket of the kernel it holds a buffer only
// while there is something in it: a connection that says nothing costs none.
type ahead struct {
	c     *Conn
	raw   syscall.RawConn // nil: not a socket of the kernel
	try   func(fd uintptr) (done bool)
	since int // bytes that came since the idle timer was put back

	buf      *frame // nil if there is none
	from, to int    // what is left of buf

	n   int // what try has come to
	err error
}

func newAhead(c *Conn) *ahead {
	a := &ahead{c: c}
	if socket, ok := c.nc.(*net.TCPConn); ok {
		if raw, err := socket.SyscallConn(); err == nil {
			a.raw, a.try = raw, a.tryRead
		}
	}
	return a
}

// Buffered is the number of bytes that have been read and not asked for.
func (a *ahead) Buffered() int { return a.to - a.from }

// Read implements io.Reader. It waits only when nothing is left of what was read before.
func (a *ahead) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	if a.Buffered() == 0 {
		if len(b) >= readAhead {
			n, err := a.c.nc.Read(b)
			a.received(n)
			return n, err
		}
		if err := a.fill(); err != nil {
			a.drop()
			return 0, err
		}
	}
	n := copy(b, a.buf.buf[a.from:a.to])
	a.from += n
	return n, nil
}

// fill reads at least one byte.
func (a *ahead) fill() error {
	a.from, a.to = 0, 0
	var n int
	var err error
	if a.raw == nil {
		a.take()
		n, err = a.c.nc.Read(a.buf.buf[:readAhead])
	} else if err = a.raw.Read(a.try); err == nil {
		if n, err = a.n, a.err; n == 0 && err == nil {
			err = io.EOF
		}
	}
	if n <= 0 {
		return err
	}
	a.to = n
	a.received(n)
	return nil
}

// tryRead reads what is there. Where nothing is it gives the buffer back: it is called again when something has come.
func (a *ahead) tryRead(fd uintptr) bool {
	a.take()
	for {
		a.n, a.err = syscall.Read(int(fd), a.buf.buf[:readAhead])
		if !errors.Is(a.err, syscall.EINTR) {
			break
		}
	}
	if errors.Is(a.err, syscall.EAGAIN) {
		a.drop()
		return false
	}
	return true
}

// received keeps the idle timer from firing while a large frame comes in.
func (a *ahead) received(n int) {
	if a.since += n; a.since >= idleStep {
		a.since = 0
		a.c.active()
	}
}

func (a *ahead) take() {
	if a.buf == nil {
		a.buf = a.c.srv.frames.get(readAhead)
	}
}

func (a *ahead) drop() {
	if a.buf != nil {
		a.c.srv.frames.put(a.buf)
		a.buf = nil
	}
}
