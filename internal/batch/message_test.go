package batch

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

// oldMessage is one message as kmsg, which shares no code with this package, writes and reads it.
type oldMessage struct {
	magic      int8
	attributes int8
	offset     kafka.Offset
	timestamp  int64
	key, value []byte
}

func (m oldMessage) encode() []byte {
	var b []byte
	if m.magic == 0 {
		v := kmsg.MessageV0{Offset: m.offset, Attributes: m.attributes, Key: m.key, Value: m.value}
		b = v.AppendTo(nil)
	} else {
		v := kmsg.MessageV1{Offset: m.offset, Magic: m.magic, Attributes: m.attributes, Timestamp: m.timestamp, Key: m.key, Value: m.value}
		b = v.AppendTo(nil)
	}
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	binary.BigEndian.PutUint32(b[12:], crc32.ChecksumIEEE(b[16:]))
	return b
}

func encodeSet(messages []oldMessage) []byte {
	var set []byte
	for _, m := range messages {
		set = append(set, m.encode()...)
	}
	return set
}

// wrap is a set compressed by codec, its wrapper given by m.
func wrap(t testing.TB, codec Codec, m oldMessage, inner []byte) []byte {
	t.Helper()
	packed, err := Compress(codec, 0, inner)
	if err != nil {
		t.Fatal(err)
	}
	m.attributes |= int8(codec)
	m.value = packed
	return m.encode()
}

// decodeSet reads a set and, in place of wrappers, what is in them. Offsets inside become absolute.
func decodeSet(t testing.TB, set []byte) []oldMessage {
	t.Helper()
	var all []oldMessage
	for len(set) > 0 {
		size := 12 + int(binary.BigEndian.Uint32(set[8:]))
		if size > len(set) {
			t.Fatalf("message of %d bytes in %d", size, len(set))
		}
		one := set[:size]
		set = set[size:]
		if crc32.ChecksumIEEE(one[16:]) != binary.BigEndian.Uint32(one[12:]) {
			t.Fatalf("CRC of the message at offset %d is wrong", int64(binary.BigEndian.Uint64(one)))
		}
		var m oldMessage
		if one[16] == 0 {
			var v kmsg.MessageV0
			if err := v.ReadFrom(one); err != nil {
				t.Fatal(err)
			}
			m = oldMessage{magic: 0, attributes: v.Attributes, offset: v.Offset, timestamp: NoTimestamp, key: v.Key, value: v.Value}
		} else {
			var v kmsg.MessageV1
			if err := v.ReadFrom(one); err != nil {
				t.Fatal(err)
			}
			m = oldMessage{magic: v.Magic, attributes: v.Attributes, offset: v.Offset, timestamp: v.Timestamp, key: v.Key, value: v.Value}
		}
		codec := Codec(m.attributes & 7)
		if codec == None {
			all = append(all, m)
			continue
		}
		var plain []byte
		var err error
		if codec == LZ4 && m.magic == 0 {
			plain, err = decompressLZ4(nil, m.value, 1<<30, true)
		} else {
			plain, err = Decompress(codec, m.value, 1<<30)
		}
		if err != nil {
			t.Fatal(err)
		}
		inner := decodeSet(t, plain)
		last := inner[len(inner)-1].offset
		for _, in := range inner {
			if m.magic == 1 {
				in.offset += m.offset - last
			}
			all = append(all, in)
		}
		if m.magic == 0 && last != m.offset {
			t.Fatalf("wrapper's offset is %d, that of the last message %d", m.offset, last)
		}
	}
	return all
}

var oldCodecs = []Codec{None, Gzip, Snappy, LZ4}

// TestFromMessages: each message becomes a record, whatever the offsets say.
func TestFromMessages(t *testing.T) {
	contents := []oldMessage{
		{timestamp: 1000, key: []byte("k"), value: []byte("v")},
		{timestamp: 900, key: nil, value: []byte("no key")},
		{timestamp: 2000, key: []byte("no value"), value: nil},
		{timestamp: -1, key: []byte{}, value: []byte{}},
		{timestamp: 1 << 60, key: bytes.Repeat([]byte("long"), 5000), value: bytes.Repeat([]byte{0}, 70_000)},
	}
	offsets := map[string]func(i int) kafka.Offset{
		"absolute": func(i int) kafka.Offset { return 7000 + int64(i) },
		"relative": func(i int) kafka.Offset { return int64(i) },
		"nonsense": func(i int) kafka.Offset { return int64(-5 * i) },
	}
	var packers Packers
	for magic := int8(0); magic <= 1; magic++ {
		for _, codec := range oldCodecs {
			for name, offset := range offsets {
				var messages []oldMessage
				var want []Record
				for i, m := range contents {
					m.magic, m.offset = magic, offset(i)
					messages = append(messages, m)
					r := Record{Offset: int64(i), Timestamp: m.timestamp, Key: m.key, Value: m.value}
					if magic == 0 {
						r.Timestamp = NoTimestamp
					}
					want = append(want, r)
				}
				set := encodeSet(messages)
				if codec != None {
					set = wrap(t, codec, oldMessage{magic: magic, offset: offset(len(contents) - 1)}, set)
				}
				before := bytes.Clone(set)
				b, err := FromMessages(set, UpOptions{MaxMessageBytes: 1 << 20, Packers: &packers})
				if err != nil {
					t.Fatalf("format %d, %v, %s: %v", magic, codec, name, err)
				}
				if !bytes.Equal(set, before) {
					t.Errorf("format %d, %v, %s: the set was changed", magic, codec, name)
				}
				if got := recordsOf(t, b); !reflect.DeepEqual(got, want) {
					t.Errorf("format %d, %v, %s: got %v", magic, codec, name, got)
				}
				if b.Codec() != codec {
					t.Errorf("format %d, %v, %s: codec became %v", magic, codec, name, b.Codec())
				}
				info, err := Check(b, CheckOptions{Client: true, Deep: true, BeforeMaxMs: 1<<63 - 1, AfterMaxMs: 1<<63 - 1})
				if err != nil || info.MaxTimestamp != b.MaxTimestamp() {
					t.Errorf("format %d, %v, %s: %+v, %v", magic, codec, name, info, err)
				}
			}
		}
	}
}

func recordsOf(t testing.TB, b Batch) []Record {
	t.Helper()
	var got []Record
	if err := b.Each(func(r Record) error {
		got = append(got, r)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return got
}

// TestFromMessagesWithAppendTime: the wrapper's time stands for all, and Check knows that the producer claims it.
func TestFromMessagesWithAppendTime(t *testing.T) {
	inner := encodeSet([]oldMessage{{magic: 1, timestamp: 5, value: []byte("a")}, {magic: 1, offset: 1, timestamp: 6, value: []byte("b")}})
	set := wrap(t, Gzip, oldMessage{magic: 1, attributes: attrAppendTime, timestamp: 77, offset: 1}, inner)
	b, err := FromMessages(set, UpOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Check(b, CheckOptions{Client: true, AppendTime: true}); !errors.Is(err, kerr.InvalidTimestamp) {
		t.Errorf("claims append time on such a topic: %v", err)
	}
	b.SetCreateTime(77)
	for _, r := range recordsOf(t, b) {
		if r.Timestamp != 77 {
			t.Errorf("record at %d has timestamp %d", r.Offset, r.Timestamp)
		}
	}
}

func TestFromMessagesRefuses(t *testing.T) {
	plain := oldMessage{magic: 1, value: []byte("v")}
	corrupt := plain.encode()
	corrupt[len(corrupt)-1] ^= 1
	longKey := plain.encode()
	binary.BigEndian.PutUint32(longKey[26:], 100)
	reseal := func(b []byte) []byte {
		binary.BigEndian.PutUint32(b[12:], crc32.ChecksumIEEE(b[16:]))
		return b
	}
	more := append(bytes.Clone(plain.encode()), 0)
	binary.BigEndian.PutUint32(more[8:], uint32(len(more)-12))
	tooSmall := make([]byte, 26)
	tooSmall[11], tooSmall[16] = 14, 1
	wrapper := oldMessage{magic: 1}
	gz := func(inner []byte) []byte { return wrap(t, Gzip, wrapper, inner) }
	for name, c := range map[string]struct {
		set  []byte
		want error
	}{
		"nothing":                            {nil, kerr.CorruptMessage},
		"a batch of format 2":                {oneRecord("x"), kerr.CorruptMessage},
		"flipped bit":                        {corrupt, kerr.CorruptMessage},
		"flipped bit after a good one":       {append(plain.encode(), corrupt...), kerr.CorruptMessage},
		"a key beyond the end":               {reseal(longKey), kerr.CorruptMessage},
		"bytes after the value":              {reseal(more), kerr.CorruptMessage},
		"format 1 without room for its time": {reseal(tooSmall), kerr.CorruptMessage},
		"half a second message":              {append(plain.encode(), plain.encode()[:20]...), kerr.CorruptMessage},
		"half a second header":               {append(plain.encode(), plain.encode()[:9]...), kerr.CorruptMessage},
		"two formats":                        {append(plain.encode(), oldMessage{value: []byte("0")}.encode()...), kerr.InvalidRecord},
		"format 2 behind format 1":           {append(plain.encode(), oneRecord("x")...), kerr.InvalidRecord},
		"two wrappers":                       {append(gz(plain.encode()), gz(plain.encode())...), kerr.InvalidRecord},
		"a wrapper behind a message":         {append(plain.encode(), gz(plain.encode())...), kerr.InvalidRecord},
		"a wrapper in a wrapper":             {gz(gz(plain.encode())), kerr.InvalidRecord},
		"an empty wrapper":                   {gz(nil), kerr.InvalidRecord},
		"a wrapper without value":            {oldMessage{magic: 1, attributes: 1}.encode(), kerr.InvalidRecord},
		"garbage in a wrapper":               {oldMessage{magic: 1, attributes: 1, value: []byte("garbage")}.encode(), kerr.InvalidRecord},
		"another format inside":              {gz(oldMessage{value: []byte("0")}.encode()), kerr.InvalidRecord},
		"a flipped bit inside":               {gz(corrupt), kerr.CorruptMessage},
		"half a message inside":              {gz(plain.encode()[:30]), kerr.CorruptMessage},
		"zstd":                               {wrap(t, Zstd, wrapper, plain.encode()), kerr.InvalidRecord},
		"an unknown codec":                   {oldMessage{magic: 1, attributes: 6, value: []byte("?")}.encode(), kerr.UnsupportedCompressionType},
		"too long":                           {oldMessage{magic: 1, value: make([]byte, 2000)}.encode(), kerr.MessageTooLarge},
		"an offset below those inside":       {wrap(t, Gzip, oldMessage{magic: 1, offset: 4}, oldMessage{magic: 1, offset: 5}.encode()), kerr.InvalidRecord},
		"a negative offset around others":    {wrap(t, Gzip, oldMessage{magic: 1, offset: -4}, plain.encode()), kerr.InvalidRecord},
		"a negative time":                    {oldMessage{magic: 1, timestamp: -2}.encode(), kerr.InvalidTimestamp},
		"a negative time inside":             {gz(oldMessage{magic: 1, timestamp: math.MinInt64}.encode()), kerr.InvalidTimestamp},
		"a negative time for all inside":     {wrap(t, Gzip, oldMessage{magic: 1, attributes: 8, timestamp: -2}, plain.encode()), kerr.InvalidTimestamp},
		"lz4 of format 1 with the old sum":   {historic(t, 1, plain.encode()), kerr.InvalidRecord},
	} {
		if _, err := FromMessages(c.set, UpOptions{MaxMessageBytes: 1000}); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	good := append(plain.encode(), plain.encode()...)
	for n := range len(good) {
		if _, err := FromMessages(good[:n], UpOptions{}); n != len(good)/2 && !errors.Is(err, kerr.CorruptMessage) {
			t.Errorf("cut after %d of %d bytes: %v", n, len(good), err)
		}
	}
}

// oneRecord is a batch of one record.
func oneRecord(value string) []byte {
	bu := NewBuilder(BuildOptions{})
	bu.Add(Record{Value: []byte(value)})
	return bu.Build()
}

// historic is a set compressed by lz4 as clients of format 0 did.
func historic(t *testing.T, magic int8, inner []byte) []byte {
	t.Helper()
	packed, err := Compress(LZ4, 0, inner)
	if err != nil {
		t.Fatal(err)
	}
	setHistoricLZ4Checksum(packed)
	return oldMessage{magic: magic, attributes: int8(LZ4), value: packed}.encode()
}

// TestHistoricLZ4: what genuine brokers sent, to Fetch version 0 and to version 3.
func TestHistoricLZ4(t *testing.T) {
	old, err := hex.DecodeString("04224d1860401a")
	if err != nil {
		t.Fatal(err)
	}
	right := []byte{0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82}
	got := bytes.Clone(right)
	setHistoricLZ4Checksum(got)
	if !bytes.Equal(got, old) {
		t.Errorf("%x became %x, want %x", right, got, old)
	}
	// With a content size the descriptor is longer.
	long := append([]byte{0x04, 0x22, 0x4d, 0x18, 0x68, 0x40}, "12345678"...)
	if at := lz4ChecksumAt(append(long, 0)); at != len(long) {
		t.Errorf("checksum at %d, want %d", at, len(long))
	}
	inner := oldMessage{magic: 0, value: []byte("v")}.encode()
	for name, set := range map[string][]byte{"historic": historic(t, 0, inner), "right": wrap(t, LZ4, oldMessage{}, inner)} {
		if _, err := FromMessages(set, UpOptions{}); err != nil {
			t.Errorf("format 0 with the %s checksum: %v", name, err)
		}
	}
}

// TestMessages: what a batch becomes for old readers, with gaps where compaction took records.
func TestMessages(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var packers Packers // used again and again
	for round := range 200 {
		codec := oldCodecs[rng.IntN(len(oldCodecs))]
		o := BuildOptions{BaseOffset: rng.Int64N(1 << 40), LeaderEpoch: 3, Codec: codec, AppendTime: rng.IntN(4) == 0, Timestamp: 12345}
		if rng.IntN(3) == 0 {
			o.Producer = &Producer{ID: 1, BaseSequence: 4}
			o.Transactional = rng.IntN(2) == 0
		}
		bu := NewBuilder(o)
		for _, r := range randomRecords(rng, 1+rng.IntN(20)) {
			if rng.IntN(20) == 0 {
				r.Value = make([]byte, downGather-1+rng.IntN(3)) // from which on a value is not copied
			}
			bu.Add(r)
		}
		b := bu.Build()
		if rng.IntN(3) == 0 && b.Count() > 2 {
			b = withoutSome(t, b, rng)
		}
		for magic := int8(0); magic <= 1; magic++ {
			set, err := b.Messages(magic, DownOptions{Packers: &packers})
			if err != nil {
				t.Fatal(err)
			}
			var want []oldMessage
			for _, r := range recordsOf(t, b) {
				m := oldMessage{magic: magic, offset: r.Offset, timestamp: r.Timestamp, key: r.Key, value: r.Value}
				if magic == 0 {
					m.timestamp = NoTimestamp
				} else if b.LogAppendTime() {
					m.attributes = attrAppendTime
				}
				want = append(want, m)
			}
			if got := decodeSet(t, set); !reflect.DeepEqual(got, want) {
				t.Fatalf("round %d, format %d, %v:\ngot  %v\nwant %v", round, magic, codec, got, want)
			}
			checkWrapper(t, b, set, magic)
		}
	}
}

// withoutSome is b without some of its records, as compaction leaves it.
func withoutSome(t *testing.T, b Batch, rng *rand.Rand) Batch {
	t.Helper()
	left, kept, err := b.Filter(FilterOptions{Keep: func(kafka.Offset, []byte, bool) bool { return rng.IntN(2) == 0 }})
	if err != nil {
		t.Fatal(err)
	}
	if kept == 0 {
		return b
	}
	return left
}

// checkWrapper looks at what old readers take from the wrapper alone.
func checkWrapper(t *testing.T, b Batch, set []byte, magic int8) {
	t.Helper()
	if b.Codec() == None {
		return
	}
	m, rest, err := nextMessage(set, magic)
	if err != nil || len(rest) > 0 || m.codec() != b.Codec() || m.key != nil {
		t.Fatalf("wrapper %+v, %d bytes after it, %v", m, len(rest), err)
	}
	if magic == 1 && m.timestamp != b.MaxTimestamp() && !b.DeleteHorizonSet() {
		largest, _, err := b.OffsetOfMaxTimestamp()
		if err != nil || m.timestamp != largest {
			t.Errorf("wrapper's timestamp is %d, the largest %d (%v)", m.timestamp, largest, err)
		}
	}
}

func TestMessagesLeavesOut(t *testing.T) {
	control := NewBuilder(BuildOptions{Control: true, Transactional: true, Producer: &Producer{ID: 1, BaseSequence: -1}})
	control.Add(Record{Key: []byte{0, 0, 0, 1}, Value: []byte{0, 0, 0, 0, 0, 0}})
	if set, err := control.Build().Messages(1, DownOptions{}); len(set) != 0 || err != nil {
		t.Errorf("a control batch: %d bytes, %v", len(set), err)
	}
	zs := NewBuilder(BuildOptions{Codec: Zstd})
	zs.Add(Record{Value: []byte("v")})
	if _, err := zs.Build().Messages(1, DownOptions{}); !errors.Is(err, kerr.UnsupportedCompressionType) {
		t.Errorf("zstd: %v", err)
	}
	rotten := Batch(oneRecord("v"))
	rotten[len(rotten)-1] ^= 1
	if _, err := rotten.Messages(0, DownOptions{}); !errors.Is(err, kerr.CorruptMessage) {
		t.Errorf("a flipped bit: %v", err)
	}
}

func TestMessagesFrom(t *testing.T) {
	bu := NewBuilder(BuildOptions{BaseOffset: 100})
	for i := range 5 {
		bu.Add(Record{Value: fmt.Append(nil, i)})
	}
	set, err := bu.Build().Messages(1, DownOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for from := kafka.Offset(95); from < 110; from++ {
		got := decodeSet(t, MessagesFrom(set, from))
		want := int(min(max(105-from, 0), 5))
		if len(got) != want || want > 0 && got[0].offset != max(from, 100) {
			t.Errorf("from %d: %v", from, got)
		}
	}
}

// zeros are so many, compressed: a power of two, from which on a MiB repeats itself.
func zeros(t *testing.T, codec Codec, size int) []byte {
	t.Helper()
	plain := make([]byte, min(size, 1<<20))
	one, err := Compress(codec, 0, plain)
	if err != nil {
		t.Fatal(err)
	}
	times := size / len(plain)
	switch codec {
	case Gzip: // members follow each other
		return bytes.Repeat(one, times)
	case Snappy:
		return append(one[:xerialHeaderBytes:xerialHeaderBytes], bytes.Repeat(one[xerialHeaderBytes:], times)...)
	}
	// LZ4: between the descriptor and the mark of the end.
	return append(append(one[:7:7], bytes.Repeat(one[7:len(one)-4], times)...), 0, 0, 0, 0)
}

// TestNestedBombs: compressed sets in compressed sets, from small ones to a gigabyte, take the same memory: what is inside is
// never opened.
func TestNestedBombs(t *testing.T) {
	var before, after runtime.MemStats
	for _, inner := range oldCodecs[1:] {
		for size := 1 << 10; size <= 1<<30; size <<= 5 {
			set := oldMessage{magic: 1, attributes: int8(inner), value: zeros(t, inner, size)}.encode()
			for _, outer := range oldCodecs[1:] {
				nested := wrap(t, outer, oldMessage{magic: 1}, set)
				runtime.ReadMemStats(&before)
				_, err := FromMessages(nested, UpOptions{PlainBytes: 8 << 20})
				runtime.ReadMemStats(&after)
				if !errors.Is(err, kerr.InvalidRecord) {
					t.Errorf("%d bytes in %v in %v: %v", size, inner, outer, err)
				}
				if took := after.TotalAlloc - before.TotalAlloc; took > 32<<20 {
					t.Errorf("%d bytes in %v in %v: %d bytes of memory for %d", size, inner, outer, took, len(nested))
				}
			}
		}
	}
}

// TestMessageBombs: sets of some megabytes that hold a gigabyte.
func TestMessageBombs(t *testing.T) {
	for _, codec := range []Codec{Gzip, Snappy, LZ4} {
		packed := zeros(t, codec, 1<<30)
		set := oldMessage{magic: 1, attributes: int8(codec), value: packed}.encode()
		if _, err := FromMessages(set, UpOptions{MaxMessageBytes: len(set) - 1}); !errors.Is(err, kerr.MessageTooLarge) {
			t.Errorf("%v, longer than max.message.bytes: %v", codec, err)
		}
		refuses := func(what string, set []byte, plainBytes int, most uint64) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := FromMessages(set, UpOptions{PlainBytes: plainBytes})
			runtime.ReadMemStats(&after)
			if !errors.Is(err, kerr.InvalidRecord) {
				t.Errorf("%v, %s: %v", codec, what, err)
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > most {
				t.Errorf("%v, %s: %d bytes of memory for %d", codec, what, took, len(set))
			}
		}
		refuses("with a limit", set, 8<<20, 64<<20)
		if codec != Snappy { // which packs so little that the limit of such a set is near a gigabyte
			refuses("without a limit", set, 0, 512<<20)
			refuses("in a set", wrap(t, Gzip, oldMessage{magic: 1}, set), 8<<20, 64<<20)
		}
	}
}

// TestMessagesOfManySmallRecords: a batch that is small on the wire and large as a message set is never whole in memory.
func TestMessagesOfManySmallRecords(t *testing.T) {
	for _, codec := range []Codec{Gzip, Snappy, LZ4} {
		bu := NewBuilder(BuildOptions{Codec: codec})
		for range 400_000 { // 9 bytes each here, 34 in format 1
			bu.Add(Record{})
		}
		b := bu.Build()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		set, err := b.Messages(1, DownOptions{})
		runtime.ReadMemStats(&after)
		if err != nil {
			t.Fatal(err)
		}
		took := after.TotalAlloc - before.TotalAlloc
		if most := uint64(16<<20 + 8*len(set)); took > most { // 13 MiB without the race detector, under which pools forget
			t.Errorf("%v: %d bytes of memory, at most %d are allowed", codec, took, most)
		}
	}
}

// FuzzFromMessages: no input makes it panic or take much memory, and what it makes passes Check and survives the way back.
func FuzzFromMessages(f *testing.F) {
	for magic := int8(0); magic <= 1; magic++ {
		inner := encodeSet([]oldMessage{{magic: magic, key: []byte("k"), value: []byte("v")}, {magic: magic, offset: 1, timestamp: 9}})
		f.Add(inner)
		for _, codec := range oldCodecs[1:] {
			f.Add(wrap(f, codec, oldMessage{magic: magic, offset: 1}, inner))
		}
	}
	f.Fuzz(func(t *testing.T, set []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		b, err := FromMessages(set, UpOptions{PlainBytes: 1 << 20})
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > uint64(16<<20+64*len(set)) {
			t.Fatalf("%d bytes of memory for %d", took, len(set))
		}
		if err != nil {
			return
		}
		if _, err := Check(b, CheckOptions{Client: true, Deep: true, BeforeMaxMs: 1<<63 - 1, AfterMaxMs: 1<<63 - 1}); err != nil {
			t.Fatalf("made a batch that is refused: %v", err)
		}
		again, err := b.Messages(int8(set[atMessageMagic]), DownOptions{})
		if err != nil {
			t.Fatalf("no way back: %v", err)
		}
		b2, err := FromMessages(again, UpOptions{})
		if err != nil || !reflect.DeepEqual(recordsOf(t, b2), recordsOf(t, b)) {
			t.Fatalf("the way back and forth again: %v", err)
		}
	})
}

// FuzzMessages: a batch that passes Check becomes a set that means the same.
func FuzzMessages(f *testing.F) {
	for _, codec := range oldCodecs {
		bu := NewBuilder(BuildOptions{Codec: codec})
		bu.Add(Record{Key: []byte("k"), Value: []byte("v"), Headers: []Header{{Key: "h"}}})
		bu.Add(Record{Timestamp: 5})
		f.Add([]byte(bu.Build()))
	}
	negative := oneRecord("v")
	binary.BigEndian.PutUint32(negative[atCount:], 1<<31)
	f.Add(negative)
	f.Fuzz(func(t *testing.T, data []byte) {
		b, _, err := Next(data)
		if err != nil {
			return
		}
		b = bytes.Clone(b)
		b.seal() // or the fuzzer would look for CRCs
		if _, err := Check(b, CheckOptions{Client: true, Deep: true, BeforeMaxMs: 1<<63 - 1, AfterMaxMs: 1<<63 - 1}); err != nil || b.Codec() == Zstd {
			_, _ = b.Messages(1, DownOptions{PlainBytes: 1 << 20})
			return
		}
		for magic := int8(0); magic <= 1; magic++ {
			set, err := b.Messages(magic, DownOptions{})
			if err != nil {
				t.Fatal(err)
			}
			want := recordsOf(t, b)
			back, err := FromMessages(set, UpOptions{})
			if slices.ContainsFunc(want, func(r Record) bool { return magic == 1 && r.Timestamp < NoTimestamp }) {
				if !errors.Is(err, kerr.InvalidTimestamp) {
					t.Fatalf("times before 1970: %v", err)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			got := recordsOf(t, back)
			for i := range want {
				want[i].Headers, want[i].Offset, want[i].Attributes = nil, int64(i), 0
				if magic == 0 {
					want[i].Timestamp = NoTimestamp
				}
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("format %d: got %v, want %v", magic, got, want)
			}
		}
	})
}
