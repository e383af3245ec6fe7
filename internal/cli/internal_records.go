package cli

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/twmb/franz-go/pkg/kgo"

	"moldau/internal/batch"
)

// internalRecord is a record of __consumer_offsets, __transaction_state or __share_group_state.
type internalRecord struct {
	kind    int16 // the first two bytes of the key
	version int16 // of the value
	key     object
	value   object // nil: the record deletes what its key names
}

// errUnknownKind is a record of a kind that the table lacks.
var errUnknownKind = errors.New("not a kind of record that is known")

// readInternal decodes a record by the shapes of one log: group, transaction or share. When the kind is unknown, the
// record has nothing but that.
func readInternal(log string, key, value []byte) (internalRecord, error) {
	if len(key) < 2 {
		return internalRecord{}, errRecordShort
	}
	r := internalRecord{kind: int16(binary.BigEndian.Uint16(key))}
	// Each kind has two lines, first that of the key.
	keyShape, known := findShape(fmt.Sprintf("%s.%d.key", log, r.kind))
	if !known {
		return r, errUnknownKind
	}
	var err error
	if r.key, err = keyShape.read(key[2:], 0); err != nil || value == nil {
		return r, err
	}
	if len(value) < 2 {
		return r, errRecordShort
	}
	valueShape, _ := findShape(fmt.Sprintf("%s.%d.value", log, r.kind))
	r.version = int16(binary.BigEndian.Uint16(value))
	r.value, err = valueShape.read(value[2:], r.version)
	if err == nil && log == "transaction" {
		nameState(r.value)
	}
	return r, err
}

// internalFormatter writes records of an internal topic as Kafka's CoordinatorRecordMessageFormatter does, but each on a
// line of its own. Kinds that are not wanted or not known are left out.
func internalFormatter(log string, wanted func(kind int16) bool) func(w io.Writer, r *kgo.Record) error {
	return func(w io.Writer, r *kgo.Record) error {
		record, err := readInternal(log, r.Key, r.Value)
		switch {
		case r.Key == nil, errors.Is(err, errUnknownKind):
			return nil
		case err != nil:
			return fmt.Errorf("%s-%d at offset %d: %w", r.Topic, r.Partition, r.Offset, err)
		case !wanted(record.kind):
			return nil
		}
		shown := object{{"key", object{{"type", int64(record.kind)}, {"data", record.key}}}, {"value", nil}}
		if record.value != nil {
			shown[1].value = object{{"version", int64(record.version)}, {"data", record.value}}
		}
		_, err = fmt.Fprintln(w, javaJSON(shown))
		return err
	}
}

// nameState shows a transaction's state by name, as Kafka's tools do.
func nameState(value object) {
	names := []string{"Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence"}
	state, at := value.get("transactionStatus")
	if n, ok := state.(int64); ok && n >= 0 && n < int64(len(names)) {
		*at = names[n]
	}
}

// openMembers replaces the bytes of members' subscriptions and assignments by what they say, in groups of consumers. What
// cannot be read stays as it is.
func openMembers(value object) {
	if protocol, _ := value.get("protocolType"); protocol != "consumer" {
		return
	}
	members, _ := value.get("members")
	list, _ := members.([]any)
	for _, m := range list {
		for _, name := range []string{"subscription", "assignment"} {
			o, _ := m.(object)
			bytes, at := o.get(name)
			raw, ok := bytes.([]byte)
			if !ok || len(raw) < 2 {
				continue
			}
			s, _ := findShape("consumer." + name)
			if opened, err := s.read(raw[2:], int16(binary.BigEndian.Uint16(raw))); err == nil {
				*at = opened
			}
		}
	}
}

// readMetadata decodes a record of __cluster_metadata: frame version, type, version, fields (MetadataRecordSerde).
func readMetadata(value []byte) (object, error) {
	r := &shapeReader{b: value}
	frame, kind, version := r.uvarint(), r.uvarint(), r.uvarint()
	if r.err != nil {
		return nil, r.err
	}
	if frame != 1 {
		return nil, fmt.Errorf("frame version %d is not known, only 1", frame)
	}
	s, known := findShape(fmt.Sprintf("metadata.%d", kind))
	if !known || version > 1<<15-1 {
		return nil, fmt.Errorf("record type %d is not known", kind)
	}
	data, err := s.read(r.b, int16(version))
	return object{{"type", s.name}, {"version", int64(version)}, {"data", data}}, err
}

// controlText is what is shown of a control record of the metadata log: its name and its fields. ok is false for kinds
// that Kafka does not open.
func controlText(kind batch.ControlType, value []byte) (text string, ok bool, err error) {
	s, ok := findShape(fmt.Sprintf("control.%d", kind))
	if !ok {
		return "", false, nil
	}
	if len(value) < 2 {
		return "", true, errRecordShort
	}
	o, err := s.read(value, int16(binary.BigEndian.Uint16(value))) // the version is a field, too
	return s.name + " " + javaJSON(o), true, err
}
