package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"moldau/test/harness"
)

// harm ends the node by the means of a test and brings it up again; it returns how often it struck.
type harm func(ctx context.Context, t *testing.T, rng *rand.Rand, l *ledger, round int) int

// endure lets clients work through one harm after the other, and compares after each. After some rounds new clients begin
// with a new topic, so that comparing stays cheap.
func endure(t *testing.T, n *harness.Node, times int, strike harm) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	ctx := t.Context()
	var total struct{ acked, seen, refused, doubted int }
	struck, began := 0, time.Now()
	for round := 0; struck < times; {
		l := newLoad(ctx, t, n, fmt.Sprint("load-", round))
		for range 8 {
			if struck >= times {
				break
			}
			l.start(ctx)
			before := l.ledger.count()
			for deadline := time.Now().Add(2 * time.Minute); l.ledger.count() == before; pause(ctx, 5*time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("round %d: nothing is acked", round)
				}
			}
			pause(ctx, time.Duration(100+rng.IntN(400))*time.Millisecond)
			struck += strike(ctx, t, rng, l.ledger, round)
			n.WaitReady(t, 2*time.Minute)
			pause(ctx, 100*time.Millisecond)
			l.stop(ctx, t)
			if l.check(ctx, t); t.Failed() {
				t.Fatalf("in round %d", round)
			}
			round++
		}
		n.Stop(t)
		n.Run(t)
		l.check(ctx, t)
		total.acked += len(l.ledger.acked)
		total.seen += len(l.ledger.seen)
		total.refused += l.ledger.refused
		total.doubted += l.ledger.doubted
		l.close(ctx, t)
	}
	t.Logf("%d times in %v: %d records acked, %d read meanwhile, %d refused, %d acked by a disk that was dying", struck, time.Since(began).Round(time.Second),
		total.acked, total.seen, total.refused, total.doubted)
	n.Stop(t)
}

// moment waits for up to d.
func moment(ctx context.Context, rng *rand.Rand, d time.Duration) {
	pause(ctx, time.Duration(rng.Int64N(int64(d))))
}

// TestKill: the process is killed under load, and in every third round again while it recovers.
func TestKill(t *testing.T) {
	n := harness.Prepare(t, settings...)
	n.Run(t)
	endure(t, n, rounds(4, 20, 200), func(ctx context.Context, t *testing.T, rng *rand.Rand, _ *ledger, round int) int {
		n.Kill(t)
		n.Spawn(t)
		if round%3 != 2 {
			return 1
		}
		moment(ctx, rng, 300*time.Millisecond)
		n.Kill(t)
		n.Spawn(t)
		return 2
	})
}

// TestPowerCut: the disk loses what was not synced, in four ways in turn.
func TestPowerCut(t *testing.T) {
	n := harness.Prepare(t, settings...)
	d := harness.NewDisk(t, n.Dir, 768)
	n.Run(t)
	cut := func(t *testing.T) {
		n.Halt(t)
		d.CutPower(t)
		n.Kill(t)
		d.PowerOn(t)
		n.Spawn(t)
	}
	endure(t, n, rounds(4, 10, 40), func(ctx context.Context, t *testing.T, rng *rand.Rand, l *ledger, round int) int {
		switch round % 4 {
		case 0: // the process goes on for a moment, on a disk that answers EIO
			l.doubt(true)
			d.CutPower(t)
			moment(ctx, rng, 100*time.Millisecond)
			n.Kill(t)
			d.PowerOn(t)
			n.Spawn(t)
			l.doubt(false)
			return 1
		case 1: // what a killed process left in the page cache is lost with the power
			n.Kill(t)
			cut(t)
			return 1
		case 2: // what a killed process left is recovered, and cut before or after it was synced
			n.Kill(t)
			n.Spawn(t)
			moment(ctx, rng, 400*time.Millisecond)
			cut(t)
			return 1
		default: // the power fails again while what it left is recovered
			cut(t)
			moment(ctx, rng, 300*time.Millisecond)
			cut(t)
			return 2
		}
	})
}

// settings make segments small, so that a cut often meets a roll.
var settings = []string{"log.segment.bytes=1048576", "log.index.interval.bytes=1024", "offsets.topic.num.partitions=3"}
