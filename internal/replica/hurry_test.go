package replica

import (
	"testing"
	"testing/synctest"
	"time"

	"moldau/internal/kafka"
)

// TestSyncsAreAsEagerAsThoseWhoWait: the disk is asked at once for whoever waits, whatever he waits with, and some
// milliseconds later for nobody.
func TestSyncsAreAsEagerAsThoseWhoWait(t *testing.T) {
	const soon = 11 * time.Millisecond
	for _, test := range []struct {
		name   string
		before func(p *Partition) // the append
		acks   kafka.Acks
		after  func(t *testing.T, p *Partition, w *Waiter)
		atOnce bool
	}{
		{name: "nobody", acks: kafka.AcksLeader},
		{name: "nobody, without an answer", acks: kafka.AcksNone},
		{name: "acks=all", acks: kafka.AcksAll, atOnce: true, after: func(_ *testing.T, _ *Partition, w *Waiter) { Hurry(w) }},
		{name: "acks=all before its request is read to the end", acks: kafka.AcksAll},
		{name: "latest offset", acks: kafka.AcksLeader, atOnce: true, after: func(t *testing.T, p *Partition, _ *Waiter) {
			w := p.AwaitEnd()
			if w == nil {
				t.Fatal("there is nothing to wait for")
			}
			Hurry(w)
		}},
		{name: "a consumer", before: func(p *Partition) { p.Attach(NewWatch(), 0, Consumer) }, acks: kafka.AcksLeader, atOnce: true},
		{name: "a consumer that comes later", acks: kafka.AcksLeader, after: func(_ *testing.T, p *Partition, _ *Waiter) { p.Attach(NewWatch(), 0, Consumer) }, atOnce: true},
		{name: "a follower", before: func(p *Partition) { p.Attach(NewWatch(), 0, Follower) }, acks: kafka.AcksNone, atOnce: true},
		{name: "a consumer that has gone", before: func(p *Partition) {
			w := NewWatch()
			p.Attach(w, 0, Consumer)
			w.Close()
		}, acks: kafka.AcksLeader},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, true)
				defer w.stop(true)
				p := w.lead("t")
				time.Sleep(time.Second)
				if test.before != nil {
					test.before(p)
				}
				_, waiter, err := p.Append(records(1, 1), AppendOptions{Acks: test.acks, LeaderEpoch: kafka.NoEpoch})
				w.must(err)
				if test.after != nil {
					test.after(t, p, waiter)
				}
				synctest.Wait()
				if got := p.HighWatermark() == 1; got != test.atOnce {
					t.Fatalf("committed at once: %v", got)
				}
				time.Sleep(soon)
				synctest.Wait()
				if p.HighWatermark() != 1 {
					t.Fatalf("not committed after %v", soon)
				}
			})
		})
	}
}
