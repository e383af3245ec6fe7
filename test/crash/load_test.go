package crash

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"moldau/test/harness"
)

const partitions = 4 // of a load's topic

// load is clients at work on one node. They live through its crashes.
type load struct {
	topic   string
	ledger  *ledger
	address string
	writers []*writer
	reader  *kgo.Client
	clients []*kgo.Client // all of them
	admin   *kadm.Client

	wg     sync.WaitGroup
	cancel context.CancelFunc
	turn   int // of the administrator
}

// writer is a producer with acks=all.
type writer struct {
	name       string
	client     *kgo.Client
	idempotent bool
	next       [partitions]int64
}

func newLoad(ctx context.Context, t *testing.T, n *harness.Node, topic string) *load {
	t.Helper()
	l := &load{topic: topic, ledger: newLedger(), address: n.Addr}
	dial := func(more ...kgo.Opt) *kgo.Client {
		client, err := kgo.NewClient(append([]kgo.Opt{
			kgo.SeedBrokers(n.Addr), kgo.MetadataMinAge(50 * time.Millisecond), kgo.UnknownTopicRetries(-1), kgo.RecordPartitioner(kgo.ManualPartitioner()),
			kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
		}, more...)...)
		if err != nil {
			t.Fatal(err)
		}
		l.clients = append(l.clients, client)
		return client
	}
	t.Cleanup(l.hangUp)
	l.admin = kadm.NewClient(dial(kgo.RequestTimeoutOverhead(5 * time.Second)))
	created, err := l.admin.CreateTopic(ctx, partitions, 1, nil, topic)
	if err != nil {
		t.Fatal(err)
	}
	l.ledger.topics[topic] = created.ID.String()
	for i := range 2 {
		l.writers = append(l.writers, &writer{name: fmt.Sprint("idempotent", i), idempotent: true,
			client: dial(kgo.MaxBufferedRecords(500), kgo.ProducerLinger(0))})
	}
	// Each record once, whatever the answer: a repetition would be a second record.
	l.writers = append(l.writers, &writer{name: "plain", client: dial(kgo.DisableIdempotentWrite(), kgo.RecordRetries(0), kgo.MaxProduceRequestsInflightPerBroker(1))})
	l.reader = dial(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	return l
}

// start puts everybody to work.
func (l *load) start(ctx context.Context) {
	ctx, l.cancel = context.WithCancel(ctx)
	for _, w := range l.writers {
		l.wg.Go(func() { w.run(ctx, l.topic, l.ledger) })
	}
	l.wg.Go(func() {
		for ctx.Err() == nil {
			l.reader.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
				if err := l.ledger.look(r); err != nil {
					l.ledger.fault(err)
				}
			})
		}
	})
	l.wg.Go(func() {
		for ctx.Err() == nil {
			l.administer(ctx)
			pause(ctx, 20*time.Millisecond)
		}
	})
}

// run writes records of many sizes to all partitions.
func (w *writer) run(ctx context.Context, topic string, l *ledger) {
	for i := 0; ctx.Err() == nil; i++ {
		p := int32(i % partitions)
		r := &kgo.Record{Topic: topic, Partition: p, Value: []byte(name(w.name, p, w.next[p]) + strings.Repeat("x", i*37%1500))}
		w.next[p]++
		if w.idempotent {
			w.client.Produce(context.WithoutCancel(ctx), r, func(r *kgo.Record, err error) {
				l.ack(r, err)
				var eof *kgo.ErrFirstReadEOF
				switch {
				case errors.As(err, &eof): // the client takes this for a wrong password, and does not repeat
					l.leaveGaps(w.name)
				case err != nil:
					l.fault(fmt.Errorf("%.30q was given up: %w", r.Value, err))
				}
			})
			if i%50 == 49 {
				pause(ctx, 3*time.Millisecond)
			}
			continue
		}
		err := w.client.ProduceSync(context.WithoutCancel(ctx), r).FirstErr()
		if l.ack(r, err); err != nil {
			pause(ctx, 20*time.Millisecond)
		}
	}
}

// administer does one thing to topics or to a group's offsets, and notes what was acked.
func (l *load) administer(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	l.turn++
	at := int64(l.turn)
	switch l.turn % 4 {
	case 0:
		name := fmt.Sprint(l.topic, "-made-", l.turn)
		if created, err := l.admin.CreateTopic(ctx, 1, 1, nil, name); err == nil {
			l.ledger.note(func() { l.ledger.topics[name] = created.ID.String() })
		}
	case 1:
		name := fmt.Sprint(l.topic, "-made-", l.turn-5)
		l.ledger.mu.Lock()
		_, made := l.ledger.topics[name]
		delete(l.ledger.topics, name) // until the answer, either may be
		l.ledger.mu.Unlock()
		if !made {
			return
		}
		if deleted, err := l.admin.DeleteTopic(ctx, name); err == nil || errors.Is(deleted.Err, kerr.UnknownTopicOrPartition) {
			l.ledger.note(func() { l.ledger.topics[name] = "" })
		}
	default:
		group := fmt.Sprint(l.topic, "-group-", l.turn%3)
		offsets := kadm.Offsets{}
		offsets.Add(kadm.Offset{Topic: l.topic, Partition: 0, At: at, LeaderEpoch: -1})
		if committed, err := l.admin.CommitOffsets(ctx, group, offsets); err == nil && committed.Error() == nil {
			l.ledger.note(func() { l.ledger.commits[group] = at })
		}
	}
}

// stop lets everybody end their work, the answers that are outstanding included.
func (l *load) stop(ctx context.Context, t *testing.T) {
	t.Helper()
	l.cancel()
	l.wg.Wait()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for _, w := range l.writers {
		if err := w.client.Flush(ctx); err != nil {
			t.Fatalf("%s waits for an answer: %v", w.name, err)
		}
	}
}

// check compares the node with the ledger.
func (l *load) check(ctx context.Context, t *testing.T) {
	t.Helper()
	once := map[string]bool{}
	for _, w := range l.writers {
		once[w.name] = w.idempotent && !l.ledger.gaps[w.name]
	}
	l.ledger.check(ctx, t, l.address, l.topic, once)
	client, err := kgo.NewClient(kgo.SeedBrokers(l.address)) // the others may hold connections to a process that is gone
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	listed, err := admin.ListTopics(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for name, id := range l.ledger.topics {
		switch detail, ok := listed[name]; {
		case id == "" && ok:
			t.Errorf("topic %s was deleted and is back", name)
		case id != "" && (!ok || detail.ID.String() != id):
			t.Errorf("topic %s was created with id %s and is gone, or is another one: %s", name, id, detail.ID)
		}
	}
	for group, at := range l.ledger.commits {
		fetched, err := admin.FetchOffsets(ctx, group)
		if err != nil {
			t.Fatal(err)
		}
		if o, ok := fetched.Lookup(l.topic, 0); !ok || o.At < at {
			t.Errorf("%s committed %d and has %d, %v", group, at, o.At, ok)
		}
	}
}

// close deletes the topic and ends the clients.
func (l *load) close(ctx context.Context, t *testing.T) {
	t.Helper()
	if _, err := l.admin.DeleteTopic(ctx, l.topic); err != nil { // once more on a new connection
		if _, err = l.admin.DeleteTopic(ctx, l.topic); err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) {
			t.Error(err)
		}
	}
	l.hangUp()
}

func (l *load) hangUp() {
	for _, c := range l.clients {
		c.Close()
	}
	l.clients = nil
}

// pause waits, but not longer than ctx.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
