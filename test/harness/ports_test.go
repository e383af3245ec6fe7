package harness

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"syscall"
	"testing"
)

// TestHeldPort: a port that is held is its server's, as often as that starts, and refuses connections in between; two are never the same.
func TestHeldPort(t *testing.T) {
	ports := FreePorts(t, 100)
	seen := map[int]bool{}
	for _, port := range ports {
		if seen[port] {
			t.Errorf("port %d is given twice", port)
		}
		seen[port] = true
	}
	if _, ok := HoldPort(t, ports[0]); ok && runtime.GOOS == "linux" {
		t.Error("a port is held twice")
	}
	address := fmt.Sprintf("127.0.0.1:%d", ports[0])
	for range 3 {
		if _, err := net.Dial("tcp", address); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("connect while nobody listens: %v", err)
		}
		ln, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := HoldPort(t, ports[0]); ok {
			t.Error("a port is held on which somebody listens")
		}
		_ = ln.Close()
	}
}
