package oracle

import (
	"fmt"
	"math"
	"reflect"
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
//	controller                                  the next questions go to the controller's listener
//	reconnect                                   the next question comes on a new connection
//	state GROUP STATE                           waits until a group is in a state
//	ask API [VERSIONS] [keep FIELD[=NAME]]: QUESTION   the request's fields as JSON below, in each version that counts
//	send API VERSION: QUESTION                  asks, and leaves the answer for later
//	hear API VERSION: QUESTION                  the answer to what was sent
//
// In fields "$v" stands for the version, "$FIELD" for what was kept of the answer of the same version, "$NAME" for what was kept
// under a name, a topic's name for its id where an id belongs, and "records 3 gzip" for a batch: see fields_test.go.
type stage struct {
	t       *testing.T
	at      cluster
	c       *conn
	clients map[string]*conn // by name
	speaks  served           // by verbs, which take the newest version
	counts  served           // versions that are asked
	ranges  ranges           // of counts, on the listener that c goes to
	began   time.Time
	batches int
	ids     map[string][16]byte
	kept    map[int16]map[string]any
	sent    map[*conn]kmsg.Request // whose answers are left for later
}

func newStage(t *testing.T, at cluster, speaks, counts served) *stage {
	s := &stage{t: t, at: at, clients: map[string]*conn{}, speaks: speaks, counts: counts, began: time.Now(), ids: map[string][16]byte{}, kept: map[int16]map[string]any{}, sent: map[*conn]kmsg.Request{}}
	s.client("1")
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
	for deadline := time.Now().Add(2 * patience); !ready(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("%s: not in %v", what, 2*patience)
		}
	}
}

func (s *stage) untilBrokerIsThere() {
	s.until("a broker", func() bool {
		req := kmsg.NewPtrMetadataRequest()
		req.Topics = []kmsg.MetadataRequestTopic{}
		req.SetVersion(5)
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
			return s.must(req, 4).(*kmsg.InitProducerIDResponse).ErrorCode == 0
		})
	case "await":
		s.await(words[1])
	case "gone":
		s.until(words[1]+" is gone", func() bool { return s.topic(words[1]).ErrorCode == kerr.UnknownTopicOrPartition.Code })
	case "client":
		s.client(words[1])
	case "controller":
		s.controller()
	case "reconnect":
		s.c.close()
	case "state":
		s.state(words[1], words[2])
	case "ask", "send", "hear":
		return s.ask(e)
	default:
		s.t.Fatalf("%s: no such verb", e.line)
	}
	return nil
}

// question is what an entry asks.
type question struct {
	verb, api, keep string
	versions        versions // that it is about
}

func readQuestion(line string) (question, error) {
	command, _, ok := strings.Cut(line, ": ")
	words := strings.Fields(command)
	if !ok || len(words) < 2 || requestByName(words[1]) == nil {
		return question{}, fmt.Errorf("%s: want ask API …: question", line)
	}
	q := question{verb: words[0], api: words[1], versions: versions{0, math.MaxInt16}}
	for words = words[2:]; len(words) > 0; words = words[1:] {
		if words[0] == "keep" {
			q.keep, words = words[1], words[1:]
			continue
		}
		from, to, err := parseRange(words[0])
		if err != nil {
			return question{}, fmt.Errorf("%s: %w", line, err)
		}
		q.versions = versions{from, to}
	}
	return q, nil
}

// versionsOf are the versions of the question that are served.
func (q question) versionsOf(r ranges) (all []int16) {
	served, ok := r[q.api]
	if !ok {
		return nil
	}
	both := served.both(q.versions)
	for v := both.from; v <= both.to; v++ {
		all = append(all, v)
	}
	return all
}

func (s *stage) ask(e *entry) answers {
	q, err := readQuestion(e.line)
	if err != nil {
		s.t.Fatal(err)
	}
	said := answers{}
	for _, v := range q.versionsOf(s.ranges) {
		req := requestByName(q.api)
		f := fields{ids: s.ids, now: s.now(), kept: func(name string) (any, bool) { return s.recall(v, name) }}
		if err := f.fill(req, strings.ReplaceAll(e.input, "$v", strconv.Itoa(int(v)))); err != nil {
			s.t.Fatalf("%s: %v", e.line, err)
		}
		req.SetVersion(v)
		began := time.Now()
		switch q.verb {
		case "send":
			s.c.send(s.t, req)
			s.sent[s.c] = req
			return nil
		case "hear":
			said[v] = s.hear(s.sent[s.c], q.keep)
		default:
			said[v] = s.say(req, q.keep)
		}
		if took := time.Since(began); took > 2*time.Second {
			s.t.Logf("%s: version %d took %v", e.line, v, took)
		}
	}
	return said
}

// allVersions is where things are kept that have a name of their own.
const allVersions int16 = -1

// recall is what was kept of an answer of a version, or under a name.
func (s *stage) recall(version int16, name string) (any, bool) {
	value, ok := s.kept[version][name]
	if !ok {
		value, ok = s.kept[allVersions][name]
	}
	return value, ok
}

// say asks and says what was answered.
func (s *stage) say(req kmsg.Request, keep string) string {
	if p, ok := req.(*kmsg.ProduceRequest); ok && p.Acks == 0 {
		return s.sayUnanswered(req)
	}
	resp, err := s.c.ask(req)
	return s.sayAnswer(resp, err, keep)
}

// hear says what was answered to what was sent.
func (s *stage) hear(req kmsg.Request, keep string) string {
	if req == nil {
		s.t.Fatal("nothing was sent")
	}
	resp, err := s.c.hear(req)
	return s.sayAnswer(resp, err, keep)
}

// sayAnswer says an answer, or why there is none.
func (s *stage) sayAnswer(resp kmsg.Response, err error, keep string) string {
	if err != nil {
		return err.Error()
	}
	if keep != "" {
		field, name, named := strings.Cut(keep, "=")
		version := allVersions
		if !named {
			name, version = field, resp.GetVersion()
		}
		if s.kept[version] == nil {
			s.kept[version] = map[string]any{}
		}
		s.kept[version][name] = reflect.ValueOf(resp).Elem().FieldByName(field).Interface()
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

// must asks what a verb needs to know, in the newest version that is served up to the given one.
func (s *stage) must(req kmsg.Request, version int16) kmsg.Response {
	s.t.Helper()
	return s.c.must(s.t, req, min(version, s.speaks.broker[kmsg.NameForKey(req.Key())].to))
}

// client switches to one of several connections.
func (s *stage) client(name string) { s.connect(name, s.at.broker, s.counts.broker) }

// controller switches to the controller's listener.
func (s *stage) controller() { s.connect("controller", s.at.controller, s.counts.controller) }

func (s *stage) connect(name, address string, counts ranges) {
	if s.clients[name] == nil {
		c := &conn{address: address}
		s.t.Cleanup(c.close)
		s.clients[name] = c
	}
	s.c, s.ranges = s.clients[name], counts
}

// topic is what Metadata says of a topic.
func (s *stage) topic(name string) kmsg.MetadataResponseTopic {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{{Topic: &name}}
	return s.must(req, 12).(*kmsg.MetadataResponse).Topics[0]
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
		for _, p := range s.must(req, 5).(*kmsg.ListOffsetsResponse).Topics[0].Partitions {
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
	if code := s.must(req, 7).(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode; code != 0 {
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
	if code := s.must(req, 9).(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode; code != 0 {
		s.t.Fatalf("produce to %s: %v", topic, kerr.ErrorForCode(code))
	}
}

func (s *stage) group(name string) {
	s.until("the coordinator of "+name, func() bool {
		find := kmsg.NewPtrFindCoordinatorRequest()
		find.CoordinatorKey = name
		if s.must(find, 3).(*kmsg.FindCoordinatorResponse).ErrorCode != 0 {
			return false
		}
		offsets := kmsg.NewPtrOffsetFetchRequest()
		offsets.Group = name
		return s.must(offsets, 7).(*kmsg.OffsetFetchResponse).ErrorCode == 0
	})
}

// state asks on a connection of its own: on the others there may be answers that are left for later.
func (s *stage) state(group, state string) {
	c := &conn{address: s.at.broker}
	defer c.close()
	s.until(group+" is "+state, func() bool {
		req := kmsg.NewPtrDescribeGroupsRequest()
		req.Groups = []string{group}
		return c.must(s.t, req, 5).(*kmsg.DescribeGroupsResponse).Groups[0].State == state
	})
}
