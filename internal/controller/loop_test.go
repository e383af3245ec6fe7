package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

// testLog is a Log whose entries are committed, and applied by a loader, when the test says so.
type testLog struct {
	mu      sync.Mutex
	loader  *metadata.Loader
	next    int64
	epoch   int32
	entries []testEntry
	refuse  error
}

type testEntry struct {
	last   int64
	values [][]byte
	done   chan error
}

func (l *testLog) Propose(epoch int32, values [][]byte) (int64, <-chan error, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refuse != nil {
		return 0, nil, l.refuse
	}
	if epoch != l.epoch {
		return 0, nil, errors.New("not the leader of that epoch")
	}
	l.next += int64(len(values))
	e := testEntry{l.next - 1, values, make(chan error, 1)}
	l.entries = append(l.entries, e)
	return e.last, e.done, nil
}

// commit commits the next entries, up to n of them, and returns how many there were.
func (l *testLog) commit(t *testing.T, n int) int {
	t.Helper()
	for i := range n {
		l.mu.Lock()
		if len(l.entries) == 0 {
			l.mu.Unlock()
			return i
		}
		e := l.entries[0]
		l.entries = l.entries[1:]
		l.mu.Unlock()
		records, err := metadata.DecodeAll(e.values)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.loader.Commit(e.last, l.epoch, records); err != nil {
			t.Fatal(err)
		}
		e.done <- nil
		synctest.Wait()
	}
	return n
}

const sessionMs = 9000

func withController(t *testing.T, f func(t *testing.T, c *Controller, log *testLog)) {
	synctest.Test(t, func(t *testing.T) {
		log := &testLog{epoch: 1}
		c := New(Options{
			NodeID: 1, ClusterID: "test", Log: log, Features: testFeatures(),
			Config: Config{NumPartitions: 1, DefaultReplicationFactor: 1, MinInsyncReplicas: 1, SessionTimeoutMs: sessionMs},
		})
		log.loader = metadata.NewLoader(c)
		c.Start()
		f(t, c, log)
		c.Stop()
	})
}

type pending struct {
	response kmsg.Response
	err      error
	done     bool
}

func ask(ctx context.Context, c *Controller, q kmsg.Request) *pending {
	p := &pending{}
	go func() {
		p.response, p.err = c.Handle(ctx, Request{Body: q})
		p.done = true
	}()
	synctest.Wait()
	return p
}

func createTopic(name string) *kmsg.CreateTopicsRequest {
	return &kmsg.CreateTopicsRequest{Version: 7, Topics: []kmsg.CreateTopicsRequestTopic{{Topic: name, NumPartitions: -1, ReplicationFactor: -1}}}
}

// lead makes c the leader of an empty log with one broker in service.
func lead(t *testing.T, c *Controller, log *testLog) {
	t.Helper()
	c.Lead(log.epoch)
	synctest.Wait()
	log.commit(t, 1)
	registered := ask(t.Context(), c, registration(1))
	log.commit(t, 1)
	if !registered.done {
		t.Fatal("no answer to a registration that is committed")
	}
	epoch := registered.response.(*kmsg.BrokerRegistrationResponse).BrokerEpoch
	if want := log.loader.Image().Offset; epoch != want {
		t.Fatalf("broker epoch %d, its record is at %d", epoch, want)
	}
	heartbeat(t, c, epoch)
	log.commit(t, 1)
	if !log.loader.Image().Cluster.Active(1) {
		t.Fatal("broker 1 is not in service")
	}
}

func heartbeat(t *testing.T, c *Controller, epoch int64) *pending {
	return ask(t.Context(), c, &kmsg.BrokerHeartbeatRequest{BrokerID: 1, BrokerEpoch: epoch, CurrentMetadataOffset: 1 << 40})
}

func TestAnswersWaitForTheCommit(t *testing.T) {
	withController(t, func(t *testing.T, c *Controller, log *testLog) {
		lead(t, c, log)
		created := ask(t.Context(), c, createTopic("a"))
		again := ask(t.Context(), c, createTopic("a"))
		if created.done || again.done {
			t.Fatal("an answer left before the commit that it rests on")
		}
		log.commit(t, 1)
		if !created.done || !again.done {
			t.Fatal("no answer after the commit")
		}
		if got := created.response.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode; got != 0 {
			t.Errorf("create: code %d", got)
		}
		if got := again.response.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode; got != kerr.TopicAlreadyExists.Code {
			t.Errorf("the second of two creates in one commit window: code %d, want TOPIC_ALREADY_EXISTS", got)
		}
		if log.commit(t, 1) != 0 {
			t.Error("the refused create wrote something")
		}
	})
}

func TestSessionsEndAndLeadersMove(t *testing.T) {
	withController(t, func(t *testing.T, c *Controller, log *testLog) {
		lead(t, c, log)
		ask(t.Context(), c, createTopic("a"))
		log.commit(t, 1)
		b, _ := log.loader.Image().Cluster.Broker(1)

		time.Sleep((sessionMs - 1) * time.Millisecond)
		heartbeat(t, c, b.Epoch)
		time.Sleep((sessionMs - 1) * time.Millisecond)
		if log.commit(t, 1) != 0 {
			t.Fatal("fenced within the session")
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if log.commit(t, 10) != 1 {
			t.Fatal("a silent broker was not fenced in one entry")
		}
		if b, _ := log.loader.Image().Cluster.Broker(1); !b.Fenced {
			t.Error("a silent broker is not fenced")
		}
		_, p, _ := log.loader.Image().Topics.Partition(kafka.TopicPartition{Topic: "a"})
		if p.Leader != kafka.NoNode || len(p.ISR) != 1 {
			t.Errorf("leader %d, ISR %v, want none and the one that was", p.Leader, p.ISR)
		}
		heartbeat(t, c, b.Epoch)
		log.commit(t, 1)
		_, p, _ = log.loader.Image().Topics.Partition(kafka.TopicPartition{Topic: "a"})
		if p.Leader != 1 || p.LeaderEpoch != 2 {
			t.Errorf("leader %d in epoch %d after the broker came back, want 1 in 2", p.Leader, p.LeaderEpoch)
		}
	})
}

func TestResigningDropsWhatIsNotCommitted(t *testing.T) {
	withController(t, func(t *testing.T, c *Controller, log *testLog) {
		if p := ask(t.Context(), c, createTopic("early")); !errors.Is(p.err, kerr.NotController) {
			t.Errorf("before leading: %v", p.err)
		}
		lead(t, c, log)
		lost := ask(t.Context(), c, createTopic("lost"))
		c.Resign()
		synctest.Wait()
		if !lost.done || !errors.Is(lost.err, kerr.NotController) {
			t.Errorf("waiting at the end of the epoch: done %v, %v", lost.done, lost.err)
		}
		log.entries, log.epoch, log.next = nil, 2, log.loader.Image().Offset+1

		c.Lead(2)
		synctest.Wait()
		log.commit(t, 1) // the NoOpRecord of a log in use
		fresh := ask(t.Context(), c, createTopic("lost"))
		log.commit(t, 1)
		if !fresh.done || fresh.response.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode != 0 {
			t.Errorf("the next leader still sees what was lost: %+v", fresh)
		}
		// The broker that was alive has a session with the new leader, too.
		time.Sleep((sessionMs + 1) * time.Millisecond)
		synctest.Wait()
		log.commit(t, 1)
		if log.loader.Image().Cluster.Active(1) {
			t.Error("a broker that the new leader never heard of is not fenced")
		}
	})
}

func TestALostEntryEndsTheEpoch(t *testing.T) {
	withController(t, func(t *testing.T, c *Controller, log *testLog) {
		lead(t, c, log)
		p := ask(t.Context(), c, createTopic("a"))
		log.entries[0].done <- errors.New("not the leader any more")
		synctest.Wait()
		if !p.done || !errors.Is(p.err, kerr.NotController) {
			t.Errorf("done %v, %v", p.done, p.err)
		}
		if p := ask(t.Context(), c, createTopic("b")); !errors.Is(p.err, kerr.NotController) {
			t.Errorf("after the epoch: %v", p.err)
		}
	})
}

func TestARefusedEntryChangesNothing(t *testing.T) {
	withController(t, func(t *testing.T, c *Controller, log *testLog) {
		lead(t, c, log)
		log.refuse = errors.New("too much is in flight")
		if p := ask(t.Context(), c, createTopic("a")); !errors.Is(p.err, kerr.NotController) {
			t.Errorf("refused: %v", p.err)
		}
		log.refuse = nil
		p := ask(t.Context(), c, createTopic("a"))
		log.commit(t, 1)
		if !p.done || p.response.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode != 0 {
			t.Errorf("after a refused entry: %+v", p)
		}
	})
}

func TestHandleEndsWithItsContext(t *testing.T) {
	withController(t, func(t *testing.T, c *Controller, log *testLog) {
		lead(t, c, log)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		p := ask(ctx, c, createTopic("a"))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if !p.done || !errors.Is(p.err, context.DeadlineExceeded) {
			t.Errorf("done %v, %v", p.done, p.err)
		}
	})
}

func TestLargeAnswers(t *testing.T) {
	withController(t, func(t *testing.T, c *Controller, log *testLog) {
		lead(t, c, log)
		// 9 topics of 1,000 partitions are 9,009 records, in one entry.
		q := &kmsg.CreateTopicsRequest{Version: 7}
		for i := range 9 {
			q.Topics = append(q.Topics, kmsg.CreateTopicsRequestTopic{Topic: fmt.Sprintf("t%d", i), NumPartitions: 1000, ReplicationFactor: -1})
		}
		p := ask(t.Context(), c, q)
		if n := log.commit(t, 10); n != 1 || !p.done || p.response.(*kmsg.CreateTopicsResponse).Topics[8].ErrorCode != 0 {
			t.Fatalf("%d entries, %+v", n, p)
		}
		// Too large for an entry: refused whole.
		huge := strings.Repeat("x", 600<<10)
		q = createTopic("big")
		q.Topics[0].Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: "a", Value: &huge}, {Name: "b", Value: &huge}}
		p = ask(t.Context(), c, q)
		if !p.done || p.response.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode != kerr.PolicyViolation.Code {
			t.Errorf("an answer of more than an entry: %+v", p)
		}
		// With three times as many partitions, the leader moves of a broker that goes take several entries.
		for _, prefix := range []string{"u", "v"} {
			q = &kmsg.CreateTopicsRequest{Version: 7}
			for i := range 9 {
				q.Topics = append(q.Topics, kmsg.CreateTopicsRequestTopic{Topic: fmt.Sprint(prefix, i), NumPartitions: 1000, ReplicationFactor: -1})
			}
			ask(t.Context(), c, q)
			log.commit(t, 1)
		}
		time.Sleep((sessionMs + 1) * time.Millisecond)
		synctest.Wait()
		if n := log.commit(t, 10); n != 2 {
			t.Errorf("fencing moved 27,000 leaders in %d entries, want 2", n)
		}
		image := log.loader.Image()
		if image.Cluster.Active(1) {
			t.Error("the broker is not fenced")
		}
		for _, topic := range image.Topics.All() {
			for index, p := range topic.Partitions.All() {
				if p.Leader != kafka.NoNode {
					t.Fatalf("%s-%d still has a leader", topic.Name, index)
				}
			}
		}
	})
}

func TestUnknownRequestsAreRefused(t *testing.T) {
	withController(t, func(t *testing.T, c *Controller, log *testLog) {
		lead(t, c, log)
		if p := ask(t.Context(), c, &kmsg.FetchRequest{}); !errors.Is(p.err, kerr.UnsupportedVersion) {
			t.Errorf("%v", p.err)
		}
	})
}

func TestStoppedControllerAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &testLog{epoch: 1}
		c := New(Options{ClusterID: "test", Log: log, Config: Config{SessionTimeoutMs: sessionMs}})
		log.loader = metadata.NewLoader(c)
		c.Start()
		c.Lead(1)
		waiting := ask(t.Context(), c, createTopic("a"))
		c.Stop()
		synctest.Wait()
		for _, p := range []*pending{waiting, ask(t.Context(), c, createTopic("b"))} {
			if !p.done || !errors.Is(p.err, kerr.NotController) {
				t.Errorf("done %v, %v", p.done, p.err)
			}
		}
	})
}

// Two nodes that ask at once get two numbers, none before it is committed; and whoever leads next gives neither again, although
// nobody has taken them.
func TestNumbersOfNodesAreGivenOnce(t *testing.T) {
	withController(t, func(t *testing.T, c *Controller, log *testLog) {
		type given struct {
			id   kafka.NodeID
			err  error
			done bool
		}
		ask := func() *given {
			g := &given{}
			go func() {
				g.id, g.err = c.NextNodeID(t.Context(), 1001)
				g.done = true
			}()
			synctest.Wait()
			return g
		}
		if g := ask(); !errors.Is(g.err, kerr.NotController) {
			t.Errorf("before leading: %+v", g)
		}
		lead(t, c, log)
		a, b := ask(), ask()
		if a.done || b.done {
			t.Fatal("a number was given before the commit that keeps it")
		}
		log.commit(t, 2)
		if *a != (given{1001, nil, true}) || *b != (given{1002, nil, true}) {
			t.Errorf("given %+v and %+v", a, b)
		}
		lost := ask()
		c.Resign()
		synctest.Wait()
		if !errors.Is(lost.err, kerr.NotController) {
			t.Errorf("at the end of the epoch: %+v", lost)
		}
		log.entries, log.epoch, log.next = nil, 2, log.loader.Image().Offset+1
		c.Lead(2)
		synctest.Wait()
		log.commit(t, 1)
		d := ask()
		log.commit(t, 1)
		if *d != (given{1003, nil, true}) {
			t.Errorf("by the next leader: %+v", d)
		}
	})
}
