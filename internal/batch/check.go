package batch

import "errors"

// CheckOptions is what the topic and the sender demand of a produced batch.
type CheckOptions struct {
	MaxMessageBytes int   // max.message.bytes; 0 means no limit
	Now             int64 // ms
	AppendTime      bool  // message.timestamp.type=LogAppendTime
	BeforeMaxMs     int64 // message.timestamp.before.max.ms; math.MaxInt64 means no limit
	AfterMaxMs      int64 // message.timestamp.after.max.ms; math.MaxInt64 means no limit
	Compacted       bool  // every record needs a key
	Deep            bool  // decompress and walk the records whatever the other options say
	Client          bool  // the batch comes from a producer, not from a coordinator of ours
	RefuseZstd      bool  // the request is older than Produce v7 (KIP-110)
}

// Info is what Check found.
type Info struct {
	MaxTimestamp int64 // the largest timestamp of a record, in ms; the header's word if the records were not walked
	Walked       bool  // the records were walked
}

// RecordError tells of one bad record of a batch.
type RecordError struct {
	Index   int32 // position in the batch, from 0
	Message string
}

// RecordErrors says which records made a batch be refused. It wraps INVALID_RECORD or INVALID_TIMESTAMP.
type RecordErrors struct {
	Err     error
	Records []RecordError // at most maxRecordErrors
}

func (e *RecordErrors) Error() string { return e.Err.Error() }

// Unwrap returns the Kafka error.
func (e *RecordErrors) Unwrap() error { return e.Err }

// Single returns the one batch that the records of a Produce request must consist of.
func Single(records []byte) (Batch, error) { return nil, errors.ErrUnsupported }

// Check verifies everything that a broker must verify of one produced batch.
func Check(b Batch, o CheckOptions) (Info, error) { return Info{}, errors.ErrUnsupported }
