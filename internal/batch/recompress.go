package batch

import "encoding/binary"

// Compression is how a topic stores batches (compression.type and the level of its codec). The zero value keeps what the
// producer chose.
type Compression struct {
	Imposed bool // false is compression.type=producer
	Codec   Codec
	Level   int // as Compress takes it
}

// Changes reports whether b has to be compressed anew. As in Apache Kafka a batch in the right codec stays as it is, whatever
// level the producer used.
func (c Compression) Changes(b Batch) bool { return c.Imposed && b.Codec() != c.Codec }

// Recompress returns a copy of b, whose records are recs once they are decompressed, in the codec of c. All else stays as it
// is. An error is that of Compress; packers may be nil. Mirrors LogValidator.buildRecordsAndAssignOffsets.
func (b Batch) Recompress(recs []byte, c Compression, packers *Packers) (Batch, error) {
	packed, err := packers.compress(c.Codec, c.Level, recs)
	if err != nil {
		return nil, err
	}
	out := make(Batch, HeaderSize, HeaderSize+len(packed))
	copy(out, b)
	out = append(out, packed...)
	binary.BigEndian.PutUint16(out[atAttributes:], uint16(b.Attributes()&^attrCodec|int16(c.Codec)))
	out.resize(int(b.Count()))
	return out, nil
}
