package group

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
)

// The kinds of record in __consumer_offsets, by the number at the start of a key. 0 and 1 have the same form.
const (
	keyOffsetOld = 0
	keyOffset    = 1
	keyGroup     = 2
)

// Versions that are written. Apache Kafka from 2.3 on reads both.
const (
	offsetVersion  = 3 // with leader epoch (KIP-320)
	offsetExpiring = 1 // the only version with a time of expiry of its own
	groupVersion   = 3 // with instance ids (KIP-345)
)

// Versions that can be read.
const (
	offsetNewest = 4
	groupNewest  = 4
)

const (
	noExpiry      = -1
	noLeaderEpoch = -1
)

var errRecord = errors.New("record of __consumer_offsets is malformed")

// committed is an offset that a group has committed for a partition.
type committed struct {
	offset      int64
	leaderEpoch int32 // -1: not told
	metadata    string
	at          int64 // ms
	expires     int64 // ms; -1: by retention
}

// offsetKey is a key that a committed offset is stored under. group and topic point into the record.
type offsetKey struct {
	group, topic []byte
	partition    int32
}

func offsetRecord(group, topic string, partition int32, c *committed) coordinator.Record {
	r := coordinator.Record{Key: appendOffsetKey(nil, group, topic, partition)}
	if c != nil {
		r.Value = appendOffset(nil, *c)
	}
	return r
}

func appendOffsetKey(b []byte, group, topic string, partition int32) []byte {
	b = binary.BigEndian.AppendUint16(b, keyOffset)
	b = appendString(b, group)
	b = appendString(b, topic)
	return binary.BigEndian.AppendUint32(b, uint32(partition))
}

// appendOffset writes version 3, or 1 if the client asked for a retention of its own (OffsetCommit 2 to 4).
func appendOffset(b []byte, c committed) []byte {
	version := uint16(offsetVersion)
	if c.expires != noExpiry {
		version = offsetExpiring
	}
	b = binary.BigEndian.AppendUint16(b, version)
	b = binary.BigEndian.AppendUint64(b, uint64(c.offset))
	if version == offsetVersion {
		b = binary.BigEndian.AppendUint32(b, uint32(c.leaderEpoch))
	}
	b = appendString(b, c.metadata)
	b = binary.BigEndian.AppendUint64(b, uint64(c.at))
	if version == offsetExpiring {
		b = binary.BigEndian.AppendUint64(b, uint64(c.expires))
	}
	return b
}

func readOffsetKey(b []byte) (k offsetKey, err error) {
	r := reader{b: b}
	r.int16()
	k.group = r.string()
	k.topic = r.string()
	k.partition = r.int32()
	return k, r.err("key of an offset")
}

// readOffset reads every version there is, 0 to 4.
func readOffset(b []byte) (committed, error) {
	r := reader{b: b}
	version := r.int16()
	if version < 0 || version > offsetNewest {
		return committed{}, fmt.Errorf("version %d of an offset: %w", version, errRecord)
	}
	c := committed{leaderEpoch: noLeaderEpoch, expires: noExpiry}
	c.offset = r.int64()
	if version >= 3 {
		c.leaderEpoch = r.int32()
	}
	if version >= 4 {
		c.metadata = string(r.compact())
	} else {
		c.metadata = string(r.string())
	}
	c.at = r.int64()
	if version == offsetExpiring {
		c.expires = r.int64()
	}
	return c, r.err("value of an offset") // version 4 ends in tags, which are the topic's id at most
}

// groupRecord stores a group as it is. nil members: it has none.
func groupRecord(value *kmsg.GroupMetadataValue, group string) coordinator.Record {
	r := coordinator.Record{Key: groupKey(group)}
	if value != nil {
		value.Version = groupVersion
		r.Value = value.AppendTo(nil)
	}
	return r
}

func groupKey(group string) []byte {
	return appendString(binary.BigEndian.AppendUint16(nil, keyGroup), group)
}

func readGroupKey(b []byte) ([]byte, error) {
	r := reader{b: b}
	r.int16()
	group := r.string()
	return group, r.err("key of a group")
}

// readGroup reads every version there is, 0 to 4.
func readGroup(b []byte) (*kmsg.GroupMetadataValue, error) {
	if len(b) < 2 {
		return nil, fmt.Errorf("value of a group: %w", errRecord)
	}
	if version := int16(binary.BigEndian.Uint16(b)); version < 0 || version > groupNewest {
		return nil, fmt.Errorf("version %d of a group: %w", version, errRecord)
	}
	v := kmsg.NewGroupMetadataValue()
	if err := v.ReadFrom(b); err != nil {
		return nil, fmt.Errorf("value of a group: %w: %w", err, errRecord)
	}
	if v.Version < 1 { // session and rebalance timeout were one (KIP-62)
		for i := range v.Members {
			v.Members[i].RebalanceTimeoutMillis = v.Members[i].SessionTimeoutMillis
		}
	}
	return &v, nil
}

func appendString(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
}

// reader takes fields off the front of a record. When one is not there, bad is set and the rest is zero.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.bad = true
		n = 0
	}
	out := r.b[:n:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) int16() int16 {
	if b := r.take(2); len(b) == 2 {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (r *reader) int32() int32 {
	if b := r.take(4); len(b) == 4 {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *reader) int64() int64 {
	if b := r.take(8); len(b) == 8 {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// string is one with a length of two bytes.
func (r *reader) string() []byte { return r.take(int(r.int16())) }

// compact is a string of a flexible version: its length plus one is a varint.
func (r *reader) compact() []byte {
	length, n := binary.Uvarint(r.b)
	if n <= 0 || length == 0 || length > uint64(len(r.b)) {
		r.bad = true
		return nil
	}
	r.b = r.b[n:]
	return r.take(int(length) - 1)
}

func (r *reader) err(what string) error {
	if r.bad {
		return fmt.Errorf("%s: %w", what, errRecord)
	}
	return nil
}
