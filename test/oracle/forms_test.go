package oracle

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// forms are ways to get a request wrong, or nearly. Each changes a frame whose body begins at an index.
func forms() []form {
	return []form{
		{"nothing set", false, func(frame []byte, _ int) []byte { return frame }},
		{"everything set", true, func(frame []byte, _ int) []byte { return frame }},
		{"cut by a byte", true, func(frame []byte, _ int) []byte { return frame[:len(frame)-1] }},
		{"cut in the middle", true, func(frame []byte, body int) []byte { return frame[:body+(len(frame)-body)/2] }},
		{"without a body", true, func(frame []byte, body int) []byte { return frame[:body] }},
		{"a body of 0xff", true, func(frame []byte, body int) []byte {
			for i := range frame[body:] {
				frame[body+i] = 0xff
			}
			return frame
		}},
		{"a body of 0x7f", true, func(frame []byte, body int) []byte {
			for i := range frame[body:] {
				frame[body+i] = 0x7f
			}
			return frame
		}},
		{"a byte too many", true, func(frame []byte, _ int) []byte { return append(frame, 1) }},
	}
}

type form struct {
	name   string
	filled bool
	change func(frame []byte, body int) []byte
}

// unsafe are APIs that change the broker itself, or answer something else each time, when they are asked at random.
var unsafe = []string{"UnregisterBroker", "UpdateFeatures", "InitProducerID"}

// TestForms sends each API in each version, empty, with one of everything, and malformed.
func TestForms(t *testing.T) {
	const path = "testdata/forms.txt"
	compare(t, path, &malformed{readBook(t, path)})
}

// malformed is a script of all forms of all requests.
type malformed struct{ entries []*entry }

func (s *malformed) book() []*entry { return s.entries }

func (s *malformed) asks(_ release, versions served) bool {
	return len(versions.broker)+len(versions.controller) > 0
}

func (s *malformed) play(st *stage, said func(*entry, answers)) {
	st.group("t")
	s.send(st, "", said)
	if st.at.controller != "" {
		st.controller()
		s.send(st, "controller: ", said)
	}
}

func (s *malformed) send(st *stage, heading string, said func(*entry, answers)) {
	for _, name := range slices.Sorted(maps.Keys(st.ranges)) {
		if slices.Contains(unsafe, name) {
			continue
		}
		for _, f := range forms() {
			got := answers{}
			for v := st.ranges[name].from; v <= st.ranges[name].to; v++ {
				got[v] = st.sendForm(name, v, f)
			}
			said(s.entry(heading+name+", "+f.name), got)
		}
	}
}

func (s *malformed) entry(line string) *entry {
	for _, e := range s.entries {
		if e.line == line {
			return e
		}
	}
	s.entries = append(s.entries, &entry{line: line, asked: true, kafka: answers{}})
	return s.entries[len(s.entries)-1]
}

func (s *stage) sendForm(name string, version int16, f form) string {
	req := requestByName(name)
	if f.filled {
		fillOne(reflect.ValueOf(req).Elem())
	}
	if p, ok := req.(*kmsg.ProduceRequest); ok {
		p.Acks = 1
	}
	req.SetVersion(version)
	frame := s.c.frame(req)
	frame = f.change(frame, len(frame)-len(req.AppendTo(nil)))
	body, err := s.c.exchange(frame)
	if err != nil {
		return err.Error()
	}
	resp, err := s.c.read(req, body)
	if err != nil {
		return fmt.Sprintf("unreadable: %v", err)
	}
	return s.shower().show(resp)
}

// fillOne sets every field, and gives every array one element.
func fillOne(v reflect.Value) {
	if d, ok := v.Addr().Interface().(interface{ Default() }); ok {
		d.Default()
	}
	for i := range v.NumField() {
		switch v.Type().Field(i).Name {
		case "Version", "UnknownTags":
		case "ReplicaState", "HighWatermark", "ReplicaDirectoryID", "OfflineLogDirs", "CordonedLogDirs": // not in all versions, and Apache Kafka closes the connection in the others
		case "TimeoutMillis":
			v.Field(i).SetInt(5000)
		case "CoordinatorType": // of a group
		default:
			fillField(v.Field(i))
		}
	}
}

func fillField(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		fillOne(v)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillField(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fillField(v.Index(0))
	case reflect.String:
		v.SetString("t")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		v.SetUint(1)
	}
}
