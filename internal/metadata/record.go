package metadata

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"moldau/internal/invariant"
)

// Record is one record of the metadata log: a pointer to one of this package's …Record structs.
type Record interface {
	// Type is the record's api key, which names its type in the log.
	Type() int16
	walk(c *codec)
}

// The record types of the metadata log: all that MetadataRecordType of Apache Kafka 4.4.0 has.
const (
	TypeRegisterBroker            int16 = 0
	TypeUnregisterBroker          int16 = 1
	TypeTopic                     int16 = 2
	TypePartition                 int16 = 3
	TypeConfig                    int16 = 4
	TypePartitionChange           int16 = 5
	TypeFenceBroker               int16 = 7
	TypeUnfenceBroker             int16 = 8
	TypeRemoveTopic               int16 = 9
	TypeDelegationToken           int16 = 10
	TypeUserScramCredential       int16 = 11
	TypeFeatureLevel              int16 = 12
	TypeClientQuota               int16 = 14
	TypeProducerIDs               int16 = 15
	TypeBrokerRegistrationChange  int16 = 17
	TypeAccessControlEntry        int16 = 18
	TypeRemoveAccessControlEntry  int16 = 19
	TypeNoOp                      int16 = 20
	TypeZkMigrationState          int16 = 21
	TypeRemoveUserScramCredential int16 = 22
	TypeBeginTransaction          int16 = 23
	TypeEndTransaction            int16 = 24
	TypeAbortTransaction          int16 = 25
	TypeRemoveDelegationToken     int16 = 26
	TypeRegisterController        int16 = 27
	TypeClearElr                  int16 = 28
	TypeUnregisterController      int16 = 29
)

// frameVersion is the only version of the frame around a record (AbstractApiMessageSerde). 0 was that of the 2.8 preview.
const frameVersion = 1

// newRecord returns an empty record of a type, with Kafka's defaults, and the highest version of it that is known; nil
// when the type is not known.
func newRecord(t int16) (r Record, highestVersion int16) {
	switch t {
	case TypeRegisterBroker:
		return &RegisterBrokerRecord{Fenced: true}, 4
	case TypeUnregisterBroker:
		return &UnregisterBrokerRecord{}, 0
	case TypeTopic:
		return &TopicRecord{}, 0
	case TypePartition:
		return &PartitionRecord{}, 2
	case TypeConfig:
		return &ConfigRecord{}, 0
	case TypePartitionChange:
		return &PartitionChangeRecord{Leader: LeaderUnchanged, LeaderRecoveryState: RecoveryUnchanged}, 2
	case TypeFenceBroker:
		return &FenceBrokerRecord{}, 0
	case TypeUnfenceBroker:
		return &UnfenceBrokerRecord{}, 0
	case TypeRemoveTopic:
		return &RemoveTopicRecord{}, 0
	case TypeDelegationToken:
		return &DelegationTokenRecord{}, 0
	case TypeUserScramCredential:
		return &UserScramCredentialRecord{}, 0
	case TypeFeatureLevel:
		return &FeatureLevelRecord{}, 0
	case TypeClientQuota:
		return &ClientQuotaRecord{}, 0
	case TypeProducerIDs:
		return &ProducerIDsRecord{}, 0
	case TypeBrokerRegistrationChange:
		return &BrokerRegistrationChangeRecord{}, 3
	case TypeAccessControlEntry:
		return &AccessControlEntryRecord{}, 0
	case TypeRemoveAccessControlEntry:
		return &RemoveAccessControlEntryRecord{}, 0
	case TypeNoOp:
		return &NoOpRecord{}, 0
	case TypeZkMigrationState:
		return &ZkMigrationStateRecord{}, 0
	case TypeRemoveUserScramCredential:
		return &RemoveUserScramCredentialRecord{}, 0
	case TypeBeginTransaction:
		return &BeginTransactionRecord{}, 0
	case TypeEndTransaction:
		return &EndTransactionRecord{}, 0
	case TypeAbortTransaction:
		return &AbortTransactionRecord{}, 0
	case TypeRemoveDelegationToken:
		return &RemoveDelegationTokenRecord{}, 0
	case TypeRegisterController:
		return &RegisterControllerRecord{}, 0
	case TypeClearElr:
		return &ClearElrRecord{}, 0
	case TypeUnregisterController:
		return &UnregisterControllerRecord{}, 0
	}
	return nil, -1
}

// Encode appends r, written at the given version of its type, in the frame that Kafka's MetadataRecordSerde writes: frame
// version, type and version as uvarints, then the fields.
func Encode(dst []byte, r Record, version int16) []byte {
	_, highest := newRecord(r.Type())
	invariant.Check(version >= 0 && version <= highest, "record %T has no version %d", r, version)
	dst = binary.AppendUvarint(dst, frameVersion)
	dst = binary.AppendUvarint(dst, uint64(r.Type()))
	dst = binary.AppendUvarint(dst, uint64(version))
	c := codec{version: version, b: dst}
	r.walk(&c)
	return c.b
}

// Decode reads one record value of the metadata log. The record aliases nothing of b. A type or version that is not
// known is an error that names it, and so are bytes left over: an image built without such a record would be wrong.
func Decode(b []byte) (Record, error) {
	r, _, err := decode(b)
	return r, err
}

func decode(b []byte) (Record, int16, error) {
	c := codec{reading: true, b: b}
	frame, t, version := c.uvarint(0), c.uvarint(0), c.uvarint(0)
	if c.err != nil {
		return nil, 0, fmt.Errorf("decode metadata record: %w", c.err)
	}
	if frame != frameVersion {
		return nil, 0, fmt.Errorf("decode metadata record: frame version %d is not known, only %d is", frame, frameVersion)
	}
	if t > math.MaxInt16 || version > math.MaxInt16 {
		return nil, 0, errors.New("decode metadata record: type or version is out of range")
	}
	r, highest := newRecord(int16(t))
	if r == nil {
		return nil, 0, fmt.Errorf("decode metadata record: type %d is not known; was it written by a newer release?", t)
	}
	if int16(version) > highest {
		return nil, 0, fmt.Errorf("decode metadata record: version %d of %T is not known, only 0 to %d are; was it written by a newer release?",
			version, r, highest)
	}
	c.version = int16(version)
	r.walk(&c)
	if c.err == nil && len(c.b) > 0 {
		c.err = fmt.Errorf("%d bytes are left over", len(c.b))
	}
	if c.err != nil {
		return nil, 0, fmt.Errorf("decode %T version %d: %w", r, version, c.err)
	}
	return r, int16(version), nil
}

// DecodeAll reads the record values of one batch.
func DecodeAll(values [][]byte) ([]Record, error) {
	records := make([]Record, len(values))
	for i, v := range values {
		r, err := Decode(v)
		if err != nil {
			return nil, fmt.Errorf("record %d of the batch: %w", i, err)
		}
		records[i] = r
	}
	return records, nil
}
