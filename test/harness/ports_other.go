//go:build !linux

package harness

import (
	"fmt"
	"net"
)

// HoldPort returns a port of loopback that was free a moment ago, 0 being any; false if somebody has it.
func HoldPort(t T, port int) (held int, ok bool) {
	t.Helper()
	ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return 0, false
	}
	_ = ln.Close()
	return ln.Addr().(*net.TCPAddr).Port, true
}
