package batch

import "errors"

// Record is one record. Key, Value and the headers' values alias the batch, or the buffer it was decompressed into.
type Record struct {
	Attributes int8
	Offset     int64
	Timestamp  int64  // ms, or -1
	Key        []byte // nil is null
	Value      []byte // nil is null
	Headers    []Header
}

// Header is one header of a record.
type Header struct {
	Key   string
	Value []byte // nil is null
}

// Each calls f for every record in order, decompressing first if need be, and stops at f's first error.
func (b Batch) Each(f func(Record) error) error { return errors.ErrUnsupported }

// OffsetOfMaxTimestamp returns the largest timestamp of a record and the offset of the first record that has it.
func (b Batch) OffsetOfMaxTimestamp() (timestamp, offset int64, err error) {
	return 0, 0, errors.ErrUnsupported
}
