package commitlog

import (
	"log/slog"
	"math"
	"time"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

// Options says which log to open and with what.
type Options struct {
	FS     vfs.FS
	Dir    string // the partition's folder, made if missing
	TP     kafka.TopicPartition
	Config Config
	Files  *Files // shared by the logs of one directory
	Now    func() time.Time
	Logger *slog.Logger

	// RecoveryPoint is an offset below which the log is known to be on disk, indexes and producer state included.
	// 0 scans everything.
	RecoveryPoint kafka.Offset
	// LogStart is the log start offset that was last stored; 0 if unknown.
	LogStart kafka.Offset
	// Clean says that the last stop closed this log, so that nothing is scanned.
	Clean bool
	// Summary is what Summary returned of this log at a stop that was clean: nil, or all that is read. If the folder has changed
	// since, the error is ErrChanged, nothing was done, and Open has to be called without it.
	Summary []byte
	// DeferSync leaves it to the owner's next Sync to make durable what recovery has read: until then SyncedEnd is no
	// higher than where it began to read. Without it Open does so itself.
	DeferSync bool
	// StoresRecoveryPoint says that the owner calls RecoveryPointStored: until then recovery may begin at an older one, and
	// what it needs for that stays.
	StoresRecoveryPoint bool
	// NamesDurable says that the names in Dir are on disk, whoever made them.
	NamesDurable bool
	// NewFolder says that Dir was made just now, with the topic id in it, and that neither is durable: the first Sync
	// makes them so.
	NewFolder bool
	// ProducerExpiryMs is producer.id.expiration.ms; 0 keeps producers for ever.
	ProducerExpiryMs int64
}

// Config is the part of a topic's configuration that the log obeys or keeps for its owner.
type Config struct {
	SegmentBytes       int   // log.segment.bytes
	SegmentMs          int64 // log.roll.ms
	SegmentJitterMs    int64 // log.roll.jitter.ms
	IndexIntervalBytes int   // log.index.interval.bytes
	MaxIndexBytes      int   // log.index.size.max.bytes
	RetentionMs        int64 // -1 keeps records for ever
	RetentionBytes     int64 // -1 keeps any amount
	FileDeleteDelayMs  int64 // file.delete.delay.ms
	MaxMessageBytes    int   // max.message.bytes; for the owner
	MaxRecordBytes     int   // max.decompressed.message.bytes; 0 = any size; for the owner
	// TimestampTypeAppend is message.timestamp.type=LogAppendTime: Append stamps batches with its own time.
	TimestampTypeAppend bool
	Compression         batch.Compression // compression.type; for the owner
	BeforeMaxMs         int64             // message.timestamp.before.max.ms; for the owner
	AfterMaxMs          int64             // message.timestamp.after.max.ms; for the owner
	Compact, Delete     bool              // cleanup.policy
	Preallocate         bool

	DeleteRetentionMs      int64
	MinCompactionLagMs     int64
	MaxCompactionLagMs     int64
	MinCleanableDirtyRatio float64

	FlushMessages int64 // flush.messages; 0 = any number; for the owner
	FlushMs       int64 // flush.ms; 0 = any time; for the owner
}

// DefaultConfig returns Kafka's defaults.
func DefaultConfig() Config {
	return Config{
		SegmentBytes: 1 << 30, SegmentMs: 7 * 24 * 3600 * 1000, IndexIntervalBytes: 4096, MaxIndexBytes: 10485760,
		RetentionMs: 7 * 24 * 3600 * 1000, RetentionBytes: -1, FileDeleteDelayMs: 60000, MaxMessageBytes: 1048588,
		BeforeMaxMs: math.MaxInt64, AfterMaxMs: 3600000, Delete: true,
		DeleteRetentionMs: 24 * 3600 * 1000, MaxCompactionLagMs: math.MaxInt64, MinCleanableDirtyRatio: 0.5,
	}
}

// valid returns c with limits that the files demand.
func (c Config) valid() Config {
	c.SegmentBytes = min(max(c.SegmentBytes, 1), math.MaxInt32)
	if c.MaxIndexBytes <= 0 {
		c.MaxIndexBytes = DefaultConfig().MaxIndexBytes
	}
	c.MaxIndexBytes = min(max(c.MaxIndexBytes, 4*timeWidth), math.MaxInt32)
	return c
}

// maxEntries is how many entries of a width an index file may have.
func (c *Config) maxEntries(width int) int { return c.MaxIndexBytes / width }

// segmentMs is after how long a segment ends: a compacted log must not keep records from compaction for longer than
// max.compaction.lag.ms by never ending a segment. Mirrors LogConfig.maxSegmentMs.
func (c *Config) segmentMs() int64 {
	if c.Compact && c.MaxCompactionLagMs > 0 {
		return min(c.SegmentMs, c.MaxCompactionLagMs)
	}
	return c.SegmentMs
}
