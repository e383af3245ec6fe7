package cli

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"moldau/internal/batch"
)

// thing writes one thing of a file for --output json: an object on a line of its own that says which file it is in, and what it is.
func (d *dump) thing(kind string, members object) {
	fmt.Fprintln(d.out, javaJSON(append(object{{"file", d.path}, {"kind", kind}}, members...)))
}

// say writes a line that is for people alone.
func (d *dump) say(format string, args ...any) {
	if !d.json {
		fmt.Fprintf(d.out, format, args...)
	}
}

// passed says that an index is what a broker takes for one.
func (d *dump) passed() {
	if d.json {
		d.thing("check", object{{"passed", true}})
		return
	}
	fmt.Fprintf(d.out, "%s passed sanity check.\n", d.path)
}

func (d *dump) batchJSON(b batch.Batch, position int64) {
	var horizon any
	if b.DeleteHorizonSet() {
		horizon = b.BaseTimestamp()
	}
	d.thing("batch", object{
		{"baseOffset", int64(b.BaseOffset())}, {"lastOffset", int64(b.LastOffset())}, {"count", int64(b.Count())},
		{"baseSequence", int64(b.BaseSequence())}, {"lastSequence", int64(b.LastSequence())},
		{"producerId", int64(b.ProducerID())}, {"producerEpoch", int64(b.ProducerEpoch())}, {"partitionLeaderEpoch", int64(b.LeaderEpoch())},
		{"isTransactional", b.Transactional()}, {"isControl", b.Control()}, {"deleteHorizonMs", horizon}, {"position", position},
		{"timestampType", timestampType(b)}, {"maxTimestamp", b.MaxTimestamp()}, {"size", int64(b.Size())}, {"magic", int64(b.Magic())},
		{"compressionCodec", b.Codec().String()}, {"crc", int64(b.CRC())}, {"isValid", b.VerifyCRC() == nil},
	})
}

func (d *dump) recordJSON(b batch.Batch, r batch.Record) error {
	var members object
	if !d.skipMetadata {
		headers := make([]any, len(r.Headers))
		for i, h := range r.Headers {
			headers[i] = object{{"key", h.Key}, {"value", bytesJSON(h.Value)}}
		}
		timestamp, sequence := stamped(b, r)
		members = object{
			{"offset", int64(r.Offset)}, {"timestampType", timestampType(b)}, {"timestamp", timestamp}, {"keySize", sizeOf(r.Key)},
			{"valueSize", sizeOf(r.Value)}, {"sequence", int64(sequence)}, {"headers", headers},
		}
	}
	switch {
	case b.Control():
		text, err := controlShown(r)
		if err != nil {
			return err
		}
		members = append(members, member{"control", text})
	case d.print:
		key, value := d.decode(r)
		members = append(members, member{"key", d.decodedJSON(r.Key, key)}, member{"value", d.decodedJSON(r.Value, value)})
	}
	d.thing("record", members)
	return nil
}

// decodedJSON is what a decoder made of bytes: those of internal logs make JSON, which is taken as such.
func (d *dump) decodedJSON(b []byte, text *string) any {
	switch {
	case b == nil || text == nil:
		return nil
	case d.ofInternalLog() && json.Valid([]byte(*text)):
		return json.RawMessage(*text)
	case *text == string(b):
		return bytesJSON(b)
	}
	return *text
}

// bytesJSON is null, a string, or an object that holds bytes which are no UTF-8.
func bytesJSON(b []byte) any {
	switch {
	case b == nil:
		return nil
	case utf8.Valid(b):
		return string(b)
	}
	return object{{"base64", b}}
}
