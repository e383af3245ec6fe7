package uplink

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

// controller is the other side: it answers what its fields say and counts what it was asked.
type controller struct {
	mu         sync.Mutex
	err        error       // answered to everything
	refusal    *kerr.Error // answered to registrations
	epoch      int64
	registered int
	beats      int
	fenced     int // so many heartbeats are answered "fenced" first
	stale      bool
	dismissed  bool // the next heartbeat is answered as if the broker had wanted to stop
	last       kafka.UUID
	previous   int64 // broker epoch that the last registration names as the one before
	blocks     int64
	created    map[string]int
	hold       chan struct{} // creations wait for it
	dead       bool          // nothing is answered any more
}

func (c *controller) call(ctx context.Context, req kmsg.Request, _ Client) (kmsg.Response, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead {
		c.mu.Unlock()
		<-ctx.Done()
		c.mu.Lock()
		return nil, ctx.Err()
	}
	if c.err != nil {
		return nil, c.err
	}
	switch req := req.(type) {
	case *kmsg.BrokerRegistrationRequest:
		c.registered++
		c.epoch++
		c.last, c.previous = req.IncarnationID, req.PreviousBrokerEpoch
		resp := kmsg.NewBrokerRegistrationResponse()
		resp.BrokerEpoch = c.epoch
		if c.refusal != nil {
			resp.ErrorCode, resp.BrokerEpoch = c.refusal.Code, -1
		}
		return &resp, nil
	case *kmsg.BrokerHeartbeatRequest:
		c.beats++
		resp := kmsg.NewBrokerHeartbeatResponse()
		if c.stale {
			c.stale = false
			resp.ErrorCode = kerr.StaleBrokerEpoch.Code
			return &resp, nil
		}
		resp.IsFenced = c.fenced > 0
		c.fenced--
		resp.ShouldShutdown = req.WantShutdown || c.dismissed
		c.dismissed = false
		return &resp, nil
	case *kmsg.AllocateProducerIDsRequest:
		resp := kmsg.NewAllocateProducerIDsResponse()
		resp.ProducerIDStart, resp.ProducerIDLen = c.blocks*1000, 1000
		c.blocks++
		return &resp, nil
	case *kmsg.CreateTopicsRequest:
		if c.hold != nil {
			hold := c.hold
			c.mu.Unlock()
			<-hold
			c.mu.Lock()
		}
		topic := kmsg.NewCreateTopicsResponseTopic()
		topic.Topic = req.Topics[0].Topic
		if topic.Topic == "bad" {
			topic.ErrorCode = kerr.InvalidTopicException.Code
		} else if c.created[topic.Topic]++; c.created[topic.Topic] > 1 {
			topic.ErrorCode = kerr.TopicAlreadyExists.Code
		}
		resp := kmsg.NewCreateTopicsResponse()
		resp.Topics = append(resp.Topics, topic)
		return &resp, nil
	}
	return nil, errors.New("no such request")
}

func newUplink(c *controller) *Uplink {
	c.created = make(map[string]int)
	return New(Options{
		NodeID: 1, ClusterID: "c", PreviousEpoch: -1,
		Call:   c.call,
		Caught: func() int64 { return 0 }, Offline: func() []kafka.DirID { return nil },
		Heartbeat: 2 * time.Second, Timeout: time.Second, Logger: slog.New(slog.DiscardHandler),
	})
}

func TestRegistersThenLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &controller{fenced: 3}
		u := newUplink(c)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { u.Run(ctx); close(done) }()
		if err := u.WaitUnfenced(ctx); err != nil {
			t.Fatal(err)
		}
		if u.Epoch() != 1 {
			t.Fatalf("epoch %d", u.Epoch())
		}
		time.Sleep(20*time.Second + time.Millisecond)
		c.mu.Lock()
		if c.registered != 1 || c.beats < 13 || c.beats > 15 {
			t.Errorf("%d registrations, %d heartbeats in 20 s of 2 s intervals", c.registered, c.beats)
		}
		c.stale = true
		c.mu.Unlock()
		time.Sleep(3 * time.Second)
		if u.Epoch() != 2 {
			t.Errorf("a stale epoch must lead to a new registration: epoch %d", u.Epoch())
		}
		if err := u.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		<-done
		cancel()
	})
}

// TestDismissedBrokerComesBack: a broker that is told to stop and does not want to is back in the cluster, as another
// incarnation, because the controller keeps what it thinks of this one.
func TestDismissedBrokerComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &controller{}
		u := newUplink(c)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { u.Run(ctx); close(done) }()
		<-u.Registered()
		time.Sleep(time.Second)
		c.mu.Lock()
		first := c.last
		c.dismissed = true
		c.mu.Unlock()
		time.Sleep(20 * time.Second)
		c.mu.Lock()
		if c.registered != 2 || c.last == first || c.beats < 10 {
			t.Errorf("%d registrations, %d heartbeats, incarnations %v and %v", c.registered, c.beats, first, c.last)
		}
		if c.previous != 1 {
			t.Errorf("the process has lost nothing since epoch 1, and names %d as the epoch before", c.previous)
		}
		c.mu.Unlock()
		if u.Epoch() != 2 {
			t.Errorf("epoch %d", u.Epoch())
		}
		cancel()
		<-done
	})
}

// TestMachineOfTheControllerIsGone: a controller whose machine lost its power does not even break the connection. The next one
// hears of this broker long before it would take it for dead as well, after broker.session.timeout.ms.
func TestMachineOfTheControllerIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := &controller{}, &controller{}
		u := newUplink(first)
		u.o.Timeout = 30 * time.Second // request.timeout.ms
		var moved atomic.Bool
		u.o.Call = func(ctx context.Context, req kmsg.Request, client Client) (kmsg.Response, error) {
			if moved.Load() {
				return second.call(ctx, req, client)
			}
			return first.call(ctx, req, client)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { u.Run(ctx); close(done) }()
		time.Sleep(time.Second)
		first.mu.Lock()
		first.dead = true
		first.mu.Unlock()
		time.Sleep(2 * time.Second) // in which a heartbeat is sent
		moved.Store(true)
		time.Sleep(5 * time.Second)
		second.mu.Lock()
		if second.beats == 0 {
			t.Error("the next controller has not heard of the broker for 5 s")
		}
		second.mu.Unlock()
		cancel()
		<-done
	})
}

func TestRegistrationIsTriedUntilTheControllerIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &controller{err: kerr.NotController}
		u := newUplink(c)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { u.Run(ctx); close(done) }()
		time.Sleep(10 * time.Second)
		if u.Epoch() != -1 {
			t.Fatal("registered with nobody")
		}
		c.mu.Lock()
		c.err = nil
		c.mu.Unlock()
		<-u.Registered()
		cancel()
		<-done
	})
}

// TestUnservedFeaturesAreNamed: the answer has only a code, and the broker knows what it means.
func TestUnservedFeaturesAreNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := metadata.NewDelta(metadata.EmptyImage())
		for name, level := range map[string]int16{"metadata.version": 30, "transaction.version": 2} {
			if err := cluster.Replay(&metadata.FeatureLevelRecord{Name: name, FeatureLevel: level}); err != nil {
				t.Fatal(err)
			}
		}
		u := newUplink(&controller{refusal: kerr.UnsupportedVersion})
		u.o.Features = []metadata.FeatureRange{{Name: "metadata.version", Min: 7, Max: 33}}
		u.o.Levels = func() metadata.Features { return cluster.Image(0, 0).Features }
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { u.Run(ctx); close(done) }()
		synctest.Wait()
		if err := u.Refusal(); !errors.Is(err, kerr.UnsupportedVersion) || !strings.Contains(err.Error(), "not serve: transaction.version=2;") {
			t.Errorf("refused with %v", err)
		}
		cancel()
		<-done
	})
}

// TestRefusalsNameTheCure: a broker that the controller does not take in says what to change here.
func TestRefusalsNameTheCure(t *testing.T) {
	for refusal, cure := range map[*kerr.Error]string{
		kerr.DuplicateBrokerRegistration: "node.id=", kerr.InvalidRegistration: "meta.properties", kerr.InconsistentClusterID: "controller.quorum.bootstrap.servers",
	} {
		synctest.Test(t, func(t *testing.T) {
			u := newUplink(&controller{refusal: refusal})
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { u.Run(ctx); close(done) }()
			synctest.Wait()
			if err := u.Refusal(); !errors.Is(err, refusal) || !strings.Contains(err.Error(), cure) {
				t.Errorf("refused with %v", err)
			}
			cancel()
			<-done
		})
	}
}

func TestShutdownGivesUpWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &controller{err: kerr.NotController}
		u := newUplink(c)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { u.Run(ctx); close(done) }()
		short, stop := context.WithTimeout(ctx, time.Second)
		defer stop()
		if err := u.Shutdown(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("err %v", err)
		}
		cancel()
		<-done
	})
}

func TestProducerIDsAreNeverRepeated(t *testing.T) {
	u := newUplink(&controller{})
	var wg sync.WaitGroup
	var mu sync.Mutex
	seen := make(map[int64]bool)
	for range 5 {
		wg.Go(func() {
			for range 500 {
				id, err := u.ProducerID(t.Context())
				mu.Lock()
				if err != nil || seen[id] {
					t.Errorf("id %d again, or %v", id, err)
				}
				seen[id] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(seen) != 2500 {
		t.Fatalf("%d ids", len(seen))
	}
}

func TestAutoCreateAsksOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &controller{hold: make(chan struct{})}
		u := newUplink(c)
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if err := u.AutoCreate(t.Context(), "orders"); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		close(c.hold)
		wg.Wait()
		if c.created["orders"] != 1 {
			t.Fatalf("asked %d times", c.created["orders"])
		}
		if err := u.AutoCreate(t.Context(), "orders"); err != nil {
			t.Errorf("a topic that is there: %v", err)
		}
		if err := u.AutoCreate(t.Context(), "bad"); !errors.Is(err, kerr.InvalidTopicException) {
			t.Errorf("bad name: %v", err)
		}
	})
}
