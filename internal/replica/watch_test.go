package replica

import (
	"fmt"
	"slices"
	"testing"

	"moldau/internal/kafka"
)

func signalled(w *Watch) bool {
	select {
	case <-w.C():
		return true
	default:
		return false
	}
}

func TestWatchSlots(t *testing.T) {
	w := NewWatch()
	for _, slot := range []int{700, 3, 64, 3, 0} {
		w.mark(slot)
	}
	if !signalled(w) || signalled(w) {
		t.Fatal("want one signal")
	}
	if got := w.Take(nil); !slices.Equal(got, []int{0, 3, 64, 700}) {
		t.Fatalf("dirty slots %v", got)
	}
	if got := w.Take(nil); got != nil {
		t.Fatalf("clean slots %v", got)
	}
	w.mark(3)
	if !signalled(w) || !slices.Equal(w.Take(nil), []int{3}) {
		t.Fatal("a slot that was taken is not marked again")
	}
}

// TestWatchAttachments: many watches on one partition, one watch on many, and every way to end it.
func TestWatchAttachments(t *testing.T) {
	w := newWorld(t, false)
	defer w.stop(false)
	a, b := w.lead("a"), w.lead("b")
	one, two := NewWatch(), NewWatch()
	a.Attach(one, 1, Consumer)
	b.Attach(one, 2, Consumer)
	a.Attach(two, 5, Consumer)
	expect := func(p *Partition, ones, twos []int) {
		t.Helper()
		if _, _, err := p.Append(records(1, 1), AppendOptions{Acks: kafka.AcksLeader, LeaderEpoch: kafka.NoEpoch}); err != nil {
			t.Fatal(err)
		}
		if got := one.Take(nil); !slices.Equal(got, ones) {
			t.Fatalf("first watch: %v, want %v", got, ones)
		}
		if got := two.Take(nil); !slices.Equal(got, twos) {
			t.Fatalf("second watch: %v, want %v", got, twos)
		}
	}
	expect(a, []int{1}, []int{5})
	expect(b, []int{2}, nil)
	a.Attach(one, 9, Consumer) // another slot in its place
	expect(a, []int{9}, []int{5})
	a.Detach(two)
	a.Detach(two)
	expect(a, []int{9}, nil)
	a.Attach(two, 6, Consumer)
	one.Close()
	one.Close()
	expect(a, nil, []int{6})
	expect(b, nil, nil)
	if len(a.watchers) != 1 || len(b.watchers) != 0 {
		t.Fatalf("%d and %d watchers are left", len(a.watchers), len(b.watchers))
	}
}

// TestWatchMissesNothing: a reader that attaches, reads to the end and waits for the signal sees every record, whatever
// the order of events.
func TestWatchMissesNothing(t *testing.T) {
	for _, flush := range []bool{true, false} {
		w := newWorld(t, flush)
		p := w.lead("t")
		const total = 300
		done := make(chan error, 4)
		for range 4 {
			go func() {
				watch := NewWatch()
				defer watch.Close()
				p.Attach(watch, 0, Consumer)
				from := int64(0)
				for from < total {
					r, err := p.Read(ReadOptions{From: from, MaxBytes: 1 << 20, Replica: kafka.ConsumerReplica, CurrentEpoch: kafka.NoEpoch, LastFetchedEpoch: kafka.NoEpoch})
					if err != nil {
						done <- err
						return
					}
					if r.Region == nil {
						<-watch.C()
						watch.Take(nil)
						continue
					}
					r.Region.Release()
					if r.HighWatermark <= from {
						done <- fmt.Errorf("read at %d above the watermark %d", from, r.HighWatermark)
						return
					}
					from = r.HighWatermark
				}
				done <- nil
			}()
		}
		for range total {
			if _, _, err := p.Append(records(1, 1), AppendOptions{Acks: kafka.AcksAll, LeaderEpoch: kafka.NoEpoch}); err != nil {
				t.Fatal(err)
			}
		}
		for range 4 {
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
		w.stop(false)
	}
}
