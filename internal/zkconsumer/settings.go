package zkconsumer

import (
	"context"
	"fmt"
	"log/slog"
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

// Key is a key of the consumer's configuration (kafka.consumer.ConsumerConfig).
type Key struct {
	Name, Default string
	Idle          bool // Kafka's consumer obeys it; here there is nothing to set
	Text          string
}

// keys are all of them. Defaults are Kafka's, but for fetch.wait.max.ms, which is that of today's consumer.
var keys = []Key{
	{"zookeeper.connect", "", false, "Where ZooKeeper is: host:port separated by commas, and a chroot behind them if there is one. --zookeeper counts more."},
	{"zookeeper.session.timeout.ms", "6000", false, "A member that ZooKeeper has not heard of for so long loses its partitions."},
	{"zookeeper.connection.timeout.ms", "", false, "How long the first connection may take; zookeeper.session.timeout.ms unless set."},
	{"zookeeper.sync.time.ms", "2000", false, "What rebalance.backoff.ms is unless set."},
	{"group.id", "", false, "The group that shares partitions and keeps offsets."},
	{"consumer.id", "", false, "The member's name in the group; made of host and time unless set."},
	{"client.id", "", false, "A name for this client in the logs and metrics of brokers; group.id unless set."},
	{"auto.commit.enable", "true", false, "Store offsets now and then, and when partitions are given up."},
	{"auto.commit.interval.ms", "60000", false, "How often."},
	{"offsets.storage", "zookeeper", false, "Where offsets are stored: zookeeper, or kafka for the group's coordinator."},
	{"dual.commit.enabled", "", false, "Store them in ZooKeeper, too; true with offsets.storage=kafka unless set."},
	{"offsets.commit.max.retries", "5", false, "How often a commit that fails is tried again."},
	{"offsets.channel.backoff.ms", "1000", false, "Pause before that."},
	{"auto.offset.reset", "largest", false, "Where to begin without a stored offset: smallest or largest; earliest and latest are the same."},
	{"rebalance.max.retries", "4", false, "How often a member tries to get its partitions."},
	{"rebalance.backoff.ms", "", false, "Pause between two tries; zookeeper.sync.time.ms unless set."},
	{"partition.assignment.strategy", "range", false, "How partitions are shared: range or roundrobin, the same for all members."},
	{"exclude.internal.topics", "true", false, "Leave topics such as __consumer_offsets out of patterns."},
	{"consumer.timeout.ms", "-1", false, "Stop when no record came for so long; -1 never."},
	{"fetch.min.bytes", "1", false, "A broker waits until it has so many bytes to give."},
	{"fetch.wait.max.ms", "500", false, "A broker waits no longer than this until it has fetch.min.bytes."},
	{"fetch.message.max.bytes", "1048576", false, "The most of one partition in an answer; a larger batch comes alone."},
	{"socket.timeout.ms", "30000", false, "How long to wait for a broker's answer."},
	{"refresh.leader.backoff.ms", "200", false, "Pause before a missing leader is looked for again."},
	{"fetch.max.bytes", "52428800", true, "The largest answer to a fetch."},
	{"socket.receive.buffer.bytes", "65536", true, "Receive buffer of a connection."},
	{"num.consumer.fetchers", "1", true, "Threads that fetch."},
	{"queued.max.message.chunks", "2", true, "Answers that are kept in memory."},
	{"offsets.channel.socket.timeout.ms", "10000", true, "How long to wait for a coordinator's answer."},
}

// Keys are all keys of the consumer, in an order to read.
func Keys() []Key { return slices.Clone(keys) }

// Parse reads a consumer's properties. zookeeper.connect and group.id have to be there.
func Parse(values map[string]string) (Settings, error) {
	p := parser{values: values}
	sync := p.millis("zookeeper.sync.time.ms", 0)
	s := Settings{
		Connect:            p.text("zookeeper.connect"),
		SessionTimeout:     p.millis("zookeeper.session.timeout.ms", 0),
		Group:              p.text("group.id"),
		ConsumerID:         p.text("consumer.id"),
		ClientID:           p.text("client.id"),
		AutoCommit:         p.yes("auto.commit.enable", false),
		AutoCommitInterval: p.millis("auto.commit.interval.ms", 0),
		CommitRetries:      p.number("offsets.commit.max.retries"),
		CommitBackoff:      p.millis("offsets.channel.backoff.ms", 0),
		RebalanceRetries:   p.number("rebalance.max.retries"),
		RebalanceBackoff:   p.millis("rebalance.backoff.ms", sync),
		IncludeInternal:    !p.yes("exclude.internal.topics", false),
		FetchMinBytes:      int32(p.number("fetch.min.bytes")),
		FetchMaxWait:       p.millis("fetch.wait.max.ms", 0),
		FetchMessageMax:    int32(p.number("fetch.message.max.bytes")),
		RequestTimeout:     p.millis("socket.timeout.ms", 0),
		RefreshLeader:      p.millis("refresh.leader.backoff.ms", 0),
		IdleTimeout:        time.Duration(p.number("consumer.timeout.ms")) * time.Millisecond,
		KafkaOffsets:       p.oneOf("offsets.storage", "zookeeper", "kafka") == "kafka",
		RoundRobin:         p.oneOf("partition.assignment.strategy", "range", "roundrobin") == "roundrobin",
	}
	s.ConnectionTimeout = p.millis("zookeeper.connection.timeout.ms", s.SessionTimeout)
	s.DualCommit = p.yes("dual.commit.enabled", s.KafkaOffsets)
	if s.ClientID == "" {
		s.ClientID = s.Group
	}
	reset := p.oneOf("auto.offset.reset", "smallest", "largest", "earliest", "latest")
	s.FromSmallest = reset == "smallest" || reset == "earliest"
	switch {
	case p.err != nil:
		return s, p.err
	case s.Connect == "":
		return s, fmt.Errorf("zookeeper.connect is missing: where ZooKeeper is, as host:port")
	case !legalID.MatchString(s.Group):
		return s, fmt.Errorf("group.id=%s: want letters, digits, '.', '_' and '-'", s.Group)
	}
	for key := range values {
		if !slices.ContainsFunc(keys, func(k Key) bool { return k.Name == key }) {
			s.NotHere = append(s.NotHere, key)
		}
	}
	slices.Sort(s.NotHere)
	return s, nil
}

var legalID = regexp.MustCompile(`^[a-zA-Z0-9._-]+$`) // kafka.common.Config.validateChars

// parser reads keys of a set and remembers the first that is wrong.
type parser struct {
	values map[string]string
	err    error
}

// text is a key's value, or its default.
func (p *parser) text(key string) string {
	if v, ok := p.values[key]; ok {
		return strings.TrimSpace(v)
	}
	return keys[slices.IndexFunc(keys, func(k Key) bool { return k.Name == key })].Default
}

func (p *parser) wrong(key, want string) {
	if p.err == nil {
		p.err = fmt.Errorf("%s=%s: want %s", key, p.values[key], want)
	}
}

func (p *parser) number(key string) int {
	n, err := strconv.ParseInt(p.text(key), 10, 32)
	if err != nil {
		p.wrong(key, "a whole number")
	}
	return int(n)
}

// millis is a key as a duration. One without a default is otherwise unless set.
func (p *parser) millis(key string, otherwise time.Duration) time.Duration {
	if p.text(key) == "" {
		return otherwise
	}
	n := p.number(key)
	if n < 0 {
		p.wrong(key, "milliseconds")
	}
	return time.Duration(n) * time.Millisecond
}

func (p *parser) yes(key string, otherwise bool) bool {
	text := p.text(key)
	if text == "" {
		return otherwise
	}
	v, err := strconv.ParseBool(text)
	if err != nil {
		p.wrong(key, "true or false")
	}
	return v
}

func (p *parser) oneOf(key string, choices ...string) string {
	v := strings.ToLower(p.text(key))
	if !slices.Contains(choices, v) {
		p.wrong(key, strings.Join(choices[:len(choices)-1], ", ")+" or "+choices[len(choices)-1])
	}
	return v
}
