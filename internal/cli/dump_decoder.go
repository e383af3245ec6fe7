package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"moldau/internal/batch"
)

// dumpDecoder turns a record's key and value into text. nil is not shown.
type dumpDecoder func(r batch.Record) (key, value *string)

// decoderFlags are those that say what a dumped log holds.
type decoderFlags struct {
	offsets, transactions, shareState, metadata, remote bool
	keyClass, valueClass                                string
}

func (f *decoderFlags) add(flags *pflag.FlagSet) {
	flags.BoolVar(&f.metadata, "cluster-metadata-decoder", false, "the log is __cluster_metadata: show its records as JSON")
	flags.BoolVar(&f.offsets, "offsets-decoder", false, "the log is one of __consumer_offsets: show its records as JSON")
	flags.BoolVar(&f.transactions, "transaction-log-decoder", false, "the log is one of __transaction_state: show its records as JSON")
	flags.BoolVar(&f.shareState, "share-group-state-decoder", false, "the log is one of __share_group_state: show its records as JSON")
	flags.BoolVar(&f.remote, "remote-log-metadata-decoder", false, "of tiered storage, which this version does not have")
	flags.StringVar(&f.keyClass, "key-decoder-class", "", "the `class` of keys: org.apache.kafka.tools.api.StringDecoder, LongDecoder or IntegerDecoder")
	flags.StringVar(&f.valueClass, "value-decoder-class", "", "the `class` of values: the same")
}

// ofInternalLog tells whether records are shown as JSON.
func (f *decoderFlags) ofInternalLog() bool {
	return f.offsets || f.transactions || f.shareState || f.metadata
}

// chosen is the decoder that the flags ask for; when there are several the first of Kafka's order wins. some says that one
// was asked for at all.
func (f *decoderFlags) chosen() (decode dumpDecoder, some bool, err error) {
	key, err := dumpClass(f.keyClass)
	if err != nil {
		return nil, false, fmt.Errorf("--key-decoder-class: %w", err)
	}
	value, err := dumpClass(f.valueClass)
	if err != nil {
		return nil, false, fmt.Errorf("--value-decoder-class: %w", err)
	}
	switch {
	case f.offsets:
		return internalDecoder("group"), true, nil
	case f.transactions:
		return internalDecoder("transaction"), true, nil
	case f.metadata:
		return metadataDecoder, true, nil
	case f.remote:
		return nil, false, errors.New("--remote-log-metadata-decoder: there is no tiered storage in this version")
	case f.shareState:
		return internalDecoder("share"), true, nil
	}
	return func(r batch.Record) (*string, *string) { return decodedBytes(r.Key, key), decodedBytes(r.Value, value) }, f.keyClass != "" || f.valueClass != "", nil
}

// decodedBytes shows bytes of a record; what cannot be read says so in its place, as with Kafka's other decoders.
func decodedBytes(b []byte, decode decoder) *string {
	if b == nil {
		return nil
	}
	text := string(b)
	if decode != nil {
		var err error
		if text, err = decode(b); err != nil {
			text = "<" + err.Error() + ">"
		}
	}
	return &text
}

// dumpClass is what stands in for one of Kafka's decoders, by its name of today or that of before 4.0.
func dumpClass(class string) (decoder, error) {
	name := class[strings.LastIndexByte(class, '.')+1:]
	switch strings.TrimSuffix(name, "Decoder") {
	case "", "String", "Default":
		return nil, nil
	case "Long", "Integer":
		return javaDecoder(strings.TrimSuffix(name, "Decoder"))
	}
	return nil, fmt.Errorf("%s cannot be loaded here: want StringDecoder, LongDecoder or IntegerDecoder", class)
}

// internalDecoder shows records of an internal topic. One that cannot be read says so in the place of its key.
func internalDecoder(log string) dumpDecoder {
	return func(r batch.Record) (*string, *string) {
		record, err := readInternal(log, r.Key, r.Value)
		var key, value string
		switch {
		case errors.Is(err, errUnknownKind):
			key = fmt.Sprintf("Unknown record type %d at offset %d, skipping.", record.kind, r.Offset)
			return &key, nil
		case err != nil:
			key = fmt.Sprintf("Error at offset %d, skipping. %v", r.Offset, err)
			return &key, nil
		}
		key = javaJSON(object{{"type", fmt.Sprint(record.kind)}, {"data", record.key}})
		value = "<DELETE>"
		if record.value != nil {
			if log == "group" {
				openMembers(record.value)
			}
			value = javaJSON(object{{"version", fmt.Sprint(record.version)}, {"data", record.value}})
		}
		return &key, &value
	}
}

func metadataDecoder(r batch.Record) (*string, *string) {
	o, err := readMetadata(r.Value)
	text := javaJSON(o)
	if err != nil {
		text = fmt.Sprintf("Error at %d, skipping. %v", r.Offset, err)
	}
	return nil, &text
}
