package harness

import (
	"errors"
	"syscall"
)

// HoldPort keeps a port of loopback free for the test and what it starts, 0 being any, and returns it; false if somebody has it.
// A socket that is bound and does not listen keeps the kernel from giving the port to whoever asks for any, or connects from
// one. It is in nobody's way who asks for this very one with SO_REUSEADDR, as all servers here do.
func HoldPort(t T, port int) (held int, ok bool) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	switch err := syscall.Bind(fd, &syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}); {
	case errors.Is(err, syscall.EADDRINUSE):
		return 0, false
	case err != nil:
		t.Fatal(err)
	}
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil { // not before, or two could hold one port
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return name.(*syscall.SockaddrInet4).Port, true
}
