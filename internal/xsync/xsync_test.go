package xsync

import (
	"sync"
	"testing"
)

func TestMutexExcludes(t *testing.T) {
	var mu Mutex
	var wg sync.WaitGroup
	n := 0
	for range 8 {
		wg.Go(func() {
			for range 500 {
				mu.Lock()
				n++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if n != 4000 {
		t.Fatalf("n = %d", n)
	}
	if !mu.TryLock() || mu.TryLock() {
		t.Fatal("TryLock")
	}
	mu.Unlock()
}

func TestRWMutexExcludes(t *testing.T) {
	var mu RWMutex
	var wg sync.WaitGroup
	n := 0
	for range 4 {
		wg.Go(func() {
			for range 300 {
				mu.Lock()
				n++
				mu.Unlock()
			}
		})
		wg.Go(func() {
			for range 300 {
				mu.RLock()
				_ = n
				mu.RUnlock()
			}
		})
	}
	wg.Wait()
	if n != 1200 {
		t.Fatalf("n = %d", n)
	}
	mu.RLock()
	if mu.TryLock() || !mu.TryRLock() {
		t.Fatal("a reader must keep writers out and let readers in")
	}
	mu.RUnlock()
	mu.RUnlock()
	if !mu.TryLock() || mu.TryRLock() {
		t.Fatal("a writer must keep readers out")
	}
	mu.Unlock()
}
