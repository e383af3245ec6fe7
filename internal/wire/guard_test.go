package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"go/format"
	"math/rand/v2"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var update = flag.Bool("update", false, "write layouts.go anew")

// prober finds out how kmsg lays a request out, by changing one field at a time and looking at the bytes.
type prober struct {
	key, version int16
}

// build returns a request with its defaults, except that the structs on the path exist.
func (p prober) build(path []int) (kmsg.Request, reflect.Value) {
	req, _ := NewRequest(p.key, p.version)
	if d, ok := req.(interface{ Default() }); ok {
		d.Default()
	}
	v := reflect.ValueOf(req).Elem()
	for _, field := range path {
		v = v.Field(field)
		switch v.Kind() {
		case reflect.Slice:
			setLen(v, 1)
			v = v.Index(0)
		case reflect.Pointer:
			v.Set(newValue(v.Type().Elem()).Addr())
			v = v.Elem()
		}
	}
	return req, v
}

func newValue(t reflect.Type) reflect.Value {
	v := reflect.New(t)
	if d, ok := v.Interface().(interface{ Default() }); ok {
		d.Default()
	}
	return v.Elem()
}

func setLen(v reflect.Value, n int) {
	v.Set(reflect.MakeSlice(v.Type(), n, n))
	for i := range n {
		v.Index(i).Set(newValue(v.Type().Elem()))
	}
}

// change encodes the request twice: as built, and after f has changed the field.
func (p prober) change(path []int, field int, f func(reflect.Value)) (before, after []byte) {
	req, _ := p.build(path)
	before = req.AppendTo(nil)
	req, v := p.build(path)
	f(v.Field(field))
	return before, req.AppendTo(nil)
}

// layout returns the layout of the struct at the path: of the fields that this version has and that are not tagged.
func (p prober) layout(path []int) string {
	req, v := p.build(path)
	var text strings.Builder
	fixed := 0
	emit := func(s string) {
		if fixed > 0 {
			fmt.Fprint(&text, fixed, " ")
			fixed = 0
		}
		text.WriteString(s)
	}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.Name == "Version" && len(path) == 0 || f.Type == reflect.TypeFor[kmsg.Tags]() {
			continue
		}
		at := append(append([]int{}, path...), i)
		one := func(set func(reflect.Value)) (there bool, growth int) {
			a, b := p.change(path, i, set)
			return !bytes.Equal(a, b), len(b) - len(a)
		}
		switch f.Type.Kind() {
		case reflect.Bool:
			if there, growth := one(func(v reflect.Value) { v.SetBool(!v.Bool()) }); there && growth == 0 {
				fixed++
			}
		case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
			if there, growth := one(func(v reflect.Value) { v.SetInt(v.Int() + 1) }); there && growth == 0 {
				fixed += int(f.Type.Size())
			}
		case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
			if there, growth := one(func(v reflect.Value) { v.SetUint(v.Uint() + 1) }); there && growth == 0 {
				fixed += int(f.Type.Size())
			}
		case reflect.Float64:
			if there, growth := one(func(v reflect.Value) { v.SetFloat(v.Float() + 1) }); there && growth == 0 {
				fixed += 8
			}
		case reflect.Array:
			if there, growth := one(func(v reflect.Value) { v.Index(0).SetUint(v.Index(0).Uint() + 1) }); there && growth == 0 {
				fixed += f.Type.Len()
			}
		case reflect.String:
			if there, growth := one(func(v reflect.Value) { v.SetString(v.String() + "x") }); there && growth == 1 {
				emit("s")
			}
		case reflect.Struct:
			if inner := strings.TrimSuffix(p.layout(at), "t"); inner != "" {
				emit(inner + " ")
				if req.IsFlexible() {
					emit("t")
				}
			}
		case reflect.Pointer:
			if f.Type.Elem().Kind() == reflect.String {
				if there, growth := one(func(v reflect.Value) { s := "x"; v.Set(reflect.ValueOf(&s)) }); there && growth == 1 {
					emit("p")
				}
				break
			}
			if there, _ := one(func(v reflect.Value) { v.Set(newValue(f.Type.Elem()).Addr()) }); there {
				emit(fmt.Sprintf("<%d:%s>", f.Type.Elem().Size(), p.layout(at)))
			}
		case reflect.Slice:
			if f.Type.Elem().Kind() == reflect.Uint8 {
				if there, growth := one(func(v reflect.Value) { v.SetBytes([]byte{1}) }); there && growth == 1 {
					emit("b")
				}
				break
			}
			there, first := one(func(v reflect.Value) { setLen(v, 1) })
			_, second := one(func(v reflect.Value) { setLen(v, 2) })
			if there && second == 2*first {
				emit(fmt.Sprintf("[%d:%s]", f.Type.Elem().Size(), p.element(f.Type.Elem(), at)))
			}
		default:
			panic(fmt.Sprintf("key %d has a field %s of type %v", p.key, f.Name, f.Type))
		}
	}
	if req.IsFlexible() {
		emit("t")
	}
	emit("")
	return strings.TrimSpace(text.String())
}

func (p prober) element(t reflect.Type, path []int) string {
	switch t.Kind() {
	case reflect.Struct:
		return p.layout(path)
	case reflect.String:
		return "s"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "b"
		}
		panic(fmt.Sprintf("key %d has an array of %v", p.key, t))
	}
	return fmt.Sprint(t.Size())
}

const maxKey = 94 // the last that kmsg v1.15 has; TestLayoutsCoverKmsg looks for more

func generateLayouts() []byte {
	var out strings.Builder
	out.WriteString(`package wire

// layouts is generated from kmsg by "go test ./internal/wire -run TestLayouts -update", and checked by the same test. The
// index is the API key.
var layouts = [...][]layout{
`)
	for key := int16(0); key <= maxKey; key++ {
		req, ok := NewRequest(key, 0)
		if !ok {
			continue
		}
		fmt.Fprintf(&out, "%d: { // %s\n", key, kmsg.NameForKey(key))
		from := int16(0)
		for version := int16(0); version <= req.MaxVersion(); version++ {
			text := prober{key, version}.layout(nil)
			if version < req.MaxVersion() && (prober{key, version + 1}).layout(nil) == text {
				continue
			}
			fmt.Fprintf(&out, "{%d, %d, %q},\n", from, version, text)
			from = version + 1
		}
		out.WriteString("},\n")
	}
	out.WriteString("}\n")
	src, err := format.Source([]byte(out.String()))
	if err != nil {
		panic(err)
	}
	return src
}

func TestLayoutsAreKmsgs(t *testing.T) {
	if reflect.TypeFor[uintptr]().Size() != 8 {
		t.Skip("the sizes in layouts.go are those of 64-bit machines")
	}
	want := generateLayouts()
	if *update {
		if err := os.WriteFile("layouts.go", want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile("layouts.go")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Fatal(`layouts.go is stale: run "go test ./internal/wire -run TestLayouts -update"`)
	}
}

func TestLayoutsCoverKmsg(t *testing.T) {
	for key := int16(maxKey) + 1; key < 2000; key++ {
		if _, ok := NewRequest(key, 0); ok {
			t.Errorf("kmsg has key %d: raise maxKey", key)
		}
	}
}

// fill sets every field to something drawn, two levels of arrays deep and more.
func fill(rng *rand.Rand, v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(rng.IntN(2) == 0)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(rng.Uint64()) >> (64 - v.Type().Bits()))
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(rng.Uint64() >> (64 - v.Type().Bits()))
	case reflect.Float64:
		v.SetFloat(rng.Float64())
	case reflect.String:
		v.SetString(strings.Repeat("x", rng.IntN(5)))
	case reflect.Array:
		for i := range v.Len() {
			fill(rng, v.Index(i))
		}
	case reflect.Pointer:
		if rng.IntN(3) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(rng, v.Elem())
		}
	case reflect.Slice:
		if rng.IntN(5) > 0 {
			v.Set(reflect.MakeSlice(v.Type(), rng.IntN(4), 4))
			for i := range v.Len() {
				fill(rng, v.Index(i))
			}
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[kmsg.Tags]() {
			for range rng.IntN(3) - 1 {
				v.Addr().Interface().(*kmsg.Tags).Set(100+rng.Uint32N(1000), make([]byte, rng.IntN(4)))
			}
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).Name != "Version" {
				fill(rng, v.Field(i))
			}
		}
	}
}

// every calls f for each version of each request that kmsg has.
func every(f func(req kmsg.Request)) {
	for key := int16(0); key <= maxKey; key++ {
		first, ok := NewRequest(key, 0)
		if !ok {
			continue
		}
		for version := int16(0); version <= first.MaxVersion(); version++ {
			req, _ := NewRequest(key, version)
			f(req)
		}
	}
}

// The walk must end exactly where kmsg's bytes end, whatever they hold: then it looks at the same counts that kmsg does.
func TestGuardWalksWhatKmsgEncodes(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	every(func(req kmsg.Request) {
		text, ok := layoutOf(req.Key(), req.GetVersion())
		if !ok {
			t.Errorf("no layout of %s version %d", kmsg.NameForKey(req.Key()), req.GetVersion())
			return
		}
		for range 30 {
			fill(rng, reflect.ValueOf(req).Elem())
			body := req.AppendTo(nil)
			g := weigher{rest: body, flexible: req.IsFlexible(), budget: 1 << 30}
			if g.walk(text); g.stopped() || len(g.rest) != 0 {
				t.Errorf("%s version %d, layout %s: %d of %d bytes left, bad %v", kmsg.NameForKey(req.Key()), req.GetVersion(), text, len(g.rest), len(body), g.bad)
				return
			}
		}
	})
}

func allocated(f func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}

// Bodies made to grow: all bytes the same, so that counts, lengths and elements are read from them at every depth.
func TestHostileBodiesStaySmall(t *testing.T) {
	const size = 1 << 16
	every(func(req kmsg.Request) {
		for _, fillByte := range []byte{0, 1, 2, 3, 4, 0x7f, 0xff} {
			body := bytes.Repeat([]byte{fillByte}, size)
			h := Header{Key: req.Key(), Version: req.GetVersion()}
			if got := allocated(func() { _, _ = DecodeRequest(h, body) }); got > 32*size {
				t.Errorf("%s version %d of bytes %#x: %d bytes became %d", kmsg.NameForKey(h.Key), h.Version, fillByte, size, got)
			}
		}
	})
}

// A count as large as kmsg lets it be, in front of as many bytes.
func TestLyingCountIsRefusedBeforeAllocation(t *testing.T) {
	const size = 1 << 20
	for _, c := range []struct {
		name   string
		h      Header
		prefix []byte
	}{
		{"Produce", Header{Key: 0, Version: 8}, []byte{0xff, 0xff, 0, 1, 0, 0, 0, 1, 0, 0x0f, 0xf0, 0}},
		{"CreateTopics", Header{Key: 19, Version: 2}, []byte{0, 0x0f, 0xf0, 0}},
		{"Metadata", Header{Key: 3, Version: 4}, []byte{0, 0x0f, 0xf0, 0}},
	} {
		body := append(c.prefix, bytes.Repeat([]byte{0xff}, size)...)
		var err error
		got := allocated(func() { _, err = DecodeRequest(c.h, body) })
		if !errors.Is(err, ErrBadRequest) || got > 1<<16 {
			t.Errorf("%s: %d bytes allocated, %v", c.name, got, err)
		}
	}
}

// Tagged fields nobody knows cost a map each.
func TestManyUnknownTagsAreRefused(t *testing.T) {
	const topics = 49_150
	body := binary.AppendUvarint(nil, topics+1)
	for range topics {
		body = append(body, make([]byte, 16)...)
		body = append(body, 0, 1, 100, 0) // no name, one tag
	}
	body = append(body, 0, 0, 0)
	h := Header{Key: 3, Version: 12}
	plain := kmsg.NewPtrMetadataRequest()
	plain.Version = 12
	if err := plain.ReadFrom(body); err != nil || len(plain.Topics) != topics {
		t.Fatalf("the body is not what this test means: %v", err)
	}
	var err error
	if got := allocated(func() { _, err = DecodeRequest(h, body) }); got > 32*len(body) {
		t.Errorf("%d bytes became %d, %v", len(body), got, err)
	}
}

func TestHonestLargeRequestsPass(t *testing.T) {
	metadata := kmsg.NewPtrMetadataRequest()
	for i := range 50_000 {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = kmsg.StringPtr(fmt.Sprintf("%03d", i%1000))
		metadata.Topics = append(metadata.Topics, topic)
	}
	fetch := kmsg.NewPtrFetchRequest()
	fetch.Topics = make([]kmsg.FetchRequestTopic, 1000)
	for i := range fetch.Topics {
		fetch.Topics[i].Topic = "t"
		fetch.Topics[i].Partitions = make([]kmsg.FetchRequestTopicPartition, 10)
	}
	produce := kmsg.NewPtrProduceRequest()
	produce.Topics = make([]kmsg.ProduceRequestTopic, 1000)
	for i := range produce.Topics {
		produce.Topics[i].Partitions = []kmsg.ProduceRequestTopicPartition{{Records: make([]byte, 61)}}
	}
	create := kmsg.NewPtrCreateTopicsRequest()
	for range 1000 {
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic = "t"
		create.Topics = append(create.Topics, topic)
	}
	for _, req := range []kmsg.Request{metadata, fetch, produce, create} {
		for version := int16(0); version <= req.MaxVersion(); version++ {
			req.SetVersion(version)
			body := req.AppendTo(nil)
			if _, err := DecodeRequest(Header{Key: req.Key(), Version: version}, body); err != nil {
				t.Errorf("%s version %d, %d bytes: %v", kmsg.NameForKey(req.Key()), version, len(body), err)
			}
		}
	}
}

// TestGrowthIsBounded: what one request takes once it is decoded does not grow with socket.request.max.bytes.
func TestGrowthIsBounded(t *testing.T) {
	named := func(topics int) []byte {
		req := kmsg.NewPtrMetadataRequest()
		req.Version = 4
		req.Topics = make([]kmsg.MetadataRequestTopic, topics)
		for i := range req.Topics {
			req.Topics[i].Topic = kmsg.StringPtr("abc")
		}
		return req.AppendTo(nil)
	}
	h := Header{Key: 3, Version: 4}
	honest := named(100_000)
	growth, err := Growth(h, honest)
	if err != nil {
		t.Fatal(err)
	}
	if got := allocated(func() { _, err = DecodeRequest(h, honest) }); err != nil || got > allocationFactor*growth*5/4 || growth > got*5/4 {
		t.Errorf("decoding took %d bytes, and %d were foretold; %v", got, growth, err)
	}
	huge := named(3_000_000)
	if got := allocated(func() { _, err = DecodeRequest(h, huge) }); !errors.Is(err, ErrBadRequest) || got > 1<<16 {
		t.Errorf("a request of %d bytes: %d bytes allocated, %v", len(huge), got, err)
	}
}

func TestGuardDoesNotAllocate(t *testing.T) {
	req := kmsg.NewPtrProduceRequest()
	req.Version = 9
	req.Topics = []kmsg.ProduceRequestTopic{{Topic: "t", Partitions: []kmsg.ProduceRequestTopicPartition{{Records: make([]byte, 10_000)}}}}
	body := req.AppendTo(nil)
	if n := testing.AllocsPerRun(50, func() {
		if _, err := guard(req, body); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
