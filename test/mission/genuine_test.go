package mission

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"moldau/internal/zkconsumer"
	"moldau/test/harness"
)

// genuine is Apache Kafka 1.1.1 on Apache ZooKeeper 3.4.10.
type genuine struct {
	kafka     *harness.Kafka
	zookeeper string
	broker    *harness.Broker
}

func startGenuine(t *testing.T) *genuine {
	t.Helper()
	k := harness.ApacheKafka(t, "1.1.1")
	g := &genuine{kafka: k, zookeeper: k.ZooKeeper(t)}
	g.broker = k.PrepareOldBroker(t, g.zookeeper, 0)
	g.broker.Spawn(t)
	g.create(t, "first", 1)
	return g
}

func (g *genuine) client(t *testing.T) *kgo.Client {
	t.Helper()
	// A broker may take its time to hear of a topic that was made: by itself the client asks for it five times.
	cl, err := kgo.NewClient(kgo.SeedBrokers(g.broker.Addr), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MetadataMinAge(50*time.Millisecond), kgo.UnknownTopicRetries(-1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// create makes a topic, and waits for the broker if it has yet to come up.
func (g *genuine) create(t *testing.T, topic string, partitions int32) {
	t.Helper()
	admin := kadm.NewClient(g.client(t))
	harness.Eventually(t, 3*time.Minute, "the broker makes a topic", func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_, err := admin.CreateTopic(ctx, partitions, 1, nil, topic)
		if errors.Is(err, kerr.TopicAlreadyExists) { // a try before has made it, and was not told in time
			return nil
		}
		return err
	})
}

// send writes values to a partition.
func (g *genuine) send(t *testing.T, topic string, partition int32, values ...string) {
	t.Helper()
	var records []*kgo.Record
	for _, v := range values {
		records = append(records, &kgo.Record{Topic: topic, Partition: partition, Value: []byte(v)})
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := g.client(t).ProduceSync(ctx, records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// reader is a member of ours, and what it has been given.
type reader struct {
	*zkconsumer.Consumer
	quit context.CancelFunc
	done chan struct{}

	mu   sync.Mutex
	seen []string
}

func (g *genuine) settings(t *testing.T, properties ...string) zkconsumer.Settings {
	t.Helper()
	values := map[string]string{
		"zookeeper.connect": g.zookeeper, "group.id": "g", "auto.offset.reset": "smallest", "zookeeper.session.timeout.ms": "30000",
		"zookeeper.connection.timeout.ms": "60000", "rebalance.backoff.ms": "1000", "rebalance.max.retries": "30",
	}
	for _, p := range properties {
		key, value, _ := strings.Cut(p, "=")
		values[key] = value
	}
	topics := values["topics"]
	delete(values, "topics")
	s, err := zkconsumer.Parse(values)
	if err != nil {
		t.Fatal(err)
	}
	s.Subscription = zkconsumer.Named("first")
	if topics != "" {
		if s.Subscription, err = zkconsumer.Matching(zkconsumer.WhiteList, topics); err != nil {
			t.Fatal(err)
		}
	}
	s.Host, s.Now, s.Dial = "here", time.Now, (&net.Dialer{}).DialContext
	s.Log = slog.New(slog.DiscardHandler)
	if testing.Verbose() {
		s.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return s
}

// join starts a member and reads on until the test ends or the member is stopped.
func join(t *testing.T, s zkconsumer.Settings) *reader {
	t.Helper()
	ctx, quit := context.WithCancel(context.Background())
	c, err := zkconsumer.Start(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	r := &reader{Consumer: c, quit: quit, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		for {
			_, err := c.Poll(ctx, 10, func(record *kgo.Record) error {
				r.mu.Lock()
				defer r.mu.Unlock()
				r.seen = append(r.seen, string(record.Value))
				return nil
			})
			if err != nil {
				if ctx.Err() == nil && !errors.Is(err, zkconsumer.ErrClosed) {
					t.Error(err)
				}
				return
			}
		}
	}()
	t.Cleanup(func() { r.stop() })
	return r
}

func (r *reader) stop() {
	r.quit()
	<-r.done
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r.Close(ctx)
}

func (r *reader) has() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.seen)
}

// seer is whoever has been given values.
type seer interface{ has() []string }

// gets waits until members together have seen values, each once.
func gets(t *testing.T, values []string, members ...seer) {
	t.Helper()
	var all []string
	harness.Eventually(t, time.Minute, "everything arrives", func() error {
		all = nil
		for _, r := range members {
			all = append(all, r.has()...)
		}
		if len(all) < len(values) {
			return fmt.Errorf("%d of %d", len(all), len(values))
		}
		return nil
	})
	slices.Sort(all)
	if want := slices.Sorted(slices.Values(values)); !slices.Equal(all, want) {
		t.Errorf("got %q, want %q", all, want)
	}
}

// tree is a session of the test's own.
func (g *genuine) tree(t *testing.T) *zkconsumer.Tree {
	t.Helper()
	return treeOf(t, g.zookeeper)
}

// settle waits until the members of a group own so many partitions of a topic each.
func settle(t *testing.T, patience time.Duration, tree *zkconsumer.Tree, group, topic string, want ...int) {
	t.Helper()
	harness.Eventually(t, patience, fmt.Sprintf("members own %v partitions of %s", want, topic), func() error {
		own, err := owners(tree, group, topic)
		count := make(map[string]int)
		for _, stream := range own {
			count[stream]++
		}
		if got := slices.Sorted(maps.Values(count)); err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("%v", own)
		}
		return err
	})
}

// gone waits until a group has no members. A session is told to end by who leaves, and has ended a moment later.
func gone(t *testing.T, tree *zkconsumer.Tree, group string) {
	t.Helper()
	harness.Eventually(t, time.Minute, "no member is left of "+group, func() error {
		ids, err := tree.Children("/consumers/" + group + "/ids")
		if err == nil && len(ids) > 0 {
			err = fmt.Errorf("%v", ids)
		}
		return err
	})
}

// takenAnew waits until the members that are not ours have rebalanced since the last member came or went. They may have that before them
// still when the rest owns all that it has to, and Apache Kafka's consumers can be given a record twice while they do.
func takenAnew(t *testing.T, tree *zkconsumer.Tree, group, topic string) {
	t.Helper()
	harness.Eventually(t, time.Minute, "all have rebalanced", func() error {
		_, members, err := tree.Get("/consumers/" + group + "/ids")
		if err != nil {
			return err
		}
		own, err := owners(tree, group, topic)
		for p, stream := range own {
			if strings.HasPrefix(stream, group+"_here-") {
				continue // ours keep what they have to own anyway
			}
			_, stat, err := tree.Get("/consumers/" + group + "/owners/" + topic + "/" + p)
			if err != nil {
				return err
			}
			if stat.Czxid < members.Pzxid {
				return fmt.Errorf("%s has been owned by %s since %d, the members are those of %d", p, stream, stat.Czxid, members.Pzxid)
			}
		}
		return err
	})
}

// owners maps the partitions of a topic to their owners.
func owners(tree *zkconsumer.Tree, group, topic string) (map[string]string, error) {
	partitions, err := tree.Children("/consumers/" + group + "/owners/" + topic)
	all := make(map[string]string)
	for _, p := range partitions {
		data, _, err := tree.Get("/consumers/" + group + "/owners/" + topic + "/" + p)
		if err != nil {
			return nil, err
		}
		all[p] = string(data)
	}
	return all, err
}

func TestOffsetsAreKeptInZooKeeper(t *testing.T) {
	g := startGenuine(t)
	tree := g.tree(t)
	g.send(t, "first", 0, "a", "b")

	one := join(t, g.settings(t, "auto.commit.interval.ms=200"))
	gets(t, []string{"a", "b"}, one)
	committed := func(group, want string) func() error {
		return func() error {
			data, _, err := tree.Get("/consumers/" + group + "/offsets/first/0")
			if err == nil && string(data) != want {
				err = fmt.Errorf("%q", data)
			}
			return err
		}
	}
	harness.Eventually(t, time.Minute, "2 is committed", committed("g", "2"))
	if own, err := owners(tree, "g", "first"); err != nil || !maps.Equal(own, map[string]string{"0": one.ID() + "-0"}) {
		t.Errorf("owners: %v, %v", own, err)
	}
	one.stop()
	if own, err := owners(tree, "g", "first"); err != nil || len(own) != 0 {
		t.Errorf("owners after it has left: %v, %v", own, err)
	}
	gone(t, tree, "g")

	// The next one goes on where it was, though its interval never comes.
	g.send(t, "first", 0, "c")
	two := join(t, g.settings(t, "auto.commit.interval.ms=3600000"))
	gets(t, []string{"c"}, two)
	two.stop()
	harness.Eventually(t, 0, "3 is committed on leaving", committed("g", "3"))

	// A group without an offset starts at the end, and that is where it goes on from. A broker may take its time to say where that is.
	late := g.settings(t, "group.id=late", "auto.offset.reset=largest", "auto.commit.interval.ms=200")
	three := join(t, late)
	harness.Eventually(t, time.Minute, "the end is committed", committed("late", "3"))
	three.stop()
	g.send(t, "first", 0, "d")
	gets(t, []string{"d"}, join(t, late))

	// An offset that is not there is replaced.
	if err := tree.Put("/consumers/lost/offsets/first/0", []byte("700")); err != nil {
		t.Fatal(err)
	}
	gets(t, []string{"a", "b", "c", "d"}, join(t, g.settings(t, "group.id=lost")))
}

// TestMembersShare: ours and Apache Kafka's, in one group. Each record arrives once, whoever joins and leaves.
func TestMembersShare(t *testing.T) {
	for _, strategy := range []string{"range", "roundrobin"} {
		t.Run(strategy, func(t *testing.T) {
			g := startGenuine(t)
			g.create(t, "three", 3)
			tree := g.tree(t)
			var sent []string
			send := func(n int) {
				for i := range n {
					value := fmt.Sprint(strategy, len(sent))
					sent = append(sent, value)
					g.send(t, "three", int32(i%3), value)
				}
			}
			settled := func(want ...int) {
				t.Helper()
				settle(t, 2*time.Minute, tree, "g", "three", want...)
				takenAnew(t, tree, "g", "three")
			}
			ours := g.settings(t, "topics=three", "partition.assignment.strategy="+strategy)
			one := join(t, ours)
			settled(3)
			send(9)
			gets(t, sent, one)

			theirs := g.consume(t, "three", "partition.assignment.strategy="+strategy, "rebalance.backoff.ms=1000")
			settled(1, 2)
			send(9)
			gets(t, sent, theirs, one)

			two := join(t, ours)
			settled(1, 1, 1)
			send(9)
			gets(t, sent, theirs, one, two)

			one.stop()
			settled(1, 2)
			send(9)
			gets(t, sent, theirs, one, two)

			theirs.terminate(t)
			settled(3)
			send(9)
			gets(t, sent, theirs, one, two)
		})
	}
}
