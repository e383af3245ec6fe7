package batch

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
)

// CheckOptions is what the topic and the sender demand of a produced batch.
type CheckOptions struct {
	MaxMessageBytes int   // max.message.bytes; 0 means no limit
	Now             int64 // ms
	AppendTime      bool  // message.timestamp.type=LogAppendTime: the producer's timestamps do not matter
	BeforeMaxMs     int64 // message.timestamp.before.max.ms; math.MaxInt64 means no limit
	AfterMaxMs      int64 // message.timestamp.after.max.ms; math.MaxInt64 means no limit
	MaxRecordBytes  int   // max.decompressed.message.bytes, for each record of a compressed batch; 0 means no limit
	Compacted       bool  // every record needs a key
	Deep            bool  // decompress and walk the records whatever the other options say (record.validation=full)
	Client          bool  // the batch comes from a producer, not from a coordinator of ours
	RefuseZstd      bool  // the request is older than Produce v7 (KIP-110)
	// PlainBytes is how much memory compressed records may take once they are opened; ErrTooLarge if they need more. 0
	// is the largest limit, which follows from the batch's size.
	PlainBytes int
}

// Info is what Check found.
type Info struct {
	// MaxTimestamp is the largest timestamp of a record, in ms, or the header's word for it if the records were not walked.
	// On a topic with create time the caller passes it to SetCreateTime, which heals a header that lied.
	MaxTimestamp int64
	// Walked says that every record was looked at: always for uncompressed ones.
	Walked bool
	Plain  []byte // the records without compression, if they were walked; may be part of the batch
}

// RecordError tells of one bad record of a batch.
type RecordError struct {
	Index   int32 // position in the batch, from 0
	Message string
}

// RecordErrors says which records made a batch be refused, for Produce v8+ (KIP-467). It wraps INVALID_RECORD or
// INVALID_TIMESTAMP.
type RecordErrors struct {
	Err     error
	Records []RecordError // the first maxRecordErrors of them
}

// maxRecordErrors bounds what the answer to one small compressed batch with a million bad records can grow to.
const maxRecordErrors = 100

func (e *RecordErrors) Error() string {
	first := e.Records[0]
	return fmt.Sprintf("record %d of the batch: %s: %v", first.Index, first.Message, e.Err)
}

// Unwrap returns the Kafka error.
func (e *RecordErrors) Unwrap() error { return e.Err }

// Single returns the one batch that the records of a partition in a Produce request must consist of (v3 and later). What
// follows it is ignored if it is the beginning of a batch or less. The error is INVALID_RECORD or, for impossible lengths,
// CORRUPT_MESSAGE. Mirrors ProduceRequest.validateRecords.
func Single(records []byte) (Batch, error) {
	b, rest, err := Next(records)
	switch {
	case errors.Is(err, ErrShort):
		return nil, fmt.Errorf("no whole record batch in %d bytes: %w", len(records), kerr.InvalidRecord)
	case err != nil:
		return nil, err
	}
	switch _, _, err := Next(rest); {
	case err == nil || errors.Is(err, ErrOldMagic):
		return nil, fmt.Errorf("more than one record batch: %w", kerr.InvalidRecord)
	case errors.Is(err, ErrCorrupt):
		return nil, fmt.Errorf("after the record batch: %w", err)
	}
	return b, nil
}

// Check verifies everything that a broker must verify of one produced batch before it is appended. It does not change b.
//
// Uncompressed records are always walked. Compressed ones are walked with Deep, on compacted topics, and where a timestamp
// limit or one for sizes needs it; a header whose largest timestamp is within AfterMaxMs is believed, as its largest timestamp is what
// retention and the time index go by. Mirrors UnifiedLog.analyzeAndValidateRecords and LogValidator; stricter in one
// point: offset deltas must be 0, 1, 2 …
//
// Errors: CORRUPT_MESSAGE, MESSAGE_TOO_LARGE, INVALID_RECORD, INVALID_TIMESTAMP, UNSUPPORTED_COMPRESSION_TYPE; a
// *RecordErrors is in the chain when single records are at fault.
func Check(b Batch, o CheckOptions) (Info, error) {
	if err := checkHeader(b, o); err != nil {
		return Info{}, err
	}
	info := Info{MaxTimestamp: b.MaxTimestamp()}
	if b.Codec() != None && !o.mustWalk(b) {
		return info, nil
	}
	recs, err := b.plainWithin(o.PlainBytes)
	if err != nil {
		return Info{}, err
	}
	info.Walked, info.Plain = true, recs
	info.MaxTimestamp, err = checkRecords(b, recs, o)
	if err != nil {
		return Info{}, err
	}
	return info, nil
}

// mustWalk reports whether the records must be decompressed to know that the batch is good.
func (o CheckOptions) mustWalk(b Batch) bool {
	if o.Deep || o.Compacted || o.MaxRecordBytes > 0 {
		return true
	}
	return !o.AppendTime && (o.BeforeMaxMs != math.MaxInt64 || !o.inTime(b.MaxTimestamp()))
}

// inTime reports whether a record with this timestamp may be appended now.
func (o CheckOptions) inTime(timestamp int64) bool {
	if o.AppendTime || timestamp == NoTimestamp {
		return true
	}
	// A difference that overflows is beyond any limit that is one.
	if age := o.Now - timestamp; timestamp <= o.Now {
		return o.BeforeMaxMs == math.MaxInt64 || age >= 0 && age <= o.BeforeMaxMs
	}
	ahead := timestamp - o.Now
	return o.AfterMaxMs == math.MaxInt64 || ahead >= 0 && ahead <= o.AfterMaxMs
}

func checkHeader(b Batch, o CheckOptions) error {
	if o.Client && b.BaseOffset() != 0 {
		return refuse("base offset is %d, a producer's must be 0", b.BaseOffset())
	}
	if b.Codec() == Zstd && o.RefuseZstd {
		return fmt.Errorf("zstd needs Produce version 7: %w", kerr.UnsupportedCompressionType)
	}
	if o.MaxMessageBytes > 0 && len(b) > o.MaxMessageBytes {
		return fmt.Errorf("record batch of %d bytes, max.message.bytes is %d: %w", len(b), o.MaxMessageBytes, kerr.MessageTooLarge)
	}
	if err := b.VerifyCRC(); err != nil {
		return err
	}
	if codec := b.Codec(); !codec.Known() {
		return unknownCodec(codec)
	}
	if o.Client {
		if err := checkClientHeader(b); err != nil {
			return err
		}
	}
	if o.AppendTime && b.LogAppendTime() {
		return fmt.Errorf("a producer must not set the timestamp type to LogAppendTime: %w", kerr.InvalidTimestamp)
	}
	return nil
}

// checkClientHeader mirrors LogValidator.validateBatch for the origin CLIENT.
func checkClientHeader(b Batch) error {
	switch {
	case b.LastOffsetDelta() < 0:
		return refuse("last offset delta is %d", b.LastOffsetDelta())
	case b.Count() <= 0:
		return refuse("record count is %d", b.Count())
	case int64(b.Count()) != int64(b.LastOffsetDelta())+1:
		return refuse("record count %d does not match last offset delta %d", b.Count(), b.LastOffsetDelta())
	case b.Control():
		return refuse("a producer must not write control records")
	case b.ProducerID() > NoProducer && b.BaseSequence() < 0:
		return refuse("base sequence %d of producer %d", b.BaseSequence(), b.ProducerID())
	}
	return nil
}

func refuse(format string, args ...any) error {
	return fmt.Errorf("record batch refused: "+format+": %w", append(args, kerr.InvalidRecord)...)
}

// checkRecords walks over uncompressed records and returns their largest timestamp.
func checkRecords(b Batch, recs []byte, o CheckOptions) (maxTimestamp int64, err error) {
	count := b.Count()
	if count < 0 {
		return 0, refuse("record count is %d", count)
	}
	maxTimestamp = NoTimestamp
	base := b.BaseTimestamp()
	unlimited := o.AppendTime || o.BeforeMaxMs == math.MaxInt64 && o.AfterMaxMs == math.MaxInt64
	maxBytes := math.MaxInt
	if o.MaxRecordBytes > 0 && b.Codec() != None {
		maxBytes = o.MaxRecordBytes
	}
	var bad *RecordErrors
	var s scan
	for i := int32(0); i < count; i++ {
		if !s.next(recs) {
			return 0, b.badRecord(i)
		}
		if recordBytes := s.at - s.bodyAt; recordBytes > maxBytes {
			return 0, refuse("record %d has %d bytes, max.decompressed.message.bytes is %d", i, recordBytes, maxBytes)
		}
		if s.offsetDelta != i {
			return 0, refuse("record %d has offset delta %d", i, s.offsetDelta)
		}
		// Even if the producer claims log append time: SetCreateTime takes that back, and then this is what readers see.
		timestamp := base + s.timestampDelta
		maxTimestamp = max(maxTimestamp, timestamp)
		if o.Compacted && s.keyLen < 0 {
			bad = bad.add(i, kerr.InvalidRecord, noKey)
		} else if !unlimited && !o.inTime(timestamp) && !bad.full() {
			bad = bad.add(i, kerr.InvalidTimestamp, o.outOfTime(timestamp))
		}
	}
	if s.at != len(recs) {
		return 0, b.badRest(len(recs) - s.at)
	}
	if bad != nil {
		return 0, bad
	}
	return maxTimestamp, nil
}

const noKey = "a compacted topic needs a key in every record"

func (e *RecordErrors) full() bool { return e != nil && len(e.Records) == maxRecordErrors }

// add notes one bad record. The first decides the error of the batch, as in LogValidator.processRecordErrors.
func (e *RecordErrors) add(index int32, err error, message string) *RecordErrors {
	if e == nil {
		e = &RecordErrors{Err: err}
	}
	if !e.full() {
		e.Records = append(e.Records, RecordError{Index: index, Message: message})
	}
	return e
}

func (o CheckOptions) outOfTime(timestamp int64) string {
	limit := func(ms int64) string {
		if ms == math.MaxInt64 {
			return "any"
		}
		return strconv.FormatInt(ms, 10) + " ms"
	}
	return fmt.Sprintf("timestamp %d is more than %s before or %s after the broker's time %d",
		timestamp, limit(o.BeforeMaxMs), limit(o.AfterMaxMs), o.Now)
}
