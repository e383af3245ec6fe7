package server

import (
	"io"
	"net"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sys/unix"
)

// pieces is an answer of 4 + n bytes, each in a write of its own.
type pieces struct{ n byte }

func (pieces) InPieces() bool { return true }

func (p pieces) WriteTo(w io.Writer) (n int64, err error) {
	for _, b := range append([]byte{0, 0, 0, p.n}, make([]byte, p.n)...) {
		if _, err := w.Write([]byte{b}); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// TestCork: an answer that is written in pieces leaves as one packet, and so does the next.
func TestCork(t *testing.T) {
	w := newWorld(t, Limits{}, Listener{}, Route{Key: 18, Min: 0, Max: 5, Listeners: Broker, Handle: func(*Request) Reply {
		return Reply{Response: pieces{100}}
	}})
	defer w.stop()
	c := w.onSocket()()
	received := func() uint32 {
		raw, err := c.nc.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		var info *unix.TCPInfo
		if controlErr := raw.Control(func(fd uintptr) {
			info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		}); controlErr != nil || err != nil {
			t.Fatal(controlErr, err)
		}
		return info.Data_segs_in
	}
	for i := range uint32(3) {
		c.send(int32(i), kmsg.NewPtrApiVersionsRequest())
		if got := len(c.receiveFrame()); got != 100 {
			t.Fatalf("an answer of %d bytes", got)
		}
		if n := received(); n != i+1 {
			t.Fatalf("%d answers came in %d packets", i+1, n)
		}
	}
}
