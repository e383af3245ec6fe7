package storage

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// TestRecoveryThreadsChange: more threads take up what is in line, and fewer let what runs come to its end.
func TestRecoveryThreadsChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorkers(1)
		var running, most atomic.Int64
		done := make(chan struct{})
		for i := range int32(20) {
			w.run(tp("t", i), func() {
				most.Store(max(most.Load(), running.Add(1)))
				<-done
				running.Add(-1)
			})
		}
		for _, limit := range []int{3, 1, 5} {
			w.setLimit(limit)
			synctest.Wait()
			if got := running.Load(); got != int64(max(3, limit)) {
				t.Fatalf("%d jobs run at once after the limit became %d", got, limit)
			}
		}
		w.setLimit(2)
		for range 5 {
			done <- struct{}{}
		}
		most.Store(0)
		synctest.Wait()
		if got := running.Load(); got != 2 {
			t.Fatalf("%d jobs run at once after the limit became 2", got)
		}
		close(done)
		synctest.Wait()
		if running.Load() != 0 || most.Load() > 2 {
			t.Fatalf("%d jobs are left, and up to %d ran at once", running.Load(), most.Load())
		}
		w.stop()
	})
}
