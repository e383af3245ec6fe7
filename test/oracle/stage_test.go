package oracle

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// stage is where a scene is played: one broker, and what has been learned of it.
//
// The verbs of a scene:
//
//	create TOPIC [partitions=N] [KEY=VALUE …]   waits until it can be used
//	produce TOPIC PARTITION COUNT [CODEC]       one batch
//	group GROUP                                 waits for its coordinator
//	idempotent                                  waits until producers get ids
//	await TOPIC, gone TOPIC                     wait until a topic is there, or is not
//	client N                                    the next questions come from client N, on a connection of its own
//	reconnect                                   the next question comes on a new connection
//	ask API [VERSIONS] [keep FIELD]: QUESTION   the request's fields as JSON below, in each version that both serve
//
// In fields "$v" stands for the version, "$FIELD" for what was kept of the answer of the same version, a topic's name for
// its id where an id belongs, and "records 3 gzip" for a batch.
type stage struct {
	t       *testing.T
	c       *conn
	clients map[string]*conn // by name, once there is more than one
	ranges  ranges
	began   time.Time
	batches int
	ids     map[string][16]byte
	kept    map[int16]map[string]any
}

func newStage(t *testing.T, address string, r ranges) *stage {
	s := &stage{t: t, c: &conn{address: address}, ranges: r, began: time.Now(), ids: map[string][16]byte{}, kept: map[int16]map[string]any{}}
	t.Cleanup(s.c.close)
	s.untilBrokerIsThere()
	return s
}

// now is the time for the next batch: no two have the same, however fast they come.
func (s *stage) now() time.Time {
	s.batches++
	return s.began.Add(time.Duration(s.batches) * time.Millisecond)
}

// until asks again and again until ready, as brokers become ready one thing after another.
func (s *stage) until(what string, ready func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(8 * patience); !ready(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("%s: not in %v", what, 8*patience)
		}
	}
}

func (s *stage) untilBrokerIsThere() {
	s.until("a broker", func() bool {
		req := kmsg.NewPtrMetadataRequest()
		req.Topics = []kmsg.MetadataRequestTopic{}
		req.SetVersion(12)
		resp, err := s.c.ask(req)
		return err == nil && len(resp.(*kmsg.MetadataResponse).Brokers) == 1
	})
}

// play does what an entry says and returns what was answered; nil for verbs.
func (s *stage) play(e *entry) answers {
	words := strings.Fields(e.line)
	switch words[0] {
	case "create":
		s.create(words[1], words[2:])
	case "produce":
		s.produce(words[1], words[2], strings.Join(words[3:], " "))
	case "group":
		s.group(words[1])
	case "idempotent":
		s.until("an id for a producer", func() bool {
			req := kmsg.NewPtrInitProducerIDRequest()
			req.ProducerID, req.ProducerEpoch = -1, -1
			return s.c.must(s.t, req, 4).(*kmsg.InitProducerIDResponse).ErrorCode == 0
		})
	case "await":
		s.await(words[1])
	case "gone":
		s.until(words[1]+" is gone", func() bool { return s.topic(words[1]).ErrorCode == kerr.UnknownTopicOrPartition.Code })
	case "client":
		s.client(words[1])
	case "reconnect":
		s.c.close()
	case "ask":
		return s.ask(e)
	default:
		s.t.Fatalf("%s: no such verb", e.line)
	}
	return nil
}

func (s *stage) ask(e *entry) answers {
	command, _, ok := strings.Cut(strings.TrimPrefix(e.line, "ask "), ": ")
	words := strings.Fields(command)
	if !ok || requestByName(words[0]) == nil {
		s.t.Fatalf("%s: want ask API …: question", e.line)
	}
	versions := s.ranges[words[0]]
	keep := ""
	for words = words[1:]; len(words) > 0; words = words[1:] {
		if words[0] == "keep" {
			keep, words = words[1], words[1:]
			continue
		}
		from, to, err := parseRange(words[0])
		if err != nil {
			s.t.Fatalf("%s: %v", e.line, err)
		}
		versions.from, versions.to = max(versions.from, from), min(versions.to, to)
	}
	said := answers{}
	for v := versions.from; v <= versions.to; v++ {
		req := requestByName(strings.Fields(command)[0])
		f := fields{ids: s.ids, now: s.now(), kept: func(name string) (any, bool) { value, ok := s.kept[v][name]; return value, ok }}
		if err := f.fill(req, strings.ReplaceAll(e.input, "$v", strconv.Itoa(int(v)))); err != nil {
			s.t.Fatalf("%s: %v", e.line, err)
		}
		req.SetVersion(v)
		began := time.Now()
		said[v] = s.say(req, keep)
		if took := time.Since(began); took > 2*time.Second {
			s.t.Logf("%s: version %d took %v", e.line, v, took)
		}
	}
	return said
}

// say asks and says what was answered.
func (s *stage) say(req kmsg.Request, keep string) string {
	if p, ok := req.(*kmsg.ProduceRequest); ok && p.Acks == 0 {
		return s.sayUnanswered(req)
	}
	resp, err := s.c.ask(req)
	if err != nil {
		return err.Error()
	}
	if keep != "" {
		if s.kept[req.GetVersion()] == nil {
			s.kept[req.GetVersion()] = map[string]any{}
		}
		s.kept[req.GetVersion()][keep] = reflect.ValueOf(resp).Elem().FieldByName(keep).Interface()
	}
	return s.shower().show(resp)
}

// sayUnanswered sends what gets no answer, and something else behind it to see whether the connection lives.
func (s *stage) sayUnanswered(req kmsg.Request) string {
	if _, err := s.c.exchange(s.c.frame(req), s.c.frame(kmsg.NewPtrApiVersionsRequest())); err != nil {
		return err.Error()
	}
	return "nothing"
}

func (s *stage) shower() shower {
	names := map[[16]byte]string{}
	for name, id := range s.ids {
		names[id] = name
	}
	return shower{names}
}

// topic is what Metadata says of a topic.
func (s *stage) topic(name string) kmsg.MetadataResponseTopic {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{{Topic: &name}}
	return s.c.must(s.t, req, 12).(*kmsg.MetadataResponse).Topics[0]
}

// await waits until all partitions of a topic are led and answer.
func (s *stage) await(name string) {
	s.t.Helper()
	s.until(name, func() bool {
		topic := s.topic(name)
		ask := kmsg.NewListOffsetsRequestTopic()
		ask.Topic = name
		for _, p := range topic.Partitions {
			if p.Leader < 0 {
				return false
			}
			partition := kmsg.NewListOffsetsRequestTopicPartition()
			partition.Partition, partition.Timestamp = p.Partition, -1
			ask.Partitions = append(ask.Partitions, partition)
		}
		if topic.ErrorCode != 0 || len(ask.Partitions) == 0 {
			return false
		}
		s.ids[name] = topic.TopicID
		req := kmsg.NewPtrListOffsetsRequest()
		req.ReplicaID, req.Topics = -1, append(req.Topics, ask)
		for _, p := range s.c.must(s.t, req, 5).(*kmsg.ListOffsetsResponse).Topics[0].Partitions {
			if p.ErrorCode != 0 {
				return false
			}
		}
		return true
	})
}

func (s *stage) create(name string, options []string) {
	s.t.Helper()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 1, 1
	for _, o := range options {
		key, value, _ := strings.Cut(o, "=")
		if key == "partitions" {
			n, err := strconv.Atoi(value)
			if err != nil {
				s.t.Fatal(err)
			}
			topic.NumPartitions = int32(n)
			continue
		}
		topic.Configs = append(topic.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: key, Value: &value})
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis, req.Topics = 30_000, append(req.Topics, topic)
	if code := s.c.must(s.t, req, 7).(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode; code != 0 {
		s.t.Fatalf("create %s: %v", name, kerr.ErrorForCode(code))
	}
	s.await(name)
}

func (s *stage) produce(topic, partition, spec string) {
	s.t.Helper()
	req := kmsg.NewPtrProduceRequest()
	in := fmt.Sprintf(`{"Acks": -1, "TimeoutMillis": 30000, "Topics": [{"Topic": %q, "Partitions": [{"Partition": %s, "Records": "records %s"}]}]}`, topic, partition, spec)
	if err := (fields{now: s.now()}).fill(req, in); err != nil {
		s.t.Fatal(err)
	}
	if code := s.c.must(s.t, req, 9).(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode; code != 0 {
		s.t.Fatalf("produce to %s: %v", topic, kerr.ErrorForCode(code))
	}
}

func (s *stage) group(name string) {
	s.until("the coordinator of "+name, func() bool {
		find := kmsg.NewPtrFindCoordinatorRequest()
		find.CoordinatorKey = name
		if s.c.must(s.t, find, 3).(*kmsg.FindCoordinatorResponse).ErrorCode != 0 {
			return false
		}
		offsets := kmsg.NewPtrOffsetFetchRequest()
		offsets.Group = name
		return s.c.must(s.t, offsets, 7).(*kmsg.OffsetFetchResponse).ErrorCode == 0
	})
}

// versions is a range, both inclusive; empty if to is less than from.
type versions struct{ from, to int16 }

// ranges are the versions of APIs, by name.
type ranges map[string]versions

// askRanges asks a broker what it serves.
func askRanges(t *testing.T, address string) ranges {
	t.Helper()
	c := &conn{address: address}
	defer c.close()
	r := ranges{}
	for _, k := range c.must(t, kmsg.NewPtrApiVersionsRequest(), 2).(*kmsg.ApiVersionsResponse).ApiKeys {
		if req := kmsg.RequestForKey(k.ApiKey); req != nil {
			from := k.MinVersion
			if k.ApiKey == kmsg.Produce.Int16() {
				from = max(from, 3) // Apache Kafka tells 0 to 2 for librdkafka's sake, and closes the connection on them
			}
			r[kmsg.NameForKey(k.ApiKey)] = versions{from, min(k.MaxVersion, req.MaxVersion())}
		}
	}
	return r
}

// both are the versions that are in two ranges.
func (r ranges) both(o ranges) ranges {
	common := ranges{}
	for name, v := range r {
		if other, ok := o[name]; ok {
			common[name] = versions{max(v.from, other.from), min(v.to, other.to)}
		}
	}
	return common
}

// write is the ranges as a file has them.
func (r ranges) write() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(r)) {
		fmt.Fprintf(&b, "%s %d-%d\n", name, r[name].from, r[name].to)
	}
	return b.String()
}

func readRanges(t *testing.T, text string) ranges {
	t.Helper()
	r := ranges{}
	for line := range strings.Lines(text) {
		name, versionsText, _ := strings.Cut(strings.TrimSpace(line), " ")
		from, to, err := parseRange(versionsText)
		if err != nil {
			t.Fatal(err)
		}
		r[name] = versions{from, to}
	}
	return r
}
