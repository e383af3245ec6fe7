package main

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/wire"
	"moldau/test/harness"
)

// process is a broker's process; *harness.Node, *harness.Broker and *harness.ZooKeeper are.
type process interface {
	Spawn(t harness.T, args ...string)
	Stop(t harness.T)
	Kill(t harness.T)
	Pid() int
	Done() <-chan struct{}
}

// broker is one prepared process: configured, its data folder empty, not yet started.
type broker struct {
	process
	id        int32  // node.id
	addr      string // "" of a ZooKeeper
	zookeeper string // address of its ZooKeeper port, "" without one
	dir       string // its data folder
	profile   string // URL of its CPU profile, "" without one
}

// system is brokers and their configuration, to be compared with others.
type system struct {
	name    string
	about   string
	jvm     bool // needs a warm-up
	prepare func(t harness.T, nodes int, extra ...string) *cluster
}

// allSystems are what -systems may name, the defaults first. before is the binary of moldau-before, "" for none.
func allSystems(before string) []system {
	kafka := "Apache Kafka " + harness.KafkaVersion
	list := []system{{
		name:    "moldau",
		about:   "as it comes: fsync before the answer to acks=all",
		prepare: prepareMoldau(""),
	}, {
		name:    "kafka",
		about:   kafka + " as it comes: no fsync before an answer; G1, heap of 1 GiB, of a cluster's brokers of 512 MiB to 1 GiB",
		jvm:     true,
		prepare: prepareKafka(harness.KafkaVersion),
	}, {
		name:    "kafka-3.9",
		about:   "Apache Kafka " + lastWithOldClients + ", the last that serves clients older than 0.11, set up like kafka",
		jvm:     true,
		prepare: prepareKafka(lastWithOldClients),
	}, {
		name:    "moldau-noflush",
		about:   "moldau with log.flush.before.ack=false, which is Kafka's promise",
		prepare: with(prepareMoldau(""), "log.flush.before.ack=false"),
	}, {
		name:    "kafka-flush",
		about:   kafka + " with log.flush.interval.messages=1, which is nearest to moldau's promise",
		jvm:     true,
		prepare: with(prepareKafka(harness.KafkaVersion), "log.flush.interval.messages=1"),
	}, {
		name:    "zookeeper",
		about:   "Apache ZooKeeper 3.4.10 as Apache Kafka " + withZooKeeper + " ships it: fsync before the answer to a write; G1, heap of 512 MiB",
		jvm:     true,
		prepare: prepareZooKeeper,
	}}
	if before != "" {
		list = append(list, system{name: "moldau-before", about: "the same as " + before + " has it", prepare: prepareMoldau(before)})
	}
	return list
}

// fastDelete makes both systems remove the files of a deleted topic soon, so that its cost can be kept out of the next run.
const fastDelete = "log.segment.delete.delay.ms=100"

func with(prepare func(harness.T, int, ...string) *cluster, property string) func(harness.T, int, ...string) *cluster {
	return func(t harness.T, nodes int, extra ...string) *cluster {
		return prepare(t, nodes, append(extra[:len(extra):len(extra)], property)...)
	}
}

// prepareMoldau prepares nodes of a binary; "" is what is built from this module.
func prepareMoldau(binary string) func(harness.T, int, ...string) *cluster {
	return func(t harness.T, nodes int, extra ...string) *cluster {
		if binary == "" {
			harness.Binary(t) // built now, so that Spawn only starts it
		}
		c := &cluster{}
		extra = append(extra[:len(extra):len(extra)], fastDelete)
		zookeeper := ""
		if nodes == 1 { // without a configuration there is a ZooKeeper port, too
			zookeeper = fmt.Sprintf("127.0.0.1:%d", harness.FreePorts(t, 1)[0])
			extra = append(extra, "zookeeper.listeners="+zookeeper)
		}
		for i, n := range harness.PrepareNodes(t, nodes, extra...) {
			n.Binary = binary
			c.brokers = append(c.brokers, &broker{process: n, id: int32(i + 1), addr: n.Addr, zookeeper: zookeeper, dir: n.Dir, profile: "http://" + n.HTTP + "/debug/pprof/profile"})
		}
		return c
	}
}

// withZooKeeper is the release of Apache Kafka that came with ZooKeeper 3.4.10.
const withZooKeeper = "1.1.1"

func prepareZooKeeper(t harness.T, _ int, _ ...string) *cluster {
	z := harness.ApacheKafka(t, withZooKeeper).PrepareZooKeeper(t)
	return &cluster{brokers: []*broker{{process: z, zookeeper: z.Addr, dir: z.Dir}}}
}

// lastWithOldClients is the last release of Apache Kafka that converts between record formats.
const lastWithOldClients = "3.9.2"

func prepareKafka(version string) func(harness.T, int, ...string) *cluster {
	return func(t harness.T, nodes int, extra ...string) *cluster {
		kafka, extra := harness.ApacheKafka(t, version), append(extra[:len(extra):len(extra)], fastDelete)
		c := &cluster{}
		if nodes == 1 {
			b := kafka.PrepareBroker(t, extra...)
			c.brokers = []*broker{{process: b, id: 1, addr: b.Addr, dir: b.Dir}}
			return c
		}
		for i, b := range kafka.PrepareBrokers(t, nodes, extra...) {
			c.brokers = append(c.brokers, &broker{process: b, id: int32(i + 1), addr: b.Addr, dir: b.Dir})
		}
		return c
	}
}

// start starts the process and returns the time to its first good answer to Metadata.
func (b *broker) start(ctx context.Context, t harness.T) (time.Duration, error) {
	began := time.Now()
	b.Spawn(t)
	return b.await(ctx, began, 1)
}

// await waits until the broker lists so many brokers; a ZooKeeper, until it begins a session.
func (b *broker) await(ctx context.Context, began time.Time, brokers int) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		err := b.ask(ctx, brokers)
		if err == nil {
			return time.Since(began), nil
		}
		select {
		case <-b.Done():
			return 0, fmt.Errorf("the process at %s ended before it served", b.addr)
		case <-ctx.Done():
			return 0, fmt.Errorf("%s did not serve within two minutes: %w", b.addr, err)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func (b *broker) ask(ctx context.Context, brokers int) error {
	if b.addr != "" {
		return askMetadata(ctx, b.addr, brokers)
	}
	k, err := newKeeper(ctx, b.zookeeper)
	if err != nil {
		return err
	}
	return k.end()
}

// askMetadata succeeds once a broker lists so many brokers. It speaks the protocol itself because a client would retry in its own
// rhythm.
func askMetadata(ctx context.Context, addr string, brokers int) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	conn, err := dial(ctx, addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	req := kmsg.NewPtrMetadataRequest()
	req.SetVersion(9)
	req.Topics = []kmsg.MetadataRequestTopic{} // none: the answer lists brokers only
	if _, err := conn.Write(wire.AppendRequest(nil, 1, nil, req)); err != nil {
		return err
	}
	frame, err := wire.ReadFrame(conn, 1<<20, nil)
	if err != nil {
		return err
	}
	resp := req.ResponseKind().(*kmsg.MetadataResponse)
	if _, err := wire.ReadResponse(frame, resp); err != nil {
		return err
	}
	if len(resp.Brokers) < brokers {
		return fmt.Errorf("%s knows %d of %d brokers", addr, len(resp.Brokers), brokers)
	}
	return nil
}

// dial connects, and ends the connection when ctx ends.
func dial(ctx context.Context, addr string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	return stoppedConn{conn, stop}, nil
}

type stoppedConn struct {
	net.Conn
	stop func() bool
}

func (c stoppedConn) Close() error {
	c.stop()
	return c.Conn.Close()
}
