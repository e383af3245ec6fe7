package batch

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
)

// ControlType is the kind of a control record, named by its key (org.apache.kafka.common.record.ControlRecordType).
type ControlType int16

// The kinds that Kafka knows. A reader skips the others.
const (
	ControlAbort          ControlType = 0
	ControlCommit         ControlType = 1
	ControlLeaderChange   ControlType = 2
	ControlSnapshotHeader ControlType = 3
	ControlSnapshotFooter ControlType = 4
	ControlKRaftVersion   ControlType = 5
	ControlKRaftVoters    ControlType = 6
)

// String returns Kafka's name of the kind.
func (t ControlType) String() string {
	switch t {
	case ControlAbort:
		return "ABORT"
	case ControlCommit:
		return "COMMIT"
	case ControlLeaderChange:
		return "LEADER_CHANGE"
	case ControlSnapshotHeader:
		return "SNAPSHOT_HEADER"
	case ControlSnapshotFooter:
		return "SNAPSHOT_FOOTER"
	case ControlKRaftVersion:
		return "KRAFT_VERSION"
	case ControlKRaftVoters:
		return "KRAFT_VOTERS"
	}
	return "control type " + strconv.Itoa(int(t))
}

// Key returns the record key that marks a control record of this kind: key version 0, then the kind.
func (t ControlType) Key() []byte { return []byte{0, 0, byte(t >> 8), byte(t)} }

// ParseControl reads the kind of a control record from its key, and the version from its value: every value begins with
// one. A kind that Kafka does not name is no error. Mirrors ControlRecordType.parse.
func ParseControl(r Record) (t ControlType, version int16, err error) {
	if len(r.Key) < 4 {
		return 0, 0, fmt.Errorf("control record at offset %d has a key of %d bytes, want 4: %w", r.Offset, len(r.Key), kerr.InvalidRecord)
	}
	if v := int16(binary.BigEndian.Uint16(r.Key)); v < 0 {
		return 0, 0, fmt.Errorf("control record at offset %d has key version %d: %w", r.Offset, v, kerr.InvalidRecord)
	}
	t = ControlType(binary.BigEndian.Uint16(r.Key[2:]))
	if len(r.Value) < 2 {
		return t, 0, fmt.Errorf("%v record at offset %d has a value of %d bytes, want a version: %w", t, r.Offset, len(r.Value), kerr.InvalidRecord)
	}
	if version = int16(binary.BigEndian.Uint16(r.Value)); version < 0 {
		return t, version, fmt.Errorf("%v record at offset %d has version %d: %w", t, r.Offset, version, kerr.InvalidRecord)
	}
	return t, version, nil
}

// EndTxnMarker is the value of a ControlAbort or ControlCommit record. Unlike the others it is not in the flexible
// encoding and has no tags.
type EndTxnMarker struct {
	Version          int16
	CoordinatorEpoch int32
}

// AppendTo appends the six bytes of the marker.
func (m *EndTxnMarker) AppendTo(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(m.Version))
	return binary.BigEndian.AppendUint32(dst, uint32(m.CoordinatorEpoch))
}

// ReadFrom reads a marker. What newer versions may add after the epoch is not looked at, as in Kafka.
func (m *EndTxnMarker) ReadFrom(b []byte) error {
	r := controlReader{src: b}
	got := EndTxnMarker{Version: r.version(), CoordinatorEpoch: r.int32()}
	if r.err != nil {
		return fmt.Errorf("end transaction marker: %w", r.err)
	}
	*m = got
	return nil
}
