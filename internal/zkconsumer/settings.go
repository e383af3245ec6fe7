package zkconsumer

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Settings are what a consumer is told. Parse fills all but the last group.
type Settings struct {
	Connect           string // zookeeper.connect: host:port,…, then a chroot if there is one
	SessionTimeout    time.Duration
	ConnectionTimeout time.Duration // for the first connection

	Group      string
	ConsumerID string // consumer.id: the member is called after it; "" = after Host and the time
	ClientID   string

	AutoCommit         bool
	AutoCommitInterval time.Duration
	CommitRetries      int // how often a failed commit is tried again
	CommitBackoff      time.Duration
	KafkaOffsets       bool // offsets.storage=kafka
	DualCommit         bool // commits go to ZooKeeper, too, and the larger of the two is resumed from
	FromSmallest       bool // auto.offset.reset: where a partition begins whose offset is not known or not there

	RebalanceRetries int
	RebalanceBackoff time.Duration
	RoundRobin       bool // partition.assignment.strategy
	IncludeInternal  bool

	FetchMinBytes   int32
	FetchMaxWait    time.Duration
	FetchMessageMax int32 // bytes of one partition in an answer
	RequestTimeout  time.Duration
	RefreshLeader   time.Duration // pause before a missing leader is looked for again
	IdleTimeout     time.Duration // consumer.timeout.ms, for the caller of Poll; negative = none
	NotHere         []string      // keys without effect here, sorted
	Subscription    Subscription
	Host            string // this machine's name
	Now             func() time.Time
	Dial            func(ctx context.Context, network, address string) (net.Conn, error)
	Log             *slog.Logger
}

// idle are keys of Kafka's consumer that have nothing to set here.
var idle = []string{
	"socket.receive.buffer.bytes", "num.consumer.fetchers", "queued.max.message.chunks", "offsets.channel.socket.timeout.ms",
	"fetch.max.bytes",
}

// Parse reads the keys of kafka.consumer.ConsumerConfig. zookeeper.connect and group.id have to be there. earliest and latest
// are taken for smallest and largest, which is how today's consumers call them.
func Parse(values map[string]string) (Settings, error) {
	p := parser{values: values, left: maps.Clone(values)}
	sync := p.millis("zookeeper.sync.time.ms", 2*time.Second)
	s := Settings{
		Connect:            p.text("zookeeper.connect", ""),
		SessionTimeout:     p.millis("zookeeper.session.timeout.ms", 6*time.Second),
		Group:              p.text("group.id", ""),
		ConsumerID:         p.text("consumer.id", ""),
		AutoCommit:         p.yes("auto.commit.enable", true),
		AutoCommitInterval: p.millis("auto.commit.interval.ms", time.Minute),
		CommitRetries:      p.number("offsets.commit.max.retries", 5),
		CommitBackoff:      p.millis("offsets.channel.backoff.ms", time.Second),
		RebalanceRetries:   p.number("rebalance.max.retries", 4),
		RebalanceBackoff:   p.millis("rebalance.backoff.ms", sync),
		IncludeInternal:    !p.yes("exclude.internal.topics", true),
		FetchMinBytes:      int32(p.number("fetch.min.bytes", 1)),
		FetchMaxWait:       p.millis("fetch.wait.max.ms", 500*time.Millisecond),
		FetchMessageMax:    int32(p.number("fetch.message.max.bytes", 1<<20)),
		RequestTimeout:     p.millis("socket.timeout.ms", 30*time.Second),
		RefreshLeader:      p.millis("refresh.leader.backoff.ms", 200*time.Millisecond),
		IdleTimeout:        time.Duration(p.number("consumer.timeout.ms", -1)) * time.Millisecond,
		KafkaOffsets:       p.oneOf("offsets.storage", "zookeeper", "kafka") == "kafka",
		RoundRobin:         p.oneOf("partition.assignment.strategy", "range", "roundrobin") == "roundrobin",
	}
	s.ConnectionTimeout = p.millis("zookeeper.connection.timeout.ms", s.SessionTimeout)
	s.ClientID = p.text("client.id", s.Group)
	s.DualCommit = p.yes("dual.commit.enabled", s.KafkaOffsets)
	reset := p.oneOf("auto.offset.reset", "largest", "smallest", "latest", "earliest")
	s.FromSmallest = reset == "smallest" || reset == "earliest"
	switch {
	case p.err != nil:
		return s, p.err
	case s.Connect == "":
		return s, fmt.Errorf("zookeeper.connect is missing: where ZooKeeper is, as host:port")
	case !legalID.MatchString(s.Group):
		return s, fmt.Errorf("group.id=%s: want letters, digits, '.', '_' and '-'", s.Group)
	}
	for _, key := range idle {
		delete(p.left, key)
	}
	s.NotHere = slices.Sorted(maps.Keys(p.left))
	return s, nil
}

var legalID = regexp.MustCompile(`^[a-zA-Z0-9._-]+$`) // kafka.common.Config.validateChars

// parser takes keys out of a set and remembers the first that is wrong.
type parser struct {
	values, left map[string]string
	err          error
}

func (p *parser) text(key, fallback string) string {
	delete(p.left, key)
	if v, ok := p.values[key]; ok {
		return strings.TrimSpace(v)
	}
	return fallback
}

func (p *parser) wrong(key, want string) {
	if p.err == nil {
		p.err = fmt.Errorf("%s=%s: want %s", key, p.values[key], want)
	}
}

func (p *parser) number(key string, fallback int) int {
	v := p.text(key, strconv.Itoa(fallback))
	n, err := strconv.ParseInt(v, 10, 32)
	if err != nil {
		p.wrong(key, "a whole number")
	}
	return int(n)
}

func (p *parser) millis(key string, fallback time.Duration) time.Duration {
	n := p.number(key, int(fallback/time.Millisecond))
	if n < 0 {
		p.wrong(key, "milliseconds")
	}
	return time.Duration(n) * time.Millisecond
}

func (p *parser) yes(key string, fallback bool) bool {
	v, err := strconv.ParseBool(p.text(key, strconv.FormatBool(fallback)))
	if err != nil {
		p.wrong(key, "true or false")
	}
	return v
}

// oneOf is a key with one of some values, of which the first is the default.
func (p *parser) oneOf(key string, choices ...string) string {
	v := strings.ToLower(p.text(key, choices[0]))
	if !slices.Contains(choices, v) {
		p.wrong(key, strings.Join(choices[:len(choices)-1], ", ")+" or "+choices[len(choices)-1])
	}
	return v
}
