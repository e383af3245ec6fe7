package sim

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
)

// outcome is what one run of a seed came to.
type outcome struct {
	sum     uint64
	acked   int
	deaths  int
	broken  []string
	tail    string
	trace   []string // every event, if it was asked for
	history *History
}

// run lets one seed take its course: one node, producers and consumers, kills and power losses, and at the end a quiet
// time in which everything is read back.
func run(t *testing.T, seed uint64, whole bool) outcome {
	t.Helper()
	var out outcome
	// A collection stops the goroutine that runs, and lets others go before it.
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
		cryptotest.SetGlobalRandom(t, seed)
		synctest.Test(t, func(t *testing.T) { out = oneLife(t, seed, whole) })
	})
	return out
}

const (
	topic      = "orders"
	partitions = 3
	properties = `process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://n1:9092,CONTROLLER://n1:9093
controller.listener.names=CONTROLLER
controller.quorum.voters=1@n1:9093
http.listeners=
log.dirs=/disk
log.index.interval.bytes=256
log.retention.ms=-1
`
)

func oneLife(t *testing.T, seed uint64, whole bool) outcome {
	w := NewWorld(seed)
	if whole {
		w.KeepTrace()
	}
	network := NewNetwork(w)
	history := NewHistory()
	faults := rand.New(rand.NewPCG(seed, 2))
	logger := slog.New(slog.DiscardHandler)
	if os.Getenv("MOLDAU_SIM_LOG") != "" {
		logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	host, err := NewHost(w, network, "n1", properties, logger)
	if err != nil {
		t.Fatal(err)
	}
	out := outcome{history: history}
	fail := func(format string, args ...any) {
		out.broken = append(out.broken, fmt.Sprintf(format, args...))
	}
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	clients := &crew{}
	ready := make(chan struct{})
	clients.start(func(ctx context.Context) {
		defer close(ready)
		admin := newClient(w, network, "admin", "n1:9092", history)
		defer admin.close()
		_ = admin.create(ctx, topic, partitions)
	})
	for i := range 2 {
		clients.start(func(ctx context.Context) {
			<-ready
			newClient(w, network, fmt.Sprintf("producer%d", i), "n1:9092", history).produce(ctx, topic, partitions)
		})
	}
	clients.start(func(ctx context.Context) {
		<-ready
		newClient(w, network, "consumer", "n1:9092", history).consume(ctx, topic, 0)
	})
	if err := host.Started(100000); err != nil {
		fail("first start: %v", err)
	}
	for range 3 + faults.IntN(3) {
		if len(out.broken) > 0 {
			break
		}
		for range 500 + faults.IntN(3000) {
			w.Step()
		}
		switch faults.IntN(5) {
		case 0:
			if err := host.Stop(); err != nil {
				fail("clean stop: %v", err)
			}
		case 1, 2:
			out.deaths++
			err = host.Die(false, faults)
		default:
			out.deaths++
			err = host.Die(true, faults)
		}
		if err != nil {
			fail("%v", err)
		}
		if err := host.Start(); err != nil {
			fail("%v", err)
			break
		}
		if faults.IntN(3) == 0 { // dies again while it recovers
			for range faults.IntN(200) {
				w.Step()
			}
			out.deaths++
			if err := host.Die(faults.IntN(2) == 0, faults); err != nil {
				fail("%v", err)
			}
			if err := host.Start(); err != nil {
				fail("%v", err)
				break
			}
		}
		if err := host.Started(100000); err != nil {
			fail("start after a death: %v", err)
		}
	}
	for range 1000 {
		w.Step()
	}
	if !clients.dismiss(w, 200000) {
		fail("the clients do not end")
	}
	readBack(w, network, history, fail)
	if err := host.Stop(); err != nil {
		fail("last stop: %v", err)
	}
	out.broken = append(out.broken, history.Missing()...)
	out.sum, out.acked, out.tail = w.Sum(), history.Acked(), w.Tail(60)
	if whole {
		out.trace = w.trace
	}
	return out
}

// readBack reads every partition from its start to the high watermark.
func readBack(w *World, network *Network, history *History, fail func(string, ...any)) {
	for p := range int32(partitions) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			c := newClient(w, network, fmt.Sprintf("checker%d", p), "n1:9092", history)
			defer c.close()
			next := int64(0)
			for tries := 0; tries < 200; {
				got, high, err := c.fetch(context.Background(), topic, p, next)
				next += int64(len(got))
				switch {
				case err != nil:
					tries++
					c.rest(context.Background())
				case next >= high:
					return
				}
			}
			fail("%s-%d cannot be read to its end: %d", topic, p, next)
		}()
		if !w.Run(200000, closed(done)) {
			fail("reading %s-%d back does not end", topic, p)
			return
		}
	}
}

func closed(c chan struct{}) func() bool {
	return func() bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	}
}

func report(t *testing.T, seed uint64, o outcome) {
	t.Helper()
	if len(o.broken) > 0 {
		t.Errorf("seed %d: %s\nreplay: go test ./internal/sim -run TestSeeds -seed %d\nlast events:\n%s", seed, strings.Join(o.broken, "\n  "), seed, o.tail)
	}
}

// TestSeeds: whatever the faults, what was acked is there, once and where it was acked.
func TestSeeds(t *testing.T) {
	if *oneSeed != 0 {
		report(t, *oneSeed, run(t, *oneSeed, false))
		return
	}
	acked, deaths := 0, 0
	for seed := range uint64(howMany()) {
		o := run(t, seed+1, false)
		report(t, seed+1, o)
		acked += o.acked
		deaths += o.deaths
		if o.acked == 0 || o.deaths == 0 {
			t.Logf("seed %d is void: %d acked, %d deaths", seed+1, o.acked, o.deaths)
		}
		if t.Failed() {
			break
		}
	}
	t.Logf("%d records acked, %d deaths", acked, deaths)
	if acked == 0 || deaths == 0 {
		t.Error("no run had both acked records and deaths: nothing was tested")
	}
}

func howMany() int {
	switch {
	case *seeds > 0:
		return *seeds
	case testing.Short():
		return 3
	case os.Getenv("MOLDAU_EFFORT") == "ci":
		return 60
	case os.Getenv("MOLDAU_EFFORT") == "night":
		return 2000
	}
	return 20
}

// TestSameSeedSameTrace: a failure can be replayed, because nothing but the seed decides what happens.
func TestSameSeedSameTrace(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	if *oneSeed != 0 {
		for range 10 {
			sameTwice(t, *oneSeed)
		}
		return
	}
	for seed := range uint64(howMany()) {
		sameTwice(t, seed+1)
	}
}

func sameTwice(t *testing.T, seed uint64) {
	t.Helper()
	first := run(t, seed, true)
	again := run(t, seed, true)
	if first.sum == again.sum {
		return
	}
	at := 0
	for at < len(first.trace) && at < len(again.trace) && first.trace[at] == again.trace[at] {
		at++
	}
	t.Errorf("seed %d gave two traces, equal for %d events.\nfirst:\n%s\nagain:\n%s", seed, at, around(first.trace, at), around(again.trace, at))
}

func around(trace []string, at int) string {
	return strings.Join(trace[max(0, at-15):min(len(trace), at+5)], "\n")
}
