package goclients

import (
	"fmt"
	"maps"
	"os"
	"sync"
	"testing"
	"time"
)

// address is the node's, or ends the test.
func address(t *testing.T) string {
	t.Helper()
	addr := os.Getenv("MOLDAU_ADDRESS")
	if addr == "" {
		t.Skip("MOLDAU_ADDRESS is not set: package compat sets it")
	}
	return addr
}

// where a record is.
type where struct {
	partition int
	offset    int64
}

// shelf is what the members of a group have read.
type shelf struct {
	mu  sync.Mutex
	got map[where]string // codec and value
}

func (s *shelf) put(at where, codec, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.got == nil {
		s.got = make(map[where]string)
	}
	s.got[at] = codec + " " + value
}

// values counts what was read, however often.
func (s *shelf) values() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	values := make(map[string]int)
	for _, v := range s.got {
		values[v]++
	}
	return values
}

// awaitRead waits until exactly the wanted values were read, each at one place.
func (s *shelf) awaitRead(t *testing.T, want map[string]int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d values read", len(want)), 30*time.Second, func() bool { return len(s.values()) >= len(want) })
	if got := s.values(); !maps.Equal(got, want) {
		t.Fatalf("read %d values, which are not the %d that were sent", len(got), len(want))
	}
}

// hundred is a batch of values that names its codec.
func hundred(codec string) []string {
	var values []string
	for i := range 100 {
		values = append(values, fmt.Sprintf("%s %d", codec, i))
	}
	return values
}

// eventually polls, because these clients tell of a rebalance in ways of their own.
func eventually(t *testing.T, what string, within time.Duration, good func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(within)
	for !good() {
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatalf("not in %v: %s", within, what)
		}
	}
}
