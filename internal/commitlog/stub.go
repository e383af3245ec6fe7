package commitlog

import (
	"errors"
	"io"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

type Log struct{}

type Recovery struct {
	From           kafka.Offset
	ScannedBytes   int64
	TruncatedBytes int64
	RebuiltIndexes int
	Took           time.Duration
}

func Open(o Options) (*Log, Recovery, error) { return nil, Recovery{}, errors.ErrUnsupported }

type AppendOptions struct {
	LeaderEpoch kafka.Epoch
	Now         int64
}
type Appended struct {
	First, Last   kafka.Offset
	LogAppendTime int64
	LogStart      kafka.Offset
	Duplicate     bool
	Bytes         int
}

func (l *Log) Append(b []byte, a AppendOptions) (Appended, error) { return Appended{}, nil }
func (l *Log) AppendFetched(b []byte) (Appended, error)           { return Appended{}, nil }

type ReadOptions struct {
	MaxBytes   int
	UpTo       kafka.Offset
	AtLeastOne bool
}
type Read struct {
	Region           *Region
	FirstBatchOffset kafka.Offset
	NextOffset       kafka.Offset
	Bytes            int
}

func (l *Log) Read(from kafka.Offset, o ReadOptions) (Read, error) { return Read{}, nil }

type Region struct{}

func (r *Region) Len() int64                          { return 0 }
func (r *Region) SendTo(dst io.Writer) (int64, error) { return 0, nil }
func (r *Region) ReadAll() ([]byte, error)            { return nil, nil }
func (r *Region) Release()                            {}

type Bounds struct {
	LogStart, LogEnd, SyncedEnd kafka.Offset
}

func (l *Log) Bounds() *Bounds                  { return nil }
func (l *Log) LogStart() kafka.Offset           { return 0 }
func (l *Log) LogEnd() kafka.Offset             { return 0 }
func (l *Log) SyncedEnd() kafka.Offset          { return 0 }
func (l *Log) LastEpoch() kafka.Epoch           { return 0 }
func (l *Log) Sync() (kafka.Offset, error)      { return 0, nil }
func (l *Log) Dirty() (bytes int64, dirty bool) { return 0, false }

type TimestampOffset struct {
	Timestamp   int64
	Offset      kafka.Offset
	LeaderEpoch kafka.Epoch
}

func (l *Log) OffsetForTimestamp(ts int64, upTo kafka.Offset) (TimestampOffset, bool, error) {
	return TimestampOffset{}, false, nil
}
func (l *Log) OffsetOfMaxTimestamp(upTo kafka.Offset) (TimestampOffset, bool, error) {
	return TimestampOffset{}, false, nil
}
func (l *Log) EndOffsetForEpoch(e kafka.Epoch) (kafka.Epoch, kafka.Offset) { return -1, -1 }
func (l *Log) AssignEpochStart(e kafka.Epoch, start kafka.Offset)          {}
func (l *Log) Truncate(to kafka.Offset) error                              { return nil }
func (l *Log) TruncateFullyAt(offset kafka.Offset) error                   { return nil }
func (l *Log) SetLogStart(to kafka.Offset) error                           { return nil }
func (l *Log) SetDeletionBound(highWatermark kafka.Offset)                 {}
func (l *Log) Retain(now time.Time) (deleted int, err error)               { return 0, nil }
func (l *Log) DeletePending(now time.Time) (left int, err error)           { return 0, nil }
func (l *Log) SetConfig(c Config)                                          {}
func (l *Log) Config() Config                                              { return Config{} }

type ProducerState struct {
	ProducerID       int64
	ProducerEpoch    int16
	LastSequence     int32
	LastOffset       kafka.Offset
	LastTimestamp    int64
	CoordinatorEpoch int32
	TxnStart         kafka.Offset
}

func (l *Log) Producers() []ProducerState    { return nil }
func (l *Log) ExpireProducers(now time.Time) {}
func (l *Log) LastStable() kafka.Offset      { return -1 }

type AbortedTxn struct {
	ProducerID                                int64
	FirstOffset, LastOffset, LastStableOffset kafka.Offset
}

func (l *Log) AbortedTxns(from, to kafka.Offset) ([]AbortedTxn, error) { return nil, nil }

type SegmentInfo struct {
	BaseOffset kafka.Offset
	Size       int64
}

func (l *Log) Size() int64                                                 { return 0 }
func (l *Log) Segments() []SegmentInfo                                     { return nil }
func (l *Log) Close() error                                                { return nil }
func (l *Log) Abandon()                                                    {}
func (l *Log) Delete() error                                               { return nil }
func (l *Log) RenameForDelete(id kafka.TopicID) (newDir string, err error) { return "", nil }
func (l *Log) RecoveryPoint() kafka.Offset                                 { return 0 }
func (l *Log) Dir() string                                                 { return "" }
func (l *Log) TP() kafka.TopicPartition                                    { return kafka.TopicPartition{} }

type Files struct{}

func NewFiles(fs vfs.FS, max int) *Files { return &Files{} }

func ParseDir(name string) (kafka.TopicPartition, error)                   { return kafka.TopicPartition{}, nil }
func ReadPartitionMetadata(fs vfs.FS, dir string) (kafka.TopicID, error)   { return kafka.TopicID{}, nil }
func WritePartitionMetadata(fs vfs.FS, dir string, id kafka.TopicID) error { return nil }
