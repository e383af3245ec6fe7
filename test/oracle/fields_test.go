package oracle

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/batch"
)

// requestByName is an empty request, or nil if there is none of that name.
func requestByName(name string) kmsg.Request {
	for key := range int16(kmsg.MaxKey + 1) {
		if kmsg.NameForKey(key) == name {
			return kmsg.RequestForKey(key)
		}
	}
	return nil
}

// fields fills requests from JSON. Defaults stay where nothing is said, in elements of arrays too.
type fields struct {
	ids  map[string][16]byte // of topics, by name
	kept func(name string) (any, bool)
	now  time.Time
}

func (f fields) fill(req kmsg.Request, text string) error {
	if text == "" {
		return nil
	}
	var in any
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&in); err != nil {
		return err
	}
	return f.set(reflect.ValueOf(req).Elem(), in)
}

func (f fields) set(v reflect.Value, in any) error {
	if name, ok := in.(string); ok && strings.HasPrefix(name, "$") {
		value, ok := f.kept(name[1:])
		if !ok {
			return fmt.Errorf("nothing was kept as %s", name)
		}
		if kept := reflect.ValueOf(value); v.Kind() == reflect.Pointer {
			v.Set(reflect.New(v.Type().Elem()))
			v.Elem().Set(kept)
		} else {
			v.Set(kept)
		}
		return nil
	}
	if in == nil {
		v.SetZero()
		return nil
	}
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	if id, ok := v.Addr().Interface().(*[16]byte); ok {
		return f.setID(id, in.(string))
	}
	switch in := in.(type) {
	case map[string]any:
		return f.setStruct(v, in)
	case []any:
		v.Set(reflect.MakeSlice(v.Type(), len(in), len(in)))
		for i := range in {
			if err := f.set(v.Index(i), in[i]); err != nil {
				return err
			}
		}
	case string:
		var n int
		if _, err := fmt.Sscanf(in, "wide %d", &n); err == nil { // so many letters
			in = strings.Repeat("w", n)
		}
		if v.Kind() != reflect.Slice {
			v.SetString(in)
			return nil
		}
		data, err := f.bytes(in)
		v.SetBytes(data)
		return err
	case bool:
		v.SetBool(in)
	case json.Number:
		i, err := in.Int64()
		if err != nil {
			return err
		}
		if v.CanUint() {
			v.SetUint(uint64(i))
		} else {
			v.SetInt(i)
		}
	}
	return nil
}

func (f fields) setStruct(v reflect.Value, in map[string]any) error {
	if d, ok := v.Addr().Interface().(interface{ Default() }); ok && !v.FieldByName("Version").IsValid() {
		d.Default()
	}
	for name, value := range in {
		field := v.FieldByName(name)
		if !field.IsValid() {
			return fmt.Errorf("%s has no field %s", v.Type(), name)
		}
		if err := f.set(field, value); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// setID reads the name of a topic, "unknown" or "zero".
func (f fields) setID(id *[16]byte, name string) error {
	switch known, ok := f.ids[name]; {
	case ok:
		*id = known
	case name == "unknown":
		*id = [16]byte{0xab, 1: 0xcd, 6: 0x40, 8: 0x80, 15: 7}
	case name == "one": // Kafka's id of the metadata log
		*id = [16]byte{15: 1}
	case name != "zero":
		return fmt.Errorf("no topic %s", name)
	}
	return nil
}

// bytes reads a batch, or takes the text as it is:
//
//	records N [codec] [producer ID EPOCH SEQUENCE] [from OFFSET] [shift MS] [time MS] [wide BYTES] [keyless] [valueless] [control] [stamped] [format 0|1]
//	[numbered OFFSET] [marked BITS] [hollow] [in 0|1 codec] [twice] [garbled] [cut]
//
// From: another base offset than 0. Shift: so much later. Time: then, and not now. Wide: values of so many bytes. Control: marked as
// Kafka's own. Stamped: claims append time. In formats 0 and 1 it is a message set. Numbered: other offsets. Marked: bits of the
// attributes. Hollow: none of it. In: the value of a message of that format. Twice: and once more. Garbled: another last byte. Cut: without
// the last byte. From format on they are done in the order in which they are named.
func (f fields) bytes(text string) ([]byte, error) {
	words := strings.Fields(text)
	if len(words) < 2 || words[0] != "records" {
		return []byte(text), nil
	}
	var err error
	number := func(text string) int {
		n, bad := strconv.Atoi(text)
		err = errors.Join(err, bad)
		return n
	}
	count, at := number(words[1]), f.now.UnixMilli()
	o := batch.BuildOptions{LeaderEpoch: -1}
	key := []byte("key")
	value := func(i int) []byte { return fmt.Appendf(nil, "value %d", i) }
	change := func(data []byte) ([]byte, error) { return data, nil }
	then := func(next func([]byte) ([]byte, error)) {
		before := change
		change = func(data []byte) ([]byte, error) {
			data, err := before(data)
			if err != nil {
				return nil, err
			}
			return next(data)
		}
	}
	for words = words[2:]; len(words) > 0; words = words[1:] {
		switch word := words[0]; {
		case word == "producer" && len(words) > 3:
			p := &batch.Producer{}
			if _, err := fmt.Sscan(strings.Join(words[1:4], " "), &p.ID, &p.Epoch, &p.BaseSequence); err != nil {
				return nil, err
			}
			o.Producer, words = p, words[3:]
		case word == "from" && len(words) > 1:
			o.BaseOffset, words = int64(number(words[1])), words[1:]
		case word == "shift" && len(words) > 1:
			at, words = at+int64(number(words[1])), words[1:]
		case word == "time" && len(words) > 1:
			at, words = int64(number(words[1])), words[1:]
		case word == "wide" && len(words) > 1:
			size := number(words[1])
			value, words = func(int) []byte { return make([]byte, size) }, words[1:]
		case word == "keyless":
			key = nil
		case word == "valueless":
			value = func(int) []byte { return nil }
		case word == "control":
			o.Control = true
		case word == "stamped":
			o.AppendTime, o.Timestamp = true, f.now.UnixMilli()
		case word == "format" && len(words) > 1:
			magic := int8(number(words[1]))
			then(func(data []byte) ([]byte, error) { return batch.Batch(data).Messages(magic, batch.DownOptions{}) })
			words = words[1:]
		case word == "numbered" && len(words) > 1:
			first := int64(number(words[1]))
			then(func(data []byte) ([]byte, error) { return numbered(data, first), nil })
			words = words[1:]
		case word == "marked" && len(words) > 1:
			bits := byte(number(words[1]))
			then(func(data []byte) ([]byte, error) { return marked(data, bits), nil })
			words = words[1:]
		case word == "hollow":
			then(func([]byte) ([]byte, error) { return nil, nil })
		case word == "in" && len(words) > 2:
			magic, c := byte(number(words[1])), codec(words[2])
			then(func(data []byte) ([]byte, error) { return around(data, magic, c, f.now) })
			words = words[2:]
		case word == "twice":
			then(func(data []byte) ([]byte, error) { return append(data, data...), nil })
		case word == "garbled":
			then(func(data []byte) ([]byte, error) { data[len(data)-1] ^= 1; return data, nil })
		case word == "cut":
			then(func(data []byte) ([]byte, error) { return data[:len(data)-1], nil })
		default:
			if o.Codec = codec(word); o.Codec.String() != word {
				return nil, fmt.Errorf("%q: what is %q?", text, word)
			}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%q: %w", text, err)
	}
	builder := batch.NewBuilder(o)
	for i := range count {
		builder.Add(batch.Record{Timestamp: at, Key: key, Value: value(i)})
	}
	return change(builder.Build())
}

func codec(name string) batch.Codec {
	for c := batch.None; c <= batch.Zstd; c++ {
		if c.String() == name {
			return c
		}
	}
	return batch.None
}
