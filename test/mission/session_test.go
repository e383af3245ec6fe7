package mission

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/zkconsumer"
	"moldau/test/harness"
)

// gate lets connections to one address through, or not.
type gate struct {
	address string

	mu     sync.Mutex
	closed bool
	conns  []net.Conn
}

func (g *gate) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil || address != g.address {
		return conn, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		conn.Close()
		return nil, errors.New("the gate is closed")
	}
	g.conns = append(g.conns, conn)
	return conn, nil
}

func (g *gate) shut(closed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = closed
	if closed {
		for _, conn := range g.conns {
			conn.Close()
		}
		g.conns = nil
	}
}

// heard tells of lines of a log that contain a text.
type heard struct {
	slog.Handler
	text string
	told chan<- struct{}
}

func (h heard) Enabled(context.Context, slog.Level) bool { return true }

func (h heard) Handle(ctx context.Context, r slog.Record) error {
	if strings.Contains(r.Message, h.text) {
		select {
		case h.told <- struct{}{}:
		default:
		}
	}
	if !h.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// TestAMemberThatIsCutOffLosesItsPartitions: and comes back when it is not any more. What it had committed nobody reads again.
func TestAMemberThatIsCutOffLosesItsPartitions(t *testing.T) {
	g := startGenuine(t)
	tree := g.tree(t)
	way := &gate{address: g.zookeeper}
	cut := g.settings(t, "consumer.id=a", "auto.commit.interval.ms=50", "zookeeper.session.timeout.ms=8000")
	cut.Dial = way.dial
	halted := make(chan struct{}, 1)
	cut.Log = slog.New(heard{cut.Log.Handler(), "nothing is read until it is", halted})
	one := join(t, cut)
	two := join(t, g.settings(t, "consumer.id=b"))
	owner := func(want string) func() error {
		return func() error {
			own, err := owners(tree, "g", "first")
			if err == nil && !maps.Equal(own, map[string]string{"0": want}) {
				err = fmt.Errorf("%v", own)
			}
			return err
		}
	}
	harness.Eventually(t, time.Minute, "the first name owns the only partition", owner("g_a-0"))
	g.send(t, "first", 0, "v1")
	gets(t, []string{"v1"}, one)
	harness.Eventually(t, time.Minute, "that is committed", func() error {
		data, _, err := tree.Get("/consumers/g/offsets/first/0")
		if err == nil && string(data) != "1" {
			err = fmt.Errorf("%q", data)
		}
		return err
	})

	// A connection that is lost for a moment changes nothing.
	way.shut(true)
	way.shut(false)
	g.send(t, "first", 0, "v2")
	gets(t, []string{"v1", "v2"}, one)
	harness.Eventually(t, time.Minute, "nobody else took it", owner("g_a-0"))
	harness.Eventually(t, time.Minute, "that is committed", func() error {
		data, _, err := tree.Get("/consumers/g/offsets/first/0")
		if err == nil && string(data) != "2" {
			err = fmt.Errorf("%q", data)
		}
		return err
	})

	way.shut(true)
	// It counts from when it misses ZooKeeper, and ZooKeeper from when it last heard of it: the other may be the owner a moment earlier.
	harness.Eventually(t, time.Minute, "the other takes over", owner("g_b-0"))
	select {
	case <-halted:
	case <-time.After(time.Minute):
		t.Fatal("a member that is cut off reads on")
	}
	g.send(t, "first", 0, "v3")
	gets(t, []string{"v3"}, two)
	way.shut(false)
	harness.Eventually(t, time.Minute, "it comes back", owner("g_a-0"))
	g.send(t, "first", 0, "v4")
	gets(t, []string{"v1", "v2", "v3", "v4"}, one, two)
}

// TestTopicsThatComeAndGrow: are seen without being asked for.
func TestTopicsThatComeAndGrow(t *testing.T) {
	g := startGenuine(t)
	one := join(t, g.settings(t, "topics=l.*"))
	named := g.settings(t, "group.id=named")
	named.Subscription = zkconsumer.Named("later")
	two := join(t, named)
	g.create(t, "later", 1)
	g.send(t, "later", 0, "a")
	gets(t, []string{"a"}, one)
	gets(t, []string{"a"}, two)

	admin := kadm.NewClient(g.client(t))
	if err := g.grow(t, "later", 2); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, time.Minute, "the second partition has a leader", func() error {
		topics, err := admin.ListTopics(context.Background(), "later")
		if err == nil && (len(topics["later"].Partitions) < 2 || topics["later"].Partitions[1].Leader < 0) {
			err = errors.New("not yet")
		}
		return err
	})
	g.send(t, "later", 1, "b")
	gets(t, []string{"a", "b"}, one)
	gets(t, []string{"a", "b"}, two)
}

// grow gives a topic more partitions as tools of the time do: in ZooKeeper.
func (g *genuine) grow(t *testing.T, topic string, partitions int) error {
	t.Helper()
	var list []string
	for p := range partitions {
		list = append(list, fmt.Sprintf(`"%d":[0]`, p))
	}
	return g.tree(t).Put("/brokers/topics/"+topic, []byte(`{"version":1,"partitions":{`+strings.Join(list, ",")+`}}`))
}

// TestOffsetsMoveToKafka: with offsets.storage=kafka a group goes on where ZooKeeper has it, and stores in both until
// dual.commit.enabled says no.
func TestOffsetsMoveToKafka(t *testing.T) {
	g := startGenuine(t)
	tree := g.tree(t)
	g.send(t, "first", 0, "a")
	read := func(want string, properties ...string) {
		t.Helper()
		r := join(t, g.settings(t, properties...))
		gets(t, []string{want}, r)
		r.stop()
	}
	stored := func(inTree string, inKafka int64) {
		t.Helper()
		data, _, err := tree.Get("/consumers/g/offsets/first/0")
		if err != nil || string(data) != inTree {
			t.Errorf("ZooKeeper has %q, %v, want %s", data, err, inTree)
		}
		offsets, err := kadm.NewClient(g.client(t)).FetchOffsets(context.Background(), "g")
		if o, _ := offsets.Lookup("first", 0); err != nil || o.At != inKafka {
			t.Errorf("Kafka has %v, %v, want %d", o.Offset, err, inKafka)
		}
	}
	read("a")
	g.send(t, "first", 0, "b")
	read("b", "offsets.storage=kafka")
	stored("2", 2)
	g.send(t, "first", 0, "c")
	read("c", "offsets.storage=kafka", "dual.commit.enabled=false")
	stored("2", 3)
	g.send(t, "first", 0, "d")
	read("d", "offsets.storage=kafka") // the larger of the two counts
	stored("4", 4)
}

// TestBelowAChroot: zookeeper.connect may name one, which has to be there.
func TestBelowAChroot(t *testing.T) {
	g := startGenuine(t)
	s := g.settings(t, "zookeeper.connect="+g.zookeeper+"/in/here")
	if _, err := zkconsumer.Start(context.Background(), s); err == nil || !strings.Contains(err.Error(), "/in/here does not exist") {
		t.Errorf("a chroot that is not there: %v", err)
	}
	// What a broker would have there, by hand: the tree of this one, below it.
	tree := g.tree(t)
	for _, path := range []string{"/brokers/ids/0", "/brokers/topics/first"} {
		data, _, err := tree.Get(path)
		if err == nil {
			err = tree.Put("/in/here"+path, data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	g.send(t, "first", 0, "a")
	r := join(t, s)
	gets(t, []string{"a"}, r)
	r.stop()
	if data, _, err := tree.Get("/in/here/consumers/g/offsets/first/0"); err != nil || string(data) != "1" {
		t.Errorf("committed %q, %v", data, err)
	}
}

// TestAnOwnerThatHoldsOn: after rebalance.max.retries a member that cannot have its partitions says so.
func TestAnOwnerThatHoldsOn(t *testing.T) {
	g := startGenuine(t)
	if err := g.tree(t).Put("/consumers/g/owners/first/0", []byte("somebody")); err != nil {
		t.Fatal(err)
	}
	_, err := zkconsumer.Start(context.Background(), g.settings(t, "rebalance.backoff.ms=50", "rebalance.max.retries=4"))
	if !errors.Is(err, zkconsumer.ErrRebalance) || !strings.Contains(err.Error(), "/consumers/g/owners/first/0") {
		t.Errorf("joined: %v", err)
	}
}

// TestRecordsThatAreGone: a position below the log's start is replaced while reading, too.
func TestRecordsThatAreGone(t *testing.T) {
	g := startGenuine(t)
	g.send(t, "first", 0, "a", "b", "c")
	cl := g.client(t)
	deleting := kmsg.NewPtrDeleteRecordsRequest()
	topic := kmsg.NewDeleteRecordsRequestTopic()
	topic.Topic = "first"
	partition := kmsg.NewDeleteRecordsRequestTopicPartition()
	partition.Partition, partition.Offset = 0, 2
	topic.Partitions = append(topic.Partitions, partition)
	deleting.Topics, deleting.TimeoutMillis = append(deleting.Topics, topic), 10_000
	if _, err := deleting.RequestWith(context.Background(), cl); err != nil {
		t.Fatal(err)
	}
	if err := g.tree(t).Put("/consumers/g/offsets/first/0", []byte("1")); err != nil {
		t.Fatal(err)
	}
	gets(t, []string{"c"}, join(t, g.settings(t)))
}
