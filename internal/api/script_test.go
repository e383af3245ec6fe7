package api

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/batch"
	"moldau/internal/kafka"
)

// TestScripts runs requests against a node and compares the answers. The verbs:
//
//	ask NAME VERSION [on=controller]   the request's fields as JSON below, @topic standing for a topic's id
//	sleep MS
//	create TOPIC [partitions=N] [config=(k=v,…)]
//	produce TOPIC [partition=N] [records=N] [acks=N] [version=N] [codec=C] [producer=(id,epoch,sequence)]
//	    [age=MS] [keyless] [flip (a bit)] [transactional]
//
// An answer is printed without fields that have their default, and with ids by the name of what they stand for.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		inNode(t, nodeOptions{}, func(n *testNode) {
			datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
				switch d.Cmd {
				case "ask":
					return n.scriptAsk(t, d)
				case "sleep":
					ms, err := strconv.Atoi(d.CmdArgs[0].Key)
					if err != nil {
						d.Fatalf(t, "%v", err)
					}
					time.Sleep(time.Duration(ms) * time.Millisecond)
					return "ok"
				case "create":
					partitions := 1
					var configs []string
					d.MaybeScanArgs(t, "partitions", &partitions)
					for _, arg := range d.CmdArgs {
						if arg.Key == "config" {
							configs = append(configs, arg.Vals...)
						}
					}
					n.create(d.CmdArgs[0].Key, int32(partitions), configs...)
					return "ok"
				case "produce":
					return n.scriptProduce(t, d)
				}
				d.Fatalf(t, "unknown verb")
				return ""
			})
		})
	})
}

func (n *testNode) scriptAsk(t *testing.T, d *datadriven.TestData) string {
	req := requestByName(d.CmdArgs[0].Key)
	if req == nil {
		d.Fatalf(t, "no such request")
	}
	version, err := strconv.Atoi(d.CmdArgs[1].Key)
	if err != nil {
		d.Fatalf(t, "version: %v", err)
	}
	req.SetVersion(int16(version))
	if d.Input != "" {
		input := n.members.expand(strings.ReplaceAll(d.Input, `"@`, `"`))
		if err := decodeFields(n, reflect.ValueOf(req).Elem(), input); err != nil {
			d.Fatalf(t, "fields: %v", err)
		}
	}
	listener := n.broker
	if d.HasArg("on") {
		listener = n.control
	}
	c := n.dial(listener)
	defer c.close()
	return n.members.shorten(n.print(c.do(req)))
}

// memberNames stand for members' ids, which are random, in the order in which they appear: member-1, member-2 …
type memberNames []string

var memberID = regexp.MustCompile(`[\w.]+-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

func (m *memberNames) shorten(text string) string {
	return memberID.ReplaceAllStringFunc(text, func(id string) string {
		i := slices.Index(*m, id)
		if i < 0 {
			i = len(*m)
			*m = append(*m, id)
		}
		return fmt.Sprintf("member-%d", i+1)
	})
}

func (m *memberNames) expand(text string) string {
	for i, id := range slices.Backward(*m) {
		text = strings.ReplaceAll(text, fmt.Sprintf("member-%d", i+1), id)
	}
	return text
}

func requestByName(name string) kmsg.Request {
	for key := range int16(kmsg.MaxKey + 1) {
		if kmsg.NameForKey(key) == name {
			return kmsg.RequestForKey(key)
		}
	}
	return nil
}

// decodeFields fills a request from JSON. Defaults stay where nothing is said, in elements of arrays too.
func decodeFields(n *testNode, v reflect.Value, text string) error {
	var fields any
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&fields); err != nil {
		return err
	}
	return setField(n, v, fields)
}

func setField(n *testNode, v reflect.Value, in any) error {
	if id, ok := v.Addr().Interface().(*[16]byte); ok {
		*id = n.topicID(in.(string))
		return nil
	}
	switch in := in.(type) {
	case nil:
		v.SetZero()
	case map[string]any:
		if v.Kind() == reflect.Pointer {
			v.Set(reflect.New(v.Type().Elem()))
			v = v.Elem()
		}
		if d, ok := v.Addr().Interface().(interface{ Default() }); ok && v.Kind() == reflect.Struct && v.FieldByName("Version").Kind() == reflect.Invalid {
			d.Default()
		}
		for name, value := range in {
			f := v.FieldByName(name)
			if !f.IsValid() {
				return fmt.Errorf("%s has no field %s", v.Type(), name)
			}
			if err := setField(n, f, value); err != nil {
				return err
			}
		}
	case []any:
		v.Set(reflect.MakeSlice(v.Type(), len(in), len(in)))
		for i := range in {
			if err := setField(n, v.Index(i), in[i]); err != nil {
				return err
			}
		}
	case string:
		if v.Kind() == reflect.Pointer {
			v.Set(reflect.New(v.Type().Elem()))
			v = v.Elem()
		}
		if v.Kind() == reflect.Slice {
			v.SetBytes([]byte(in))
			return nil
		}
		v.SetString(in)
	case bool:
		v.SetBool(in)
	case json.Number:
		i, err := in.Int64()
		if err != nil {
			return err
		}
		if v.CanUint() {
			v.SetUint(uint64(i))
			return nil
		}
		v.SetInt(i)
	}
	return nil
}

// print shows a response, without what is as it is by default.
func (n *testNode) print(resp kmsg.Response) string {
	names := map[kafka.UUID]string{}
	for name, topic := range n.loader.Image().Topics.All() {
		names[topic.ID] = "id of " + name
	}
	for _, d := range n.store.Directories() {
		names[d.ID()] = "id of " + d.Path()
	}
	var b strings.Builder
	p := printer{&b, names}
	p.fields(reflect.ValueOf(resp).Elem(), 0)
	if b.Len() == 0 {
		return "nothing but defaults"
	}
	// When a node is ready is a matter of milliseconds.
	return bubbleTime.ReplaceAllString(b.String(), "<time>")
}

// bubbleTime matches times in ms of the first day of a bubble.
var bubbleTime = regexp.MustCompile(`\b9466[89]\d{7}\b`)

type printer struct {
	b     *strings.Builder
	names map[kafka.UUID]string
}

// set are the fields of a struct that do not have their default.
func set(v reflect.Value) (names []string, values []reflect.Value) {
	plain := reflect.New(v.Type())
	if d, ok := plain.Interface().(interface{ Default() }); ok {
		d.Default()
	}
	for i := range v.NumField() {
		name, f := v.Type().Field(i).Name, v.Field(i)
		if name == "Version" || name == "UnknownTags" || reflect.DeepEqual(f.Interface(), plain.Elem().Field(i).Interface()) {
			continue
		}
		if f.Kind() == reflect.Pointer {
			f = f.Elem()
		}
		names, values = append(names, name), append(values, f)
	}
	return names, values
}

// nested reports whether v has a structure of its own.
func nested(v reflect.Value) bool {
	return v.Kind() == reflect.Struct || v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct
}

// fields prints what has structure on lines of its own, after one line with all the rest.
func (p printer) fields(v reflect.Value, depth int) {
	indent := strings.Repeat("  ", depth)
	names, values := set(v)
	var flat []string
	for i, f := range values {
		if !nested(f) {
			flat = append(flat, names[i]+": "+p.scalar(f))
		}
	}
	if len(flat) > 0 {
		fmt.Fprintf(p.b, "%s%s\n", indent, strings.Join(flat, ", "))
	}
	for i, f := range values {
		switch {
		case !nested(f):
		case f.Kind() == reflect.Struct:
			p.nest(names[i], f, depth)
		case f.Len() == 0:
			fmt.Fprintf(p.b, "%s%s: []\n", indent, names[i])
		default:
			for j := range f.Len() {
				p.nest(fmt.Sprintf("%s[%d]", names[i], j), f.Index(j), depth)
			}
		}
	}
}

// nest prints a struct on one line if it has no structure below.
func (p printer) nest(name string, v reflect.Value, depth int) {
	indent := strings.Repeat("  ", depth)
	_, values := set(v)
	for _, f := range values {
		if nested(f) {
			fmt.Fprintf(p.b, "%s%s:\n", indent, name)
			p.fields(v, depth+1)
			return
		}
	}
	var line strings.Builder
	printer{&line, p.names}.fields(v, 0)
	fmt.Fprintf(p.b, "%s%s: {%s}\n", indent, name, strings.TrimSuffix(line.String(), "\n"))
}

func (p printer) scalar(f reflect.Value) string {
	switch value := f.Interface().(type) {
	case [16]byte:
		return p.id(value)
	case []byte:
		return describeRecords(value)
	case string:
		return strconv.Quote(value)
	}
	return fmt.Sprint(f.Interface())
}

func (p printer) id(id kafka.UUID) string {
	if name, ok := p.names[id]; ok {
		return name
	}
	return "an id"
}

func describeRecords(data []byte) string {
	if n := count(data); n >= 0 {
		return fmt.Sprintf("%d records", n)
	}
	return fmt.Sprintf("%d bytes", len(data))
}

func (n *testNode) scriptProduce(t *testing.T, d *datadriven.TestData) string {
	partition, howMany, acks, version := 0, 1, -1, 9
	codec := "none"
	d.MaybeScanArgs(t, "partition", &partition)
	d.MaybeScanArgs(t, "records", &howMany)
	d.MaybeScanArgs(t, "acks", &acks)
	d.MaybeScanArgs(t, "version", &version)
	d.MaybeScanArgs(t, "codec", &codec)
	o := plain()
	for c := batch.None; c <= batch.Zstd; c++ {
		if c.String() == codec {
			o.Codec = c
		}
	}
	if d.HasArg("producer") {
		var id int64
		var epoch, sequence int
		d.ScanArgs(t, "producer", &id, &epoch, &sequence)
		o.Producer = &batch.Producer{ID: id, Epoch: int16(epoch), BaseSequence: int32(sequence)}
	}
	o.Transactional = d.HasArg("transactional")
	age := 0
	d.MaybeScanArgs(t, "age", &age)
	now := time.Now().UnixMilli()
	if age == 0 {
		now = recordTime // so that a CRC in an answer is the same every time
	}
	key := []byte("k")
	if d.HasArg("keyless") {
		key = nil
	}
	data := recordsAt(now-int64(age), key, howMany, o)
	if d.HasArg("flip") {
		data[len(data)-1] ^= 1
	}
	return n.print(n.ask(n.produceRequest(int16(version), int16(acks), d.CmdArgs[0].Key, int32(partition), data)))
}
