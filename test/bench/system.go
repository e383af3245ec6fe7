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

// process is a broker's process; *harness.Node and *harness.Broker are.
type process interface {
	Spawn(t harness.T, args ...string)
	Stop(t harness.T)
	Kill(t harness.T)
	Pid() int
	Done() <-chan struct{}
}

// broker is one prepared system: configured, its data folder empty, not yet started.
type broker struct {
	process
	addr    string
	dir     string // its data folder
	profile string // URL of its CPU profile, "" without one
	lastRun time.Duration
}

// system is a broker and its configuration, to be compared with others.
type system struct {
	name    string
	about   string
	jvm     bool // needs a warm-up
	prepare func(t harness.T) *broker
}

// allSystems are what -systems may name, the defaults first.
func allSystems() []system {
	kafka := "Apache Kafka " + harness.KafkaVersion
	return []system{{
		name:    "moldau",
		about:   "as it comes: fsync before the answer to acks=all",
		prepare: func(t harness.T) *broker { return prepareMoldau(t) },
	}, {
		name:    "kafka",
		about:   kafka + " as it comes: no fsync before an answer; G1, heap of 1 GiB",
		jvm:     true,
		prepare: func(t harness.T) *broker { return prepareKafka(t) },
	}, {
		name:    "moldau-noflush",
		about:   "moldau with log.flush.before.ack=false, which is Kafka's promise",
		prepare: func(t harness.T) *broker { return prepareMoldau(t, "log.flush.before.ack=false") },
	}, {
		name:    "kafka-flush",
		about:   kafka + " with log.flush.interval.messages=1, which is nearest to moldau's promise",
		jvm:     true,
		prepare: func(t harness.T) *broker { return prepareKafka(t, "log.flush.interval.messages=1") },
	}}
}

// fastDelete makes both systems remove the files of a deleted topic soon, so that its cost can be kept out of the next run.
const fastDelete = "log.segment.delete.delay.ms=100"

func prepareMoldau(t harness.T, extra ...string) *broker {
	n := harness.Prepare(t, append(extra, fastDelete)...)
	harness.Binary(t) // built now, so that Spawn only starts it
	return &broker{process: n, addr: n.Addr, dir: n.Dir, profile: "http://" + n.HTTP + "/debug/pprof/profile"}
}

func prepareKafka(t harness.T, extra ...string) *broker {
	b := harness.ApacheKafka(t, harness.KafkaVersion).PrepareBroker(t, append(extra, fastDelete)...)
	return &broker{process: b, addr: b.Addr, dir: b.Dir}
}

// start starts the process and returns the time to its first good answer to Metadata.
func (b *broker) start(ctx context.Context, t harness.T) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	began := time.Now()
	b.Spawn(t)
	for {
		err := askMetadata(ctx, b.addr)
		if err == nil {
			return time.Since(began), nil
		}
		select {
		case <-b.Done():
			return 0, fmt.Errorf("the process at %s ended before it served", b.addr)
		case <-ctx.Done():
			return 0, fmt.Errorf("%s did not serve within a minute: %w", b.addr, err)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// askMetadata succeeds once a broker lists itself. It speaks the protocol itself because a client would retry in its own
// rhythm.
func askMetadata(ctx context.Context, addr string) error {
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
	if len(resp.Brokers) == 0 {
		return fmt.Errorf("%s knows no broker yet", addr)
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
