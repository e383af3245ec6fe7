package config

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// NoRecordLimit is the largest value of max.decompressed.message.bytes, its default, and no limit.
const NoRecordLimit = math.MaxInt32 - 8

// Topic is the configuration of one topic: the node's defaults with the topic's own settings on top.
type Topic struct {
	SegmentBytes       int32
	SegmentMs          int64
	SegmentJitterMs    int64 // at most SegmentMs
	SegmentIndexBytes  int32
	IndexIntervalBytes int32
	Preallocate        bool

	RetentionMs       int64 // -1 = for ever
	RetentionBytes    int64 // -1 = no limit
	FileDeleteDelayMs int64

	FlushMessages int64 // records that may wait for a sync; math.MaxInt64 = any number
	FlushMs       int64 // how long they may; math.MaxInt64 = any time

	MaxMessageBytes             int32
	MaxDecompressedMessageBytes int32 // of a record; NoRecordLimit = any
	LogAppendTime               bool  // message.timestamp.type=LogAppendTime
	TimestampBeforeMaxMs        int64 // math.MaxInt64 = any
	TimestampAfterMaxMs         int64 // math.MaxInt64 = any

	CompressionType                string // compression.type, by Kafka's names
	GzipLevel, LZ4Level, ZstdLevel int32

	Compact, Delete        bool // cleanup.policy; both may be set, or neither: keep everything
	DeleteRetentionMs      int64
	MinCompactionLagMs     int64
	MaxCompactionLagMs     int64
	MinCleanableDirtyRatio float64

	MinInSyncReplicas     int32
	UncleanLeaderElection bool

	ThrottledLeaders, ThrottledFollowers []string // partition:broker pairs, or "*" alone for all
}

// CheckTopic tells what is wrong with a topic's settings of its own, also what no setting shows by itself; nil if they
// may be set.
func (c *Config) CheckTopic(overrides map[string]string) error {
	if _, err := c.Topic(overrides); err != nil {
		return err
	}
	low, high := c.valueOver(topicByName["min.compaction.lag.ms"], overrides).number, c.valueOver(topicByName["max.compaction.lag.ms"], overrides).number
	if low > high {
		return fmt.Errorf("min.compaction.lag.ms is %d, which is more than max.compaction.lag.ms, %d", low, high)
	}
	return nil
}

// checkTopic tells what is wrong with one setting of a topic, if anything: the name, or the value for that name.
func checkTopic(name, raw string) error {
	row, ok := topicByName[name]
	if !ok {
		if near, found := nearestTopic(name); found {
			return fmt.Errorf("%s is not a setting of topics; did you mean %s?", name, near)
		}
		return fmt.Errorf("%s is not a setting of topics", name)
	}
	if _, want := row.parse(raw); want != "" {
		return fmt.Errorf("%s=%s: want %s", name, shown(row.Type, raw), want)
	}
	if row.Standing == Refused && canonical(row, raw) != row.Default {
		return fmt.Errorf("%s=%s: %s", name, shown(row.Type, raw), row.Why)
	}
	return nil
}

func nearestTopic(name string) (string, bool) {
	for _, row := range topicRows {
		for _, link := range row.Synonyms {
			if link.Name == name {
				return row.Name, true
			}
		}
	}
	return Closest(name, slices.Values(slices.Sorted(maps.Keys(topicByName))))
}

// Topic returns the configuration of a topic with these settings of its own. The error names everything that is wrong
// with them by themselves. That min.compaction.lag.ms is more than max.compaction.lag.ms is no error here, since one of them
// may have come from the broker long after the other was checked; the latter counts.
func (c *Config) Topic(overrides map[string]string) (Topic, error) {
	var wrong []string
	for _, name := range slices.Sorted(maps.Keys(overrides)) {
		if err := checkTopic(name, overrides[name]); err != nil {
			wrong = append(wrong, err.Error())
		}
	}
	if wrong != nil {
		return Topic{}, fmt.Errorf("%s", strings.Join(wrong, "; "))
	}
	of := func(name string) value { return c.valueOver(topicByName[name], overrides) }
	t := Topic{
		SegmentBytes:       int32(of("segment.bytes").number),
		SegmentMs:          of("segment.ms").number,
		SegmentIndexBytes:  int32(of("segment.index.bytes").number),
		IndexIntervalBytes: int32(of("index.interval.bytes").number),
		Preallocate:        of("preallocate").truth,

		RetentionMs:       max(of("retention.ms").number, -1),
		RetentionBytes:    max(of("retention.bytes").number, -1),
		FileDeleteDelayMs: of("file.delete.delay.ms").number,

		FlushMessages: of("flush.messages").number,
		FlushMs:       of("flush.ms").number,

		MaxMessageBytes:             int32(of("max.message.bytes").number),
		MaxDecompressedMessageBytes: int32(of("max.decompressed.message.bytes").number),
		LogAppendTime:               of("message.timestamp.type").text == "LogAppendTime",
		TimestampBeforeMaxMs:        of("message.timestamp.before.max.ms").number,
		TimestampAfterMaxMs:         of("message.timestamp.after.max.ms").number,

		CompressionType: of("compression.type").text,
		GzipLevel:       int32(of("compression.gzip.level").number),
		LZ4Level:        int32(of("compression.lz4.level").number),
		ZstdLevel:       int32(of("compression.zstd.level").number),

		Compact:                slices.Contains(of("cleanup.policy").list, "compact"),
		Delete:                 slices.Contains(of("cleanup.policy").list, "delete"),
		DeleteRetentionMs:      of("delete.retention.ms").number,
		MinCompactionLagMs:     of("min.compaction.lag.ms").number,
		MaxCompactionLagMs:     of("max.compaction.lag.ms").number,
		MinCleanableDirtyRatio: of("min.cleanable.dirty.ratio").double,

		MinInSyncReplicas:     int32(of("min.insync.replicas").number),
		UncleanLeaderElection: of("unclean.leader.election.enable").truth,

		ThrottledLeaders:   of("leader.replication.throttled.replicas").list,
		ThrottledFollowers: of("follower.replication.throttled.replicas").list,
	}
	t.SegmentJitterMs = min(of("segment.jitter.ms").number, t.SegmentMs)
	if small := int32(of("internal.segment.bytes").number); small > 0 {
		t.SegmentBytes = small
	}
	t.MinCompactionLagMs = min(t.MinCompactionLagMs, t.MaxCompactionLagMs)
	return t, nil
}

// valueOver resolves one key of a topic or a group: its own setting, then the broker's in the order of Synonyms, then the
// default.
func (c *Config) valueOver(row *Row, overrides map[string]string) value {
	if raw, ok := overrides[row.Name]; ok {
		v, _ := row.parse(raw)
		return v
	}
	for _, link := range row.Synonyms {
		if s, ok := c.set[link.Name]; ok {
			v, _ := brokerByName[link.Name].parse(s.raw)
			v.number = times(v.number, link.Factor)
			return v
		}
	}
	if row.Unset {
		return value{}
	}
	v, _ := row.parse(row.Default)
	return v
}

// times multiplies without running over: a retention of two thousand million hours is for ever.
func times(n, factor int64) int64 {
	if n > math.MaxInt64/factor {
		return math.MaxInt64
	}
	return n * factor
}
