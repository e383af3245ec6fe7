package config

import (
	"math"
	"slices"
	"strings"

	"moldau/internal/kafka"
)

// assemble fills the typed struct and checks what only several keys together can tell.
func (l *loader) assemble() Node {
	quorum := l.quorum()
	z := l.ensemble(quorum)
	if len(quorum.Voters) == 0 && len(quorum.Bootstrap) == 0 {
		quorum.Bootstrap = l.formWith(z)
	}
	n := Node{
		Quorum:    quorum,
		Rack:      l.text("broker.rack"),
		ClusterID: l.text("cluster.id"),
		Log:       Logging{Format: l.text("log.format"), Level: l.text("log.level")},
		Requests: Requests{
			FetchMaxBytes:      l.int32("fetch.max.bytes"),
			FetchSessionSlots:  l.int32("max.incremental.fetch.session.cache.slots"),
			MaxPartitions:      l.int32("max.request.partition.size.limit"),
			TelemetryMaxBytes:  l.int32("telemetry.max.bytes"),
			FullValidation:     l.text("record.validation") == "full",
			UnstableVersions:   l.bool("unstable.api.versions.enable"),
			DeleteTopicEnabled: l.bool("delete.topic.enable"),
		},
		Session: Session{
			HeartbeatMs:                  l.int32("broker.heartbeat.interval.ms"),
			TimeoutMs:                    l.int32("broker.session.timeout.ms"),
			InitialRegistrationTimeoutMs: l.int32("initial.broker.registration.timeout.ms"),
			ControlledShutdown:           l.bool("controlled.shutdown.enable"),
		},
		Replicas: Replication{
			LagMaxMs:         l.int64("replica.lag.time.max.ms"),
			Fetchers:         l.int32("num.replica.fetchers"),
			FetchMaxBytes:    l.int32("replica.fetch.max.bytes"),
			ResponseMaxBytes: l.int32("replica.fetch.response.max.bytes"),
			MinBytes:         l.int32("replica.fetch.min.bytes"),
			WaitMaxMs:        l.int32("replica.fetch.wait.max.ms"),
			BackoffMs:        l.int32("replica.fetch.backoff.ms"),
			SocketTimeoutMs:  l.int32("replica.socket.timeout.ms"),
			Selector:         l.text("replica.selector.class"),
		},
		Throttles: Throttles{
			LeaderRate:   l.int64("leader.replication.throttled.rate"),
			DirsRate:     l.int64("replica.alter.log.dirs.io.max.bytes.per.second"),
			FollowerRate: l.int64("follower.replication.throttled.rate"),
		},
		Balance: Balance{
			Auto:         l.bool("auto.leader.rebalance.enable"),
			CheckSeconds: l.int64("leader.imbalance.check.interval.seconds"),
			UncleanMs:    l.int64("unclean.leader.election.interval.ms"),
		},
		Topics: Topics{
			AutoCreate:        l.bool("auto.create.topics.enable"),
			Partitions:        l.int32("num.partitions"),
			ReplicationFactor: l.replicationFactor(),
		},
		Producers: Producers{ExpiryMs: l.int32("producer.id.expiration.ms"), ExpiryCheckMs: l.int32("producer.id.expiration.check.interval.ms")},
		Retention: Retention{CheckMs: l.int64("log.retention.check.interval.ms")},
		Cleaner:   l.cleaner(),
		Scrub:     Scrub{BytesPerSecond: l.int64("log.scrub.bytes.per.second"), IntervalMs: l.int64("log.scrub.interval.ms")},
		Groups: Groups{
			Partitions:        l.int32("offsets.topic.num.partitions"),
			ReplicationFactor: int16(l.int32("offsets.topic.replication.factor")),
			SegmentBytes:      l.int32("offsets.topic.segment.bytes"),
			Codec:             l.int32("offsets.topic.compression.codec"),
			LoadBytes:         l.int32("offsets.load.buffer.size"),
			CommitTimeoutMs:   l.int32("offsets.commit.timeout.ms"),
			RetentionMs:       int64(l.int32("offsets.retention.minutes")) * 60_000,
			RetentionCheckMs:  l.int64("offsets.retention.check.interval.ms"),
			MetadataMaxBytes:  l.int32("offset.metadata.max.bytes"),
			MinSessionMs:      l.int32("group.min.session.timeout.ms"),
			MaxSessionMs:      l.int32("group.max.session.timeout.ms"),
			InitialDelayMs:    l.int32("group.initial.rebalance.delay.ms"),
			MaxSize:           l.int32("group.max.size"),
		},
	}
	if l.given("num.partitions") {
		n.Topics.AutoPartitions = n.Topics.Partitions
	}
	if l.given("default.replication.factor") {
		n.Topics.AutoReplicationFactor = n.Topics.ReplicationFactor
	}
	if n.Groups.Codec < 0 || n.Groups.Codec > 4 {
		l.fault("offsets.topic.compression.codec", "want 0 none, 1 gzip, 2 snappy, 3 lz4 or 4 zstd")
	}
	n.ID, n.MadeUpID = l.nodeID(z)
	n.Roles = l.roles(n)
	if n.ID == kafka.NoNode {
		n.LeastID = l.leastID(z, n.Roles)
	}
	n.Network = l.network(n, z)
	n.ZooKeeper = l.zookeeper(z, n.Network)
	n.HTTP = l.http()
	n.Storage = l.storage()
	if n.Session.HeartbeatMs < 1 || n.Session.HeartbeatMs >= n.Session.TimeoutMs {
		l.fault("broker.heartbeat.interval.ms", "want from 1 to less than broker.session.timeout.ms, which is %d", n.Session.TimeoutMs)
	}
	l.retention()
	return n
}

// nodeID mirrors KafkaConfig.populateSynonyms: either key sets the other. A file with zookeeper.connect needs neither.
func (l *loader) nodeID(z ensemble) (id kafka.NodeID, madeUp bool) {
	node, broker := l.int32("node.id"), l.int32("broker.id")
	switch {
	case l.given("broker.id") && broker < -1:
		l.fault("broker.id", "want 0 or more; -1, with zookeeper.connect, lets the node's place there decide")
	case l.given("node.id") && l.given("broker.id") && node != broker && (broker >= 0 || len(z.hosts) == 0):
		l.fault("broker.id", "is not the same as node.id, which is %d; take broker.id out", node)
	case l.given("node.id"):
		return node, false
	case broker >= 0:
		return broker, false
	case z.self >= 0:
		return l.madeUpID(z), true
	case len(z.hosts) > 0:
		return kafka.NoNode, true
	case l.given("broker.id"):
		l.fault("broker.id", "want 0 or more: without zookeeper.connect ids are given, never made up")
	}
	return node, false
}

func (l *loader) replicationFactor() int16 {
	n := l.int32("default.replication.factor")
	if n < 1 || n > math.MaxInt16 {
		l.fault("default.replication.factor", "want from 1 to %d", math.MaxInt16)
	}
	return int16(n)
}

func (l *loader) storage() Storage {
	key := "log.dirs"
	if !l.given(key) {
		key = "log.dir"
	}
	dirs := l.list(key)
	for i, dir := range dirs {
		if dir == "" || slices.Contains(dirs[:i], dir) {
			l.fault(key, "want paths of folders, each once")
			break
		}
	}
	if len(dirs) == 0 {
		l.fault(key, "want at least one folder")
		return Storage{}
	}
	s := Storage{
		Dirs:                  dirs,
		MetadataDir:           l.text("metadata.log.dir"),
		RecoveryThreads:       l.int32("num.recovery.threads.per.data.dir"),
		MoveThreads:           l.int32("num.replica.alter.log.dirs.threads"),
		FlushBeforeAck:        l.bool("log.flush.before.ack"),
		CheckpointMs:          l.int32("log.flush.offset.checkpoint.interval.ms"),
		StartCheckpointMs:     l.int32("log.flush.start.offset.checkpoint.interval.ms"),
		WatermarkCheckpointMs: l.int64("replica.high.watermark.checkpoint.interval.ms"),
		InitialDelayMs:        l.int64("log.initial.task.delay.ms"),
	}
	if s.MetadataDir == "" {
		s.MetadataDir = dirs[0]
	}
	return s
}

// roles reads process.roles. A node that is not among the voters listed, and says nothing of its roles, is a broker.
func (l *loader) roles(n Node) Roles {
	listed := slices.ContainsFunc(n.Quorum.Voters, func(v Voter) bool { return v.ID == n.ID })
	roles := Roles{Broker: slices.Contains(l.list("process.roles"), "broker"), Controller: slices.Contains(l.list("process.roles"), "controller")}
	switch {
	case len(n.Quorum.Voters) > 0 && !listed && !l.given("process.roles"):
		roles.Controller = false
	case len(n.Quorum.Voters) > 0 && !listed && roles.Controller:
		l.fault("controller.quorum.voters", "this node is a controller, so its node.id %d must be among them; or set process.roles=broker", n.ID)
	case !roles.Controller && len(n.Quorum.Voters) == 0 && len(n.Quorum.Bootstrap) == 0:
		l.fault("process.roles", "a node that is no controller has to be told where they are: set controller.quorum.bootstrap.servers")
	}
	return roles
}

func (l *loader) quorum() Quorum {
	q := Quorum{
		Voters:                l.voters(),
		Bootstrap:             l.bootstrap(),
		ElectionTimeoutMs:     l.int32("controller.quorum.election.timeout.ms"),
		FetchTimeoutMs:        l.int32("controller.quorum.fetch.timeout.ms"),
		RequestTimeoutMs:      l.int32("controller.quorum.request.timeout.ms"),
		RetryBackoffMs:        l.int32("controller.quorum.retry.backoff.ms"),
		AutoJoin:              l.bool("controller.quorum.auto.join.enable"),
		FetchMaxBytes:         l.int32("controller.quorum.fetch.max.bytes"),
		FetchSnapshotMaxBytes: l.int32("controller.quorum.fetch.snapshot.max.bytes"),
		SegmentBytes:          l.int32("metadata.log.segment.bytes"),
		SegmentMs:             l.int64("metadata.log.segment.ms"),
		RetentionBytes:        l.int64("metadata.max.retention.bytes"),
		RetentionMs:           l.int64("metadata.max.retention.ms"),
		SnapshotMaxNewBytes:   l.int64("metadata.log.max.record.bytes.between.snapshots"),
		SnapshotMaxIntervalMs: l.int64("metadata.log.max.snapshot.interval.ms"),
		MaxIdleMs:             l.int32("metadata.max.idle.interval.ms"),
	}
	if l.given("internal.metadata.log.segment.bytes") {
		q.SegmentBytes = l.int32("internal.metadata.log.segment.bytes")
	}
	return q
}

func (l *loader) voters() []Voter {
	var voters []Voter
	for _, element := range l.list("controller.quorum.voters") {
		id, rest, ok := strings.Cut(element, "@")
		address, good := parseAddress(rest)
		if !ok || !isNumber(id) || !good || address.Host == "" {
			l.fault("controller.quorum.voters", "want id@host:port, several separated by commas")
			return nil
		}
		voter := Voter{kafka.NodeID(number(id)), address}
		if slices.ContainsFunc(voters, func(v Voter) bool { return v.ID == voter.ID }) {
			l.fault("controller.quorum.voters", "names node %d twice", voter.ID)
			return nil
		}
		voters = append(voters, voter)
	}
	return voters
}

func (l *loader) bootstrap() []Address {
	var addresses []Address
	for _, element := range l.list("controller.quorum.bootstrap.servers") {
		address, ok := parseAddress(element)
		if !ok || address.Host == "" {
			l.fault("controller.quorum.bootstrap.servers", "want host:port, several separated by commas")
			return nil
		}
		addresses = append(addresses, address)
	}
	return addresses
}

func (l *loader) cleaner() Cleaner {
	c := Cleaner{
		Threads: l.int32("log.cleaner.threads"), MapBytes: l.int64("log.cleaner.dedupe.buffer.size"),
		MapLoad: l.get("log.cleaner.io.buffer.load.factor").double, BufferBytes: l.int32("log.cleaner.io.buffer.size"),
		BytesPerSecond: l.get("log.cleaner.io.max.bytes.per.second").double, BackoffMs: l.int64("log.cleaner.backoff.ms"),
	}
	if !l.bool("log.cleaner.enable") {
		c.Threads = 0
	}
	if c.MapLoad <= 0 || c.MapLoad > 1 {
		l.fault("log.cleaner.io.buffer.load.factor", "want more than 0 and at most 1")
	}
	if c.BytesPerSecond <= 0 {
		l.fault("log.cleaner.io.max.bytes.per.second", "want more than 0")
	}
	// Mirrors LogCleaner.validateReconfiguration.
	if least := int64(1<<20) * int64(max(1, c.Threads)); c.MapBytes < least {
		l.fault("log.cleaner.dedupe.buffer.size", "want at least 1 MiB per thread of log.cleaner.threads, so %d", least)
	}
	return c
}

// retention mirrors the checks of KafkaConfig.validateValues on the keys from which topics take their defaults.
func (l *loader) retention() {
	for _, key := range []string{"log.retention.ms", "log.retention.minutes", "log.retention.hours"} {
		if l.given(key) && l.int64(key) == 0 {
			l.fault(key, "want 1 or more, or -1 for ever")
		}
	}
	for _, key := range []string{"log.roll.ms"} {
		if l.given(key) && l.int64(key) < 1 {
			l.fault(key, "want 1 or more")
		}
	}
	if l.given("log.roll.jitter.ms") && l.int64("log.roll.jitter.ms") < 0 {
		l.fault("log.roll.jitter.ms", "want 0 or more")
	}
	if low, high := l.int64("log.cleaner.min.compaction.lag.ms"), l.int64("log.cleaner.max.compaction.lag.ms"); low > high {
		l.fault("log.cleaner.min.compaction.lag.ms", "want at most log.cleaner.max.compaction.lag.ms, which is %d", high)
	}
}
