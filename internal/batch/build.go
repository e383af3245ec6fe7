package batch

import "moldau/internal/kafka"

// Producer is the idempotent producer of a batch.
type Producer struct {
	ID           int64
	Epoch        int16
	BaseSequence int32 // -1 in a control batch
}

// BuildOptions is the header of a batch to build.
type BuildOptions struct {
	BaseOffset    kafka.Offset
	LeaderEpoch   kafka.Epoch
	Codec         Codec
	Level         int       // compression level; 0 is the codec's default
	Producer      *Producer // nil: none
	Transactional bool
	Control       bool
	AppendTime    bool  // every record has the timestamp Timestamp
	Timestamp     int64 // ms; used with AppendTime only
}

// Builder makes one batch, record by record.
type Builder struct{}

// NewBuilder returns an empty builder.
func NewBuilder(o BuildOptions) *Builder { return &Builder{} }

// Add appends a record; its offset follows the one before, whatever r.Offset says.
func (bu *Builder) Add(r Record) {}

// Size returns the size of the batch so far, in bytes before compression.
func (bu *Builder) Size() int { return 0 }

// Build returns the batch. It needs at least one record.
func (bu *Builder) Build() Batch { return nil }
