package metadata

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

// sample is one line of testdata/kafka-4.4.0-records.txt: bytes that Apache Kafka 4.4.0's MetadataRecordSerde wrote, the
// version, and the record as its toString prints it. In kafka-4.4.0-log.txt, the metadata log of a broker of that release
// that was formatted, started and stopped, each line begins with the offset.
type sample struct {
	offset  int64
	value   []byte
	version int16
	text    string
}

const (
	kafkaRecords = "testdata/kafka-4.4.0-records.txt"
	kafkaLog     = "testdata/kafka-4.4.0-log.txt"
)

func samples(t testing.TB, path string) []sample {
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []sample
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line, offset := lines.Text(), int64(-1)
		if path == kafkaLog {
			text, rest, _ := strings.Cut(line, " ")
			if offset, err = strconv.ParseInt(text, 10, 64); err != nil {
				t.Fatal(err)
			}
			line = rest
		}
		parts := strings.SplitN(line, " ", 3)
		value, err := hex.DecodeString(parts[0])
		if err != nil {
			t.Fatal(err)
		}
		version, err := strconv.Atoi(parts[1])
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, sample{offset, value, int16(version), parts[2]})
	}
	return all
}

// Every type in every version, once with defaults and once with every field set, reads and writes as Apache Kafka's.
func TestRecordsReadAndWriteAsKafkas(t *testing.T) {
	covered := map[[2]int16]int{}
	for _, s := range append(samples(t, kafkaRecords), samples(t, kafkaLog)...) {
		r, version, err := decode(s.value)
		if err != nil {
			t.Errorf("%s: %v", s.text, err)
			continue
		}
		if version != s.version {
			t.Errorf("%s: version %d, want %d", s.text, version, s.version)
		}
		if got := Encode(nil, r, version); !bytes.Equal(got, s.value) {
			t.Errorf("%s version %d:\n got %x\nwant %x", s.text, version, got, s.value)
		}
		checkFields(t, r, s.text)
		if s.offset < 0 {
			covered[[2]int16{r.Type(), version}]++
		}
	}
	for typ := range int16(100) {
		_, highest := newRecord(typ)
		for v := range highest + 1 {
			if n := covered[[2]int16{typ, v}]; n != 2 {
				t.Errorf("type %d version %d has %d samples, want 2", typ, v, n)
			}
		}
	}
}

func TestImageOfKafkasLog(t *testing.T) {
	l := NewLoader()
	for _, s := range samples(t, kafkaLog) {
		r, err := Decode(s.value)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Commit(s.offset, 1, []Record{r}); err != nil {
			t.Fatal(err)
		}
		if _, held := r.(*FeatureLevelRecord); held && l.Image().Features.MetadataVersion() != 0 {
			t.Errorf("offset %d lies in the bootstrap transaction and is visible", s.offset)
		}
	}
	image := l.Image()
	if got := image.Features.MetadataVersion(); got != 33 {
		t.Errorf("metadata.version %d, want 33", got)
	}
	if got := image.Features.Level(FeatureTransactionVersion); got != 2 {
		t.Errorf("transaction.version %d, want 2", got)
	}
	if got := image.Configs.Get(ConfigBroker, "")["min.insync.replicas"]; got != "1" {
		t.Errorf("min.insync.replicas of all brokers %q, want 1", got)
	}
	b, ok := image.Cluster.Broker(1)
	if !ok || !b.Fenced || b.Epoch != 11 || len(b.LogDirs) != 1 {
		t.Errorf("broker 1: %+v", b)
	}
	if e, ok := b.Endpoint("PLAINTEXT"); !ok || e.Host != "127.0.0.1" || e.Port != 39192 {
		t.Errorf("broker 1 listens at %+v", e)
	}
	if k, ok := image.Cluster.Controller(1); !ok || len(k.Features) == 0 {
		t.Errorf("controller 1: %+v", k)
	}
}

// checkFields finds every field of r, with its value, in Kafka's text of the record.
func checkFields(t *testing.T, r Record, text string) {
	t.Helper()
	text = strings.NewReplacer("brokerendpoint(", "endpoint(", "controllerendpoint(", "endpoint(",
		"brokerfeature(", "feature(", "controllerfeature(", "feature(").Replace(strings.ToLower(text))
	v := reflect.ValueOf(r).Elem()
	for i := range v.NumField() {
		if _, ours := r.(*NoOpRecord); ours {
			continue // its one field is ours
		}
		want := strings.ToLower(v.Type().Field(i).Name + "=" + kafkaText(v.Field(i)))
		if !strings.Contains(text, want) {
			t.Errorf("%T: no %q in %s", r, want, text)
		}
	}
}

func kafkaText(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case string:
		return "'" + x + "'"
	case []string:
		return fmt.Sprintf("[%s]", strings.Join(x, ", "))
	case float64:
		return strconv.FormatFloat(x, 'f', 1, 64)
	case Endpoint:
		return fmt.Sprintf("endpoint(name='%s', host='%s', port=%d, securityprotocol=%d)", x.Name, x.Host, x.Port, x.SecurityProtocol)
	case FeatureRange:
		return fmt.Sprintf("feature(name='%s', minsupportedversion=%d, maxsupportedversion=%d)", x.Name, x.Min, x.Max)
	case QuotaEntityPart:
		return fmt.Sprintf("entitydata(entitytype='%s', entityname='%s')", x.EntityType, *x.EntityName)
	case fmt.Stringer:
		return x.String()
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return "null"
		}
		return kafkaText(v.Elem())
	case reflect.Slice:
		if v.IsNil() {
			return "" // Kafka prints null or [], by the field
		}
		parts := make([]string, v.Len())
		for i := range parts {
			parts[i] = kafkaText(v.Index(i))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return fmt.Sprint(v.Interface())
}

func TestDecodeRefusesWhatItDoesNotKnow(t *testing.T) {
	for _, c := range []struct {
		name string
		hex  string
		want string
	}{
		{"nothing", "", "record ends early"},
		{"the preview's frame", "000200", "frame version 0 is not known"},
		{"a type of the future", "0163000000", "type 99 is not known"},
		{"a version of the future", "01020100", "version 1 of *metadata.TopicRecord is not known, only 0 to 0 are"},
		{"a record cut short", "010200086e616d65", "record ends early"},
		{"bytes left over", "0114000001", "1 bytes are left over"},
		{"a string longer than the record", "010200ffffff7f", "record ends early"},
		{"a null name", "01020000" + strings.Repeat("00", 17), "null in a field"},
		{"a tag longer than its value", "0117000100020461", "null"},
		{"an array that lies about its length", "010300" + strings.Repeat("00", 20) + "ffffffff0f", "record ends early"},
	} {
		b, err := hex.DecodeString(c.hex)
		if err != nil {
			t.Fatal(err)
		}
		if r, err := Decode(b); err == nil {
			t.Errorf("%s: took it: %+v", c.name, r)
		} else if c.want != "null" && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func TestDecodeSkipsTagsOfTheFuture(t *testing.T) {
	// TopicRecord name "t" with one tagged field, number 7, of three bytes.
	b := append([]byte{1, 2, 0, 2, 't'}, make([]byte, 16)...)
	b = append(b, 1, 7, 3, 'a', 'b', 'c')
	r, err := Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.(*TopicRecord).Name; got != "t" {
		t.Errorf("name %q", got)
	}
}

// The numbers that nodes were given outlive what says so, in a snapshot, too; and whatever says it later says no less.
func TestNumbersOfNodesAreKept(t *testing.T) {
	b := Encode(nil, &NoOpRecord{NextNodeID: 1005}, 0)
	if want := []byte{1, 20, 0, 1, 0x90, 0x4e, 4, 0, 0, 0x03, 0xed}; !bytes.Equal(b, want) {
		t.Errorf("bytes %x, want %x", b, want)
	}
	r, err := Decode(b)
	if err != nil || *r.(*NoOpRecord) != (NoOpRecord{1005}) {
		t.Fatalf("%+v, %v", r, err)
	}
	image := EmptyImage()
	for _, r := range []Record{&FeatureLevelRecord{Name: FeatureMetadataVersion, FeatureLevel: 33}, r, &RegisterBrokerRecord{BrokerID: 1006}, &RegisterControllerRecord{ControllerID: 1007}, &NoOpRecord{}, &NoOpRecord{1004}} {
		d := NewDelta(image)
		if err := d.Replay(r); err != nil {
			t.Fatal(err)
		}
		image = d.Image(image.Offset+1, 1)
	}
	d := NewDelta(EmptyImage())
	image.EncodeRecords(func(value []byte) {
		r, err := Decode(value)
		if err == nil {
			err = d.Replay(r)
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	again := d.Image(image.Offset, image.Epoch)
	for _, c := range []struct{ least, want int32 }{{1, 1005}, {1006, 1008}, {2000, 2000}} {
		if got := image.Cluster.NextNodeID(c.least); got != c.want {
			t.Errorf("from %d on: %d, want %d", c.least, got, c.want)
		}
		if got := again.Cluster.NextNodeID(c.least); got != c.want {
			t.Errorf("from %d on, after a snapshot: %d, want %d", c.least, got, c.want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range samples(f, kafkaRecords) {
		f.Add(s.value)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, version, err := decode(b)
		if err != nil {
			return
		}
		// What was read is written and read again as the same; bytes may differ, since a sender may spell out defaults.
		again, version2, err := decode(Encode(nil, r, version))
		if err != nil || version2 != version {
			t.Fatalf("%T version %d does not survive: %v", r, version, err)
		}
		if deref(r) != deref(again) {
			t.Fatalf("%+v became %+v", r, again)
		}
	})
}

// deref prints like the record, with NaN equal to itself and pointers followed one level.
func deref(r Record) string {
	v := reflect.ValueOf(r).Elem()
	var b strings.Builder
	for i := range v.NumField() {
		f := v.Field(i)
		if f.Kind() == reflect.Pointer && !f.IsNil() {
			f = f.Elem()
		}
		if parts, ok := f.Interface().([]QuotaEntityPart); ok {
			fmt.Fprint(&b, quotaKey(parts), " ")
			continue
		}
		fmt.Fprintf(&b, "%#v ", f.Interface())
	}
	return b.String()
}

func TestLatestIsWhatKafkaWrites(t *testing.T) {
	// Levels and versions as MetadataVersion of Apache Kafka 4.4.0 answers them.
	for _, c := range []struct{ level, register, partition int16 }{
		{7, 1, 0}, {8, 2, 0}, {16, 2, 0}, {17, 3, 1}, {22, 3, 1}, {23, 3, 2}, {29, 3, 2}, {30, 4, 2}, {33, 4, 2},
	} {
		if got := Latest(&RegisterBrokerRecord{}, c.level); got != c.register {
			t.Errorf("level %d: RegisterBrokerRecord version %d, want %d", c.level, got, c.register)
		}
		for _, r := range []Record{&PartitionRecord{}, &PartitionChangeRecord{}} {
			if got := Latest(r, c.level); got != c.partition {
				t.Errorf("level %d: %T version %d, want %d", c.level, r, got, c.partition)
			}
		}
	}
	for level, name := range map[int16]string{7: "3.3-IV3", 20: "3.8-IV0", 25: "4.0-IV3", 30: "4.3-IV0", 33: "4.4-IV2"} {
		if got, ok := LevelName(level); !ok || got != name {
			t.Errorf("LevelName(%d) = %q, %v, want %q", level, got, ok, name)
		}
		if got, ok := LevelByName(name); !ok || got != level {
			t.Errorf("LevelByName(%q) = %d, %v, want %d", name, got, ok, level)
		}
	}
	if level, ok := LevelByName("4.0"); !ok || level != 25 {
		t.Errorf("LevelByName(4.0) = %d, %v, want 25", level, ok)
	}
	if _, ok := LevelName(34); ok {
		t.Error("level 34 has a name")
	}
	if _, ok := LevelByName("5.0"); ok {
		t.Error("release 5.0 has a level")
	}
}
