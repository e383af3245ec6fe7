package oracle

import (
	"encoding/json"
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
//	records N [codec] [producer ID EPOCH SEQUENCE] [wide BYTES] [format 0|1] [twice] [garbled] [cut]
//
// Wide: values of so many bytes. In formats 0 and 1 it is a message set. Twice: and once more. Garbled: another last byte. Cut: without the last byte.
func (f fields) bytes(text string) ([]byte, error) {
	words := strings.Fields(text)
	if len(words) < 2 || words[0] != "records" {
		return []byte(text), nil
	}
	count, err := strconv.Atoi(words[1])
	if err != nil {
		return nil, err
	}
	o := batch.BuildOptions{LeaderEpoch: -1}
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
		case word == "wide" && len(words) > 1:
			size, err := strconv.Atoi(words[1])
			if err != nil {
				return nil, err
			}
			value, words = func(int) []byte { return make([]byte, size) }, words[1:]
		case word == "format" && len(words) > 1:
			magic, err := strconv.ParseInt(words[1], 10, 8)
			if err != nil {
				return nil, err
			}
			then(func(data []byte) ([]byte, error) { return batch.Batch(data).Messages(int8(magic), batch.DownOptions{}) })
			words = words[1:]
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
	builder := batch.NewBuilder(o)
	for i := range count {
		builder.Add(batch.Record{Timestamp: f.now.UnixMilli(), Key: []byte("key"), Value: value(i)})
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
