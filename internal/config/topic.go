package config

// Topic is the configuration of one topic: the node's defaults with the topic's own settings on top.
type Topic struct {
	SegmentBytes       int32
	SegmentMs          int64
	SegmentJitterMs    int64
	SegmentIndexBytes  int32
	IndexIntervalBytes int32
	Preallocate        bool

	RetentionMs       int64 // -1 = for ever
	RetentionBytes    int64 // -1 = no limit
	FileDeleteDelayMs int64
	FlushMessages     int64
	FlushMs           int64

	MaxMessageBytes             int32
	MaxDecompressedMessageBytes int32
	LogAppendTime               bool  // message.timestamp.type=LogAppendTime
	TimestampBeforeMaxMs        int64 // math.MaxInt64 = any
	TimestampAfterMaxMs         int64 // math.MaxInt64 = any

	CompressionType                                  string // "producer" = as the producer sent it
	CompressionGzip, CompressionLZ4, CompressionZstd int32  // levels

	Compact, Delete        bool
	DeleteRetentionMs      int64
	MinCompactionLagMs     int64
	MaxCompactionLagMs     int64
	MinCleanableDirtyRatio float64

	MinInSyncReplicas     int32
	UncleanLeaderElection bool

	LeaderThrottledReplicas, FollowerThrottledReplicas []string
}
