package harness

import "slices"

// FreePorts returns ports of loopback that nobody else comes by while the test runs.
func FreePorts(t T, n int) []int {
	t.Helper()
	var ports []int
	for len(ports) < n {
		port, ok := HoldPort(t, 0)
		if !ok {
			t.Fatal("no port of loopback is free")
		}
		if !slices.Contains(ports, port) {
			ports = append(ports, port)
		}
	}
	return ports
}
