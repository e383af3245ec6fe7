package node

import (
	"context"
	"math"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/api"
	"moldau/internal/batch"
	"moldau/internal/commitlog"
	"moldau/internal/config"
	"moldau/internal/controller"
	"moldau/internal/fetcher"
	"moldau/internal/group"
	"moldau/internal/invariant"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/quota"
	"moldau/internal/server"
	"moldau/internal/storage"
	"moldau/internal/uplink"
	"moldau/internal/znode"
)

func milliseconds[N int32 | int64](ms N) time.Duration { return time.Duration(ms) * time.Millisecond }

func (n *Node) limits() server.Limits {
	return server.Limits{
		RequestMaxBytes: int(n.cfg.Network.RequestMaxBytes),
		Connections:     connectionLimits(n.cfg.Network),
		Idle:            milliseconds(n.cfg.Network.IdleMs),
	}
}

func connectionLimits(net config.Network) server.ConnectionLimits {
	unlimited := func(v int32) int {
		if v == math.MaxInt32 {
			return 0
		}
		return int(v)
	}
	limits := server.ConnectionLimits{
		Max: unlimited(net.MaxConnections), PerSecond: unlimited(net.ConnectionRate), PerIP: unlimited(net.MaxConnectionsByIP),
		PerIPOverrides: make(map[string]int, len(net.IPOverrides)), Own: make(map[string]server.OwnLimits, len(net.Own)),
	}
	for ip, limit := range net.IPOverrides {
		limits.PerIPOverrides[ip] = int(limit)
	}
	for name, own := range net.Own {
		limits.Own[name] = server.OwnLimits{Max: unlimited(own.Max), PerSecond: unlimited(own.Rate)}
	}
	return limits
}

func (n *Node) controllerConfig(first []metadata.FeatureLevelRecord) controller.Config {
	defaults := n.topicConfig("", nil)
	c := controller.Config{
		NumPartitions:            n.cfg.Topics.Partitions,
		DefaultReplicationFactor: n.cfg.Topics.ReplicationFactor,
		MinInsyncReplicas:        defaults.MinInSyncReplicas,
		UncleanLeaderElection:    defaults.UncleanLeaderElection,
		SessionTimeoutMs:         int64(n.cfg.Session.TimeoutMs),
		ReviveIntervalMs:         n.cfg.Balance.UncleanMs,
		TopicDeletionDisabled:    !n.cfg.Requests.DeleteTopicEnabled,
		InternalFactors:          map[string]int16{group.Topic: n.cfg.Groups.ReplicationFactor, znode.Topic: n.cfg.Groups.ReplicationFactor},
		InitialFeatures:          first,
	}
	for _, f := range first {
		if f.Name == metadata.FeatureMetadataVersion {
			c.InitialMetadataVersion = f.FeatureLevel
		}
	}
	if n.cfg.Balance.Auto {
		c.BalanceIntervalMs = n.cfg.Balance.CheckSeconds * 1000
	}
	return c
}

func cleanerOptions(c config.Cleaner) storage.CleanerOptions {
	return storage.CleanerOptions{
		Threads: int(c.Threads), MapBytes: c.MapBytes, MapLoad: c.MapLoad,
		BufferBytes: int(c.BufferBytes), BytesPerSecond: c.BytesPerSecond, Backoff: milliseconds(max(1, c.BackoffMs)),
	}
}

// fetcherOptions is what following takes.
func (n *Node) fetcherOptions() fetcher.Options {
	r := n.cfg.Replicas
	return fetcher.Options{
		NodeID: n.cfg.ID, BrokerEpoch: n.uplink.Epoch, Replicas: n.replicas, Dial: n.o.Dial, Address: n.brokerAddress,
		Shards: int(r.Fetchers), PartitionBytes: r.FetchMaxBytes, ResponseBytes: r.ResponseMaxBytes, MinBytes: r.MinBytes,
		MaxWait: milliseconds(r.WaitMaxMs), Backoff: milliseconds(r.BackoffMs), Timeout: milliseconds(r.SocketTimeoutMs),
		Throttle: n.throttles.Follower, Logger: n.o.Logger, Metrics: n.metrics,
	}
}

func throttleRates(cfg config.Node) quota.Rates {
	return quota.Rates{Leader: cfg.Throttles.LeaderRate, Follower: cfg.Throttles.FollowerRate, Dirs: cfg.Throttles.DirsRate}
}

func (n *Node) linkOptions() uplink.LinkOptions {
	o := uplink.LinkOptions{NodeID: n.cfg.ID, Where: n.active, Dial: n.o.Dial}
	if n.controller != nil {
		o.Local = func(ctx context.Context, req kmsg.Request, client uplink.Client) (kmsg.Response, error) {
			return n.local(ctx, req, client.Principal, client.ID)
		}
	}
	return o
}

func (n *Node) uplinkOptions(clusterID string) uplink.Options {
	var racked *string
	if n.cfg.Rack != "" {
		racked = &n.cfg.Rack
	}
	o := uplink.Options{
		Rack:   racked,
		NodeID: n.cfg.ID, ClusterID: clusterID, PreviousEpoch: n.store.PreviousBrokerEpoch(),
		Call: n.beats.Call, Admin: n.admin.Call,
		Features:       Features(),
		Caught:         func() int64 { return n.loader.Image().Offset },
		Levels:         func() metadata.Features { return n.loader.Image().Features },
		OnEpoch:        n.registered,
		AutoPartitions: n.cfg.Topics.AutoPartitions, AutoReplicationFactor: n.cfg.Topics.AutoReplicationFactor,
		Offline: func() []kafka.DirID {
			var out []kafka.DirID
			for _, d := range n.store.Directories() {
				if !d.Online() {
					out = append(out, d.ID())
				}
			}
			return out
		},
		Heartbeat: milliseconds(n.cfg.Session.HeartbeatMs),
		Timeout:   milliseconds(n.cfg.Network.RequestTimeoutMs),
		Logger:    n.o.Logger,
	}
	for _, d := range n.store.Directories() {
		if d.Online() {
			o.Dirs = append(o.Dirs, d.ID())
		}
	}
	for _, l := range n.listeners {
		if l.purpose == forKafka && !l.Controller {
			o.Listeners = append(o.Listeners, uplink.Listener{Name: l.Name, Host: l.Advertised.Host, Port: uint16(l.Advertised.Port), Protocol: int16(l.Protocol)})
		}
	}
	return o
}

func (n *Node) apiOptions(clusterID string) api.Options {
	var leaderThrottle *quota.Throttle
	if n.throttles != nil {
		leaderThrottle = n.throttles.Leader
	}
	var disconnected func(kafka.NodeID, int64)
	if n.controller != nil {
		disconnected = n.controller.Disconnected
	}
	owners := api.Owners{
		Image: n.loader.Image, Replicas: n.replicas, Groups: n.groups, Store: n.store, Uplink: n.uplink, Local: n.local, Disconnected: disconnected,
		Quorum: n.quorum, Config: n.settings.now.Load, Telemetry: n.telemetry, LogLevel: n.o.LogLevel,
	}
	if n.controller != nil {
		owners.NextNodeID = n.controller.NextNodeID
	}
	if n.zookeeper != nil {
		owners.Passed, owners.TreeOffsets, owners.PassedOffsets = n.zookeeper.Passed, n.zookeeper.Offsets, n.zookeeper.PassedOffsets
	}
	return api.Options{
		Owners: owners,
		NodeID: n.cfg.ID, ClusterID: clusterID, Features: Features(),
		Offsets:           n.cfg.Groups,
		AutoCreateTopics:  n.cfg.Topics.AutoCreate,
		FetchMaxBytes:     int(n.cfg.Requests.FetchMaxBytes),
		FetchSessionSlots: int(n.cfg.Requests.FetchSessionSlots),
		LeaderThrottle:    leaderThrottle,
		NearestReplica:    strings.HasSuffix(n.cfg.Replicas.Selector, ".RackAwareReplicaSelector"),
		MaxPartitions:     int(n.cfg.Requests.MaxPartitions),
		FullValidation:    n.cfg.Requests.FullValidation,
		RequestTimeout:    milliseconds(n.cfg.Network.RequestTimeoutMs),
		Now:               n.o.Now, Logger: n.o.Logger, Metrics: n.metrics,
	}
}

// topicConfig is a topic's configuration. Every value in the metadata log has passed the controller's checks; should an
// other version of the program have let one through that this one does not know, the topic gets the node's defaults
// and the log says so, rather than a partition that cannot be opened.
func (n *Node) topicConfig(topic string, overrides map[string]string) config.Topic {
	current := n.settings.now.Load()
	t, err := current.Topic(overrides)
	if err == nil {
		return t
	}
	n.o.Logger.Error("settings of a topic in the metadata log are wrong; using this node's defaults", "topic", topic, "error", err)
	t, err = current.Topic(nil)
	invariant.Check(err == nil, "the defaults of a checked configuration are wrong: %v", err)
	return t
}

// logConfig is what a log obeys of a topic's configuration.
func logConfig(t config.Topic) commitlog.Config {
	return commitlog.Config{
		SegmentBytes:           int(t.SegmentBytes),
		SegmentMs:              t.SegmentMs,
		SegmentJitterMs:        t.SegmentJitterMs,
		IndexIntervalBytes:     int(t.IndexIntervalBytes),
		MaxIndexBytes:          int(t.SegmentIndexBytes),
		RetentionMs:            t.RetentionMs,
		RetentionBytes:         t.RetentionBytes,
		FileDeleteDelayMs:      t.FileDeleteDelayMs,
		MaxMessageBytes:        int(t.MaxMessageBytes),
		MaxRecordBytes:         maxRecordBytes(t),
		TimestampTypeAppend:    t.LogAppendTime,
		Compression:            compression(t),
		BeforeMaxMs:            t.TimestampBeforeMaxMs,
		AfterMaxMs:             t.TimestampAfterMaxMs,
		Compact:                t.Compact,
		Delete:                 t.Delete,
		Preallocate:            t.Preallocate,
		DeleteRetentionMs:      t.DeleteRetentionMs,
		MinCompactionLagMs:     t.MinCompactionLagMs,
		MaxCompactionLagMs:     t.MaxCompactionLagMs,
		MinCleanableDirtyRatio: t.MinCleanableDirtyRatio,
		FlushMessages:          limited(t.FlushMessages),
		FlushMs:                limited(max(t.FlushMs, 1)),
	}
}

func maxRecordBytes(t config.Topic) int {
	if t.MaxDecompressedMessageBytes == config.NoRecordLimit {
		return 0 // and batches need not be opened for it
	}
	return int(t.MaxDecompressedMessageBytes)
}

// compression is how a topic stores batches.
func compression(t config.Topic) batch.Compression {
	switch t.CompressionType {
	case "uncompressed":
		return batch.Compression{Imposed: true}
	case "gzip":
		return batch.Compression{Imposed: true, Codec: batch.Gzip, Level: int(t.GzipLevel)}
	case "snappy":
		return batch.Compression{Imposed: true, Codec: batch.Snappy}
	case "lz4":
		return batch.Compression{Imposed: true, Codec: batch.LZ4, Level: int(t.LZ4Level)}
	case "zstd":
		return batch.Compression{Imposed: true, Codec: batch.Zstd, Level: int(t.ZstdLevel)}
	}
	return batch.Compression{} // as the producer sent them
}

// limited is 0 for a limit that is none.
func limited(n int64) int64 {
	if n == math.MaxInt64 {
		return 0
	}
	return n
}
