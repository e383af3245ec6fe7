package storage

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"moldau/internal/kafka"
)

// TestRecoveryThreadsChange: more threads take up what is in line, and fewer let what runs come to its end.
func TestRecoveryThreadsChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorkers(1, 1)
		var running, most atomic.Int64
		done := make(chan struct{})
		for i := range int32(20) {
			w.run(nil, tp("t", i), func() {
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

// TestHurriedJobsComeFirst: a partition that somebody asks for does not wait for the thousands before it in line, its jobs keep
// their order, and hurrying costs nobody a job or runs two jobs of a partition at once.
func TestHurriedJobsComeFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorkers(1, 1)
		goOn := make(chan struct{})
		var order []string
		busy := map[int32]bool{}
		add := func(partition int32, name string) {
			w.run(nil, tp("t", partition), func() {
				if busy[partition] {
					t.Errorf("two jobs of partition %d run at once", partition)
				}
				busy[partition] = true
				<-goOn
				busy[partition] = false
				order = append(order, fmt.Sprint(partition, name))
			})
		}
		for i := range int32(5) {
			add(i, "a")
			add(i, "b")
		}
		synctest.Wait()
		for range 2 {
			w.hurry(tp("t", 3))
			w.hurry(tp("t", 0)) // which runs
		}
		w.hurry(kafka.TopicPartition{Topic: "nobody's"})
		goOn <- struct{}{}
		synctest.Wait()
		w.hurry(tp("t", 4))
		w.hurry(tp("t", 3)) // which runs now
		for range 3 {
			goOn <- struct{}{}
		}
		synctest.Wait()
		w.hurry(tp("t", 3)) // and is at its last job
		close(goOn)
		w.wait()
		want := []string{"0a", "3a", "0b", "4a", "3b", "4b", "1a", "2a", "1b", "2b"}
		if !slices.Equal(order, want) {
			t.Errorf("the order is %v, want %v", order, want)
		}
	})
}

// TestFirstComesFirstWhateverIsInLine: a job that comes first does so too when its partition has others in line, or under way.
func TestFirstComesFirstWhateverIsInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorkers(1, 1)
		goOn := make(chan struct{})
		var order []string
		job := func(partition int32, name string) func() {
			return func() {
				<-goOn
				order = append(order, fmt.Sprint(partition, name))
			}
		}
		for _, name := range []string{"a", "b"} {
			for i := range int32(4) {
				w.run(nil, tp("t", i), job(i, name))
			}
		}
		synctest.Wait()
		w.runFirst(nil, tp("t", 0), job(0, "first")) // which runs
		w.runFirst(nil, tp("t", 2), job(2, "first")) // which is in line
		close(goOn)
		w.wait()
		want := []string{"0a", "2a", "0b", "2b", "0first", "2first", "1a", "3a", "1b", "3b"}
		if !slices.Equal(order, want) {
			t.Errorf("the order is %v, want %v", order, want)
		}
	})
}
