package batch

import (
	"encoding/binary"

	"moldau/internal/kafka"
)

// Assign writes base offset and leader epoch in place. Both lie outside the CRC.
func (b Batch) Assign(base kafka.Offset, leaderEpoch kafka.Epoch) {
	binary.BigEndian.PutUint64(b[atBaseOffset:], uint64(base))
	binary.BigEndian.PutUint32(b[atLeaderEpoch:], uint32(leaderEpoch))
}

// SetAppendTime makes ms the timestamp of every record (message.timestamp.type=LogAppendTime) and computes the CRC anew.
func (b Batch) SetAppendTime(ms int64) { b.setTimestamp(b.Attributes()|attrAppendTime, ms) }

// SetCreateTime says that records carry their producer's timestamps, of which maxMs is the largest. The CRC is computed
// anew only if that changes something: after Check with Info.MaxTimestamp it does so only for a header that lied.
func (b Batch) SetCreateTime(maxMs int64) { b.setTimestamp(b.Attributes()&^attrAppendTime, maxMs) }

// setTimestamp mirrors DefaultRecordBatch.setMaxTimestamp, except that unknown attribute bits stay as they are.
func (b Batch) setTimestamp(attributes int16, maxMs int64) {
	if attributes == b.Attributes() && maxMs == b.MaxTimestamp() {
		return
	}
	binary.BigEndian.PutUint16(b[atAttributes:], uint16(attributes))
	binary.BigEndian.PutUint64(b[atMaxTimestamp:], uint64(maxMs))
	b.seal()
}

// seal stores the CRC of the bytes as they are now.
func (b Batch) seal() { binary.BigEndian.PutUint32(b[atCRC:], b.sum()) }
