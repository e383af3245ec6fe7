package cli

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// The values are those of Apache Kafka's own test of the function.
func TestMurmur2IsJavas(t *testing.T) {
	for key, want := range map[string]int32{
		"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536, "a-little-bit-longer-string": -1486304829,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971, "abc": 479470107,
	} {
		if got := int32(murmur2([]byte(key))); got != want {
			t.Errorf("murmur2(%q) = %d, want %d", key, got, want)
		}
	}
}

func TestLineReader(t *testing.T) {
	const keyed, headed = "parse.key=true", "parse.headers=true"
	for _, c := range []struct {
		props, in, want string // want lists records as headers/key/value, then the error
	}{
		{"", "a\nb\r\n\nlast", "[]/nil/a []/nil/b []/nil/ []/nil/last EOF"},
		{keyed, "k\tv\n\tv\nk\t\n", "[]/k/v []//v []/k/ EOF"},
		{keyed + " key.separator=::", "k::v::w", "[]/k/v::w EOF"},
		{keyed, "v", `no key separator ("\t") found on line number 1: 'v'`},
		{keyed + " ignore.error=TRUE", "v\nk\tv", "[]/nil/v []/k/v EOF"},
		{keyed + " null.marker=-", "-\t-", "[]/nil/nil EOF"},
		{headed, "a:1,b:\tv", "[a=1 b=]/nil/v EOF"},
		{headed + " " + keyed, "a:1\tk\tv", "[a=1]/k/v EOF"},
		{headed + " null.marker=N", "a:N\tv\nN\tv\n", "[a=nil]/nil/v []/nil/v EOF"},
		{headed + " null.marker=N", "N:1\tv", "header keys should not be equal to the null marker 'N' as they can't be null: line number 1"},
		{headed, "a\tv", `no header key separator (":") found in pair 'a' on line number 1`},
		{headed + " ignore.error=true", "a\tv\nv", "[a=nil]/nil/v []/nil/v EOF"},
		{headed + " headers.delimiter=| headers.separator=; headers.key.separator==", "a=1;b=2|v", "[a=1 b=2]/nil/v EOF"},
	} {
		props := make(map[string]string)
		for _, p := range strings.Fields(c.props) {
			key, value, _ := strings.Cut(p, "=")
			props[key] = value
		}
		r, err := newLineReader(strings.NewReader(c.in), props)
		var got []string
		show := func(b []byte) string {
			if b == nil {
				return "nil"
			}
			return string(b)
		}
		for err == nil {
			var record *kgo.Record
			if record, err = r.next(); err != nil {
				break
			}
			var headers []string
			for _, h := range record.Headers {
				headers = append(headers, h.Key+"="+show(h.Value))
			}
			got = append(got, fmt.Sprintf("[%s]/%s/%s", strings.Join(headers, " "), show(record.Key), show(record.Value)))
		}
		if err == nil {
			t.Fatalf("%s: no end", c.props)
		}
		if s := strings.Join(append(got, err.Error()), " "); s != c.want {
			t.Errorf("%s, %q:\ngot  %s\nwant %s", c.props, c.in, s, c.want)
		}
	}
	for props, want := range map[string]string{
		"null.marker=,": "null.marker and headers.separator must differ", "headers.separator=:": "headers.separator and headers.key.separator must differ",
		"key.separator=": "must not be empty", "pares.key=true": "pares.key is not a property of the reader",
	} {
		key, value, _ := strings.Cut(props, "=")
		if _, err := newLineReader(strings.NewReader(""), map[string]string{key: value}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", props, err, want)
		}
	}
}

func TestConsoleProducerAndConsumer(t *testing.T) {
	c := startCluster(t)
	c.want(t, "Created topic t.\n", "", "topics", "--create", "--topic", "t", "--partitions", "3")
	c.want(t, "", "h:1,g:2\tk1\tv1\nh:N\tN\tN\n", "console-producer", "--topic", "t", "--partition", "1", "--property", "parse.headers=true",
		"--property", "parse.key=true", "--property", "null.marker=N", "--compression-codec", "zstd", "--request-required-acks", "-1")
	all := []string{"--property", "print.timestamp=true", "--property", "print.partition=true", "--property", "print.offset=true", "--property", "print.epoch=true",
		"--property", "print.headers=true", "--property", "print.key=true", "--property", "print.delivery=true"}
	code, out, errs := c.run("", "console-consumer", append([]string{"--topic", "t", "--from-beginning", "--max-messages", "2"}, all...)...)
	out = regexp.MustCompile(`CreateTime:\d{13}`).ReplaceAllString(out, "CreateTime:…")
	if want := "CreateTime:…\tPartition:1\tOffset:0\tDelivery:NOT_PRESENT\tEpoch:0\th:1,g:2\tk1\tv1\n" +
		"CreateTime:…\tPartition:1\tOffset:1\tDelivery:NOT_PRESENT\tEpoch:0\th:null\tnull\tnull\n"; code != 0 || out != want {
		t.Errorf("exit code %d\n%s%s\nwant:\n%s", code, out, errs, want)
	}
	if errs != "Processed a total of 2 messages\n" {
		t.Errorf("standard error: %q", errs)
	}
	c.want(t, "v1;", "", "console-consumer", "--topic", "t", "--partition", "1", "--offset", "0", "--max-messages", "1", "--property", "line.separator=;")
	c.want(t, "", "", "console-consumer", "--topic", "t", "--partition", "1", "--offset", "latest", "--timeout-ms", "50")
	c.want(t, "", "", "console-consumer", "--include", "t,u", "--from-beginning", "--max-messages", "2", "--formatter", "org.apache.kafka.tools.consumer.NoOpMessageFormatter")
	c.want(t, "k1\n-\n", "", "console-consumer", "--include", "t,u", "--from-beginning", "--max-messages", "2", "--property", "null.literal=-",
		"--property", "print.value=false", "--property", "print.key=true")

	// Keys lie where Java's producer puts them; round-robin deals the rest out.
	c.want(t, "Created topic keys.\n", "", "topics", "--create", "--topic", "keys", "--partitions", "3")
	code, out, errs = c.run("21\tx\na-little-bit-long-string\tx\n", "console-producer", "--topic", "keys", "--property", "parse.key=true", "--sync", "--output", "json")
	if want := "{\"topic\":\"keys\",\"partition\":0,\"offset\":0}\n{\"topic\":\"keys\",\"partition\":2,\"offset\":0}\n"; code != 0 || out != want {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
	code, out, errs = c.run("1\n2\n3\n", "console-producer", "--topic", "keys", "--partitioner", "round-robin", "--sync", "--output", "json")
	if want := "{\"topic\":\"keys\",\"partition\":0,\"offset\":1}\n{\"topic\":\"keys\",\"partition\":1,\"offset\":0}\n{\"topic\":\"keys\",\"partition\":2,\"offset\":1}\n"; code != 0 || out != want {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
	code, out, errs = c.run("", "console-consumer", "--topic", "keys", "--partition", "0", "--offset", "earliest", "--max-messages", "1", "--output", "json")
	if code != 0 || !regexp.MustCompile(`^\{"topic":"keys","partition":0,"offset":0,"timestamp":\d+,"timestampType":"CreateTime","key":"21","value":"x"\}\n$`).MatchString(out) {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}

	c.fails(t, exitUsage, "--topic is required", "console-producer")
	c.fails(t, exitUsage, `"lz5" is not a flag`, "console-producer", "--topic", "t", "lz5")
	c.fails(t, exitConfig, "compression.type=lz5", "console-producer", "--topic", "t", "--compression-codec", "lz5")
	c.fails(t, exitUsage, "want default or round-robin", "console-producer", "--topic", "t", "--partitioner", "x")
	c.fails(t, exitUsage, "pares.key", "console-producer", "--topic", "t", "--property", "pares.key=true")
	c.fails(t, exitUsage, "--timeout soon: want a whole number\n", "console-producer", "--topic", "t", "--timeout", "soon")
	c.fails(t, exitUsage, "--max-messages 99999999999999999999: that number is out of range\n", "console-consumer", "--topic", "t", "--max-messages", "99999999999999999999")
	c.fails(t, exitUsage, "--max-messages -4: want a number from 0", "console-consumer", "--topic", "t", "--max-messages", "-4")
	if code, _, errs := c.run("x\n", "console-producer", "--topic", "t", "--partition", "7"); code != exitFailure || !strings.Contains(errs, "1 records were not written: partition 7 of topic t") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	c.fails(t, exitFailure, "topic t has no partition 3, it has 0 to 2", "console-consumer", "--topic", "t", "--partition", "3")
	c.fails(t, exitUsage, "want exactly one of --topic, --include", "console-consumer")
	c.fails(t, exitUsage, "want earliest, latest or an offset", "console-consumer", "--topic", "t", "--partition", "0", "--offset", "-5")
	c.fails(t, exitUsage, "--offset goes with --partition", "console-consumer", "--topic", "t", "--offset", "5")
	c.fails(t, exitUsage, "--group and --partition exclude each other", "console-consumer", "--topic", "t", "--partition", "0", "--group", "g")
	c.fails(t, exitUsage, "print.kye is not a property of the formatter", "console-consumer", "--topic", "t", "--property", "print.kye=true")
	c.fails(t, exitConfig, "want RangeAssignor", "console-consumer", "--topic", "t", "--group", "g", "--consumer-property", "partition.assignment.strategy=Best")
}

func TestDeserializers(t *testing.T) {
	const java = "org.apache.kafka.common.serialization."
	for _, c := range []struct {
		class, bytes, want string
	}{
		{java + "StringDeserializer", "x", "x"}, {java + "ShortDeserializer", "\xff\xfe", "-2"}, {java + "IntegerDeserializer", "\x00\x00\x01\x00", "256"},
		{java + "LongDeserializer", "\xff\xff\xff\xff\xff\xff\xff\xff", "-1"}, {java + "FloatDeserializer", "\x3f\xc0\x00\x00", "1.5"},
		{java + "DoubleDeserializer", "\x3f\xf8\x00\x00\x00\x00\x00\x00", "1.5"}, {java + "BooleanDeserializer", "\x01", "true"},
	} {
		f, err := newRecordFormatter(map[string]string{"value.deserializer": c.class})
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := f.write(&out, &kgo.Record{Value: []byte(c.bytes)}); err != nil || out.String() != c.want+"\n" {
			t.Errorf("%s: %q, %v", c.class, &out, err)
		}
	}
	f, err := newRecordFormatter(map[string]string{"value.deserializer": java + "LongDeserializer"})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.write(io.Discard, &kgo.Record{Topic: "t", Offset: 5, Value: []byte("x")}); err == nil || !strings.Contains(err.Error(), "value of t-0 at offset 5: 1 bytes, where LongDeserializer wants 8") {
		t.Error(err)
	}
	if _, err := newRecordFormatter(map[string]string{"value.deserializer": "com.example.AvroDeserializer"}); err == nil {
		t.Error("a class of Java's was taken")
	}
}

// TestSimpleConsumerShell: reads one partition from any replica, and keeps its own offset.
func TestSimpleConsumerShell(t *testing.T) {
	c := startCluster(t)
	c.want(t, "Created topic t.\n", "", "topics", "--create", "--topic", "t", "--partitions", "1")
	if code, _, errs := c.run("a\nb\nc\n", "console-producer", "--topic", "t"); code != exitOK {
		t.Fatal(errs)
	}
	end := "Terminating. Reached the end of partition (t, 0) at offset 3\n"
	c.want(t, "a\nb\nc\n"+end, "", "simple-consumer-shell", "--topic", "t", "--no-wait-at-logend")
	c.want(t, "next offset = 2\nb\n", "", "simple-consumer-shell", "--topic", "t", "--offset", "1", "--max-messages", "1", "--print-offsets", "--replica", "1")
	c.want(t, end, "", "simple-consumer-shell", "--topic", "t", "--offset", "-1", "--no-wait-at-logend")
	c.fails(t, exitFailure, "2 is no replica of t-0, which are 1", "simple-consumer-shell", "--topic", "t", "--replica", "2")
	c.fails(t, exitFailure, "topic t has no partition 1, it has 0 to 0", "simple-consumer-shell", "--topic", "t", "--partition", "1")
	c.fails(t, exitUsage, "--topic is required", "simple-consumer-shell")
	c.fails(t, exitUsage, "want -2, -1 or an offset from 0", "simple-consumer-shell", "--topic", "t", "--offset", "-3")
}
