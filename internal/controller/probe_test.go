package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/metadata"
)

// looks records what is probed and answers as it is told.
type looks struct {
	mu      sync.Mutex
	at      []string // the addresses of each probe, with the time since the start
	began   time.Time
	results map[string]ProbeResult // by address; Unknown if it is not here
	hang    bool                   // until ctx ends
}

func (l *looks) probe(ctx context.Context, addresses []string) ProbeResult {
	address := strings.Join(addresses, " ")
	l.mu.Lock()
	l.at = append(l.at, fmt.Sprintf("%dms %s", time.Since(l.began).Milliseconds(), address))
	result, hang := l.results[address], l.hang
	l.mu.Unlock()
	if hang {
		<-ctx.Done()
	}
	return result
}

func (l *looks) set(address string, r ProbeResult) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.results[address] = r
}

func (l *looks) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.at
	l.at = nil
	slices.Sort(at)
	return at
}

// withBrokers runs f with a controller, node 9, that leads and has the brokers 1, 2 and 3 in service.
func withBrokers(t *testing.T, f func(t *testing.T, c *Controller, log *testLog, l *looks, epochs map[int32]int64)) {
	synctest.Test(t, func(t *testing.T) {
		log := &testLog{epoch: 1}
		l := &looks{began: time.Now(), results: map[string]ProbeResult{}}
		c := New(Options{
			NodeID: 9, ClusterID: "test", Log: log, Features: testFeatures(), Probe: l.probe,
			Config: Config{
				NumPartitions: 1, DefaultReplicationFactor: 1, MinInsyncReplicas: 1, SessionTimeoutMs: sessionMs,
				BalanceIntervalMs: balanceMs,
			},
		})
		log.loader = metadata.NewLoader(c)
		c.Start()
		defer c.Stop()
		c.Lead(1)
		synctest.Wait()
		log.commit(t, 1)
		epochs := map[int32]int64{}
		for _, id := range []int32{1, 2, 3} {
			q := registration(id)
			q.Listeners[0].Port = uint16(9000 + id)
			registered := ask(t.Context(), c, q)
			log.commit(t, 1)
			epochs[id] = registered.response.(*kmsg.BrokerRegistrationResponse).BrokerEpoch
			beat(t, c, id, epochs[id])
			log.commit(t, 1)
		}
		f(t, c, log, l, epochs)
	})
}

const balanceMs = 300_000

func beat(t *testing.T, c *Controller, id int32, epoch int64) {
	t.Helper()
	if p := ask(t.Context(), c, &kmsg.BrokerHeartbeatRequest{BrokerID: id, BrokerEpoch: epoch, CurrentMetadataOffset: 1 << 40}); p.err != nil {
		t.Fatal(p.err)
	}
}

func active(log *testLog) []int32 {
	var ids []int32
	for id, b := range log.loader.Image().Cluster.Brokers() {
		if b.Active() {
			ids = append(ids, id)
		}
	}
	return ids
}

func expectProbes(t *testing.T, l *looks, want ...string) {
	t.Helper()
	if got := l.take(); !slices.Equal(got, want) {
		t.Errorf("probes %q, want %q", got, want)
	}
}

func expectActive(t *testing.T, log *testLog, want ...int32) {
	t.Helper()
	if got := active(log); !slices.Equal(got, want) {
		t.Errorf("in service: %v, want %v", got, want)
	}
}

func TestABrokerWhoseMachineRefusesIsFencedAtOnce(t *testing.T) {
	withBrokers(t, func(t *testing.T, c *Controller, log *testLog, l *looks, epochs map[int32]int64) {
		c.Disconnected(1, epochs[1]-1) // an incarnation before
		c.Disconnected(7, 1)
		synctest.Wait()
		expectProbes(t, l)

		l.set("localhost:9001", Refused)
		c.Disconnected(1, epochs[1])
		synctest.Wait()
		log.commit(t, 1)
		expectProbes(t, l, "0ms localhost:9001")
		expectActive(t, log, 2, 3)
	})
}

// A process that dies closes its connections one by one: its listener may be there for a moment longer.
func TestASilentBrokerIsProbedAgain(t *testing.T) {
	withBrokers(t, func(t *testing.T, c *Controller, log *testLog, l *looks, epochs map[int32]int64) {
		l.set("localhost:9002", Alive)
		c.Disconnected(2, epochs[2])
		c.Disconnected(2, epochs[2])
		time.Sleep(120 * time.Millisecond)
		l.set("localhost:9002", Refused)
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		log.commit(t, 1)
		expectProbes(t, l, "0ms localhost:9002", "150ms localhost:9002", "50ms localhost:9002")
		expectActive(t, log, 1, 3)
	})
}

func TestABrokerThatIsHeardOfIsNotProbedAnyMore(t *testing.T) {
	withBrokers(t, func(t *testing.T, c *Controller, log *testLog, l *looks, epochs map[int32]int64) {
		c.Disconnected(1, epochs[1])
		time.Sleep(10 * time.Millisecond)
		beat(t, c, 1, epochs[1])
		l.set("localhost:9001", Refused)
		time.Sleep(time.Second)
		synctest.Wait()
		expectProbes(t, l, "0ms localhost:9001")
		expectActive(t, log, 1, 2, 3)
	})
}

// What was refused before a heartbeat came says nothing about who sent it.
func TestAnAnswerThatComesTooLateFencesNobody(t *testing.T) {
	withBrokers(t, func(t *testing.T, c *Controller, log *testLog, l *looks, epochs map[int32]int64) {
		l.hang = true
		l.set("localhost:9001", Refused)
		c.Disconnected(1, epochs[1])
		time.Sleep(10 * time.Millisecond)
		beat(t, c, 1, epochs[1])
		time.Sleep(2 * time.Second)
		synctest.Wait()
		log.commit(t, 1)
		expectActive(t, log, 1, 2, 3)
	})
}

// Silence, and no way there, are waited out.
func TestSilenceIsWaitedFor(t *testing.T) {
	withBrokers(t, func(t *testing.T, c *Controller, log *testLog, l *looks, epochs map[int32]int64) {
		c.Disconnected(1, epochs[1])
		for range 4 {
			time.Sleep((sessionMs - 1) / 4 * time.Millisecond)
			beat(t, c, 2, epochs[2])
			beat(t, c, 3, epochs[3])
		}
		expectActive(t, log, 1, 2, 3)
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		log.commit(t, 1)
		expectActive(t, log, 2, 3)
		seen := len(l.take())
		time.Sleep(5 * time.Second)
		if more := len(l.take()); seen < 10 || more != 0 {
			t.Errorf("%d probes during the session, %d after its end", seen, more)
		}
	})
}

// A new controller looks for everybody who is in service, but for itself.
func TestANewControllerProbesEverybody(t *testing.T) {
	withBrokers(t, func(t *testing.T, c *Controller, log *testLog, l *looks, epochs map[int32]int64) {
		l.set("localhost:9003", Refused)
		beat(t, c, 2, epochs[2])
		ask(t.Context(), c, &kmsg.BrokerHeartbeatRequest{BrokerID: 2, BrokerEpoch: epochs[2], WantFence: true})
		log.commit(t, 1)
		c.Resign()
		c.o.NodeID = 1
		c.Lead(1)
		synctest.Wait()
		for log.commit(t, 1) > 0 {
		}
		expectProbes(t, l, "0ms localhost:9003")
		expectActive(t, log, 1)
	})
}

func TestProbesEndWithTheController(t *testing.T) {
	withBrokers(t, func(t *testing.T, c *Controller, _ *testLog, l *looks, epochs map[int32]int64) {
		l.hang = true
		c.Disconnected(1, epochs[1]) // Stop waits for it; the bubble ends only without goroutines
		synctest.Wait()
		expectProbes(t, l, "0ms localhost:9001")
	})
}

// An entry that the log refuses is tried again soon, not after another session.
func TestFencingIsTriedAgain(t *testing.T) {
	withBrokers(t, func(t *testing.T, c *Controller, log *testLog, l *looks, epochs map[int32]int64) {
		l.set("localhost:9001", Refused)
		log.mu.Lock()
		log.refuse = fmt.Errorf("busy")
		log.mu.Unlock()
		c.Disconnected(1, epochs[1])
		synctest.Wait()
		log.mu.Lock()
		log.refuse = nil
		log.mu.Unlock()
		time.Sleep(2 * fenceRetry)
		synctest.Wait()
		log.commit(t, 1)
		expectActive(t, log, 2, 3)
	})
}
