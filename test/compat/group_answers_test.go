package compat

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/test/harness"
)

const groupAnswersFile = "testdata/group_answers.txt"

// TestGroupAnswers has one conversation about groups with us and with Apache Kafka, whose answers are kept in a file as
// those of TestAnswers are. Whole answers are compared, but for messages, addresses and ids.
func TestGroupAnswers(t *testing.T) {
	kept := readAnswers(t, groupAnswersFile)
	n := harness.Start(t, "group.initial.rebalance.delay.ms=0")
	questions, ours := talkOfGroups(t, n.Addr)
	kafka := func() map[string]string {
		_, answers := talkOfGroups(t, apacheKafka(t, "group.initial.rebalance.delay.ms=0", "offsets.topic.replication.factor=1"))
		return answers
	}
	if *update {
		writeAnswers(t, groupAnswersFile, questions, ours, kafka())
		return
	}
	compareAnswers(t, groupAnswersFile, kept, ours)
	if os.Getenv("MOLDAU_EFFORT") == "night" {
		compareKafka(t, kept, kafka())
	}
}

// talk is one conversation.
type talk struct {
	t         *testing.T
	r         *raw
	members   []string // ids in the order in which they were given out
	topicID   [16]byte
	questions []string
	answers   map[string]string
}

var randomID = regexp.MustCompile(`[\w.]+-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// ask asks a question and keeps the answer.
func (k *talk) ask(question string, req kmsg.Request, version int16) kmsg.Response {
	k.t.Helper()
	req.SetVersion(version)
	resp, err := k.r.ask(req)
	question = fmt.Sprintf("%s %d: %s", kmsg.NameForKey(req.Key()), version, question)
	if _, twice := k.answers[question]; twice {
		k.t.Fatalf("%s: asked twice", question)
	}
	k.questions = append(k.questions, question)
	if err != nil {
		k.answers[question] = "closed"
		k.r.conn.Close()
		k.r = dialRaw(k.t, k.r.conn.RemoteAddr().String())
		return nil
	}
	k.answers[question] = k.show(resp)
	return resp
}

// show is what an answer says, without what differs from one broker to the next.
func (k *talk) show(resp kmsg.Response) string {
	text, err := json.Marshal(resp)
	if err != nil {
		k.t.Fatal(err)
	}
	var fields any
	if err := json.Unmarshal(text, &fields); err != nil {
		k.t.Fatal(err)
	}
	text, _ = json.Marshal(plain(fields))
	return randomID.ReplaceAllStringFunc(string(text), func(id string) string {
		i := slices.Index(k.members, id)
		if i < 0 {
			k.members = append(k.members, id)
			i = len(k.members) - 1
		}
		return fmt.Sprintf("member-%d", i+1)
	})
}

// plain drops what is null, zero or empty, and what differs.
func plain(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Collect(maps.Keys(v)) {
			switch inner := plain(v[name]); {
			case inner == nil, slices.Contains([]string{"Version", "UnknownTags", "ThrottleMillis", "ErrorMessage", "Host", "Port", "NodeID", "TopicID"}, name):
				delete(v, name)
			default:
				v[name] = inner
			}
		}
		if len(v) == 0 {
			return "nothing"
		}
	case []any:
		if len(v) == 0 {
			return nil
		}
		for i := range v {
			v[i] = plain(v[i])
		}
		// Apache Kafka answers for groups and topics in the order of its maps.
		key := func(element any) string {
			fields, _ := element.(map[string]any)
			return fmt.Sprint(fields["Group"], fields["Topic"])
		}
		slices.SortStableFunc(v, func(a, b any) int { return strings.Compare(key(a), key(b)) })
	case float64:
		if v == 0 {
			return nil
		}
	case bool:
		if !v {
			return nil
		}
	}
	return v
}

func (k *talk) member(i int) string {
	if i > len(k.members) {
		k.t.Fatalf("member %d of %d", i, len(k.members))
	}
	return k.members[i-1]
}

func join(group, member string, change ...func(*kmsg.JoinGroupRequest)) *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.MemberID, req.ProtocolType, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = group, member, "consumer", 30_000, 60_000
	subscription := kmsg.NewConsumerMemberMetadata()
	subscription.Topics = []string{"orders"}
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name, p.Metadata = "range", subscription.AppendTo(nil)
	req.Protocols = append(req.Protocols, p)
	for _, c := range change {
		c(req)
	}
	return req
}

func static(instance string) func(*kmsg.JoinGroupRequest) {
	return func(req *kmsg.JoinGroupRequest) { req.InstanceID = &instance }
}

func syncRequest(group, member string, generation int32, parts ...string) *kmsg.SyncGroupRequest {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Group, req.MemberID, req.Generation = group, member, generation
	req.ProtocolType, req.Protocol = kmsg.StringPtr("consumer"), kmsg.StringPtr("range")
	for _, id := range parts {
		a := kmsg.NewSyncGroupRequestGroupAssignment()
		a.MemberID, a.MemberAssignment = id, []byte("part")
		req.GroupAssignment = append(req.GroupAssignment, a)
	}
	return req
}

func heartbeat(group, member string, generation int32) *kmsg.HeartbeatRequest {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.Generation = group, member, generation
	return req
}

func (k *talk) commit(group, member string, generation int32, topic string, offset int64, note *string) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.Generation = group, member, generation
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic, t.TopicID = topic, k.topicID
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = 0, offset, 0, note
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

func (k *talk) fetch(all bool, groups ...string) *kmsg.OffsetFetchRequest {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group = groups[0]
	for _, name := range groups {
		g := kmsg.NewOffsetFetchRequestGroup()
		g.Group = name
		if !all {
			t := kmsg.NewOffsetFetchRequestGroupTopic()
			t.Topic, t.TopicID, t.Partitions = "orders", k.topicID, []int32{0, 1}
			g.Topics = append(g.Topics, t)
			old := kmsg.NewOffsetFetchRequestTopic()
			old.Topic, old.Partitions = "orders", []int32{0, 1}
			req.Topics = []kmsg.OffsetFetchRequestTopic{old}
		}
		req.Groups = append(req.Groups, g)
	}
	return req
}

func leave(group string, members ...kmsg.LeaveGroupRequestMember) *kmsg.LeaveGroupRequest {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group, req.Members = group, members
	if len(members) > 0 {
		req.MemberID = members[0].MemberID
	}
	return req
}

func describe(groups ...string) *kmsg.DescribeGroupsRequest {
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups, req.IncludeAuthorizedOperations = groups, true
	return req
}

func list(states, types []string) *kmsg.ListGroupsRequest {
	req := kmsg.NewPtrListGroupsRequest()
	req.StatesFilter, req.TypesFilter = states, types
	return req
}

func offsetDelete(group string, topics ...string) *kmsg.OffsetDeleteRequest {
	req := kmsg.NewPtrOffsetDeleteRequest()
	req.Group = group
	for _, topic := range topics {
		t := kmsg.NewOffsetDeleteRequestTopic()
		t.Topic = topic
		t.Partitions = append(t.Partitions, kmsg.NewOffsetDeleteRequestTopicPartition())
		req.Topics = append(req.Topics, t)
	}
	return req
}

func deleteGroups(groups ...string) *kmsg.DeleteGroupsRequest {
	req := kmsg.NewPtrDeleteGroupsRequest()
	req.Groups = groups
	return req
}

// prepare creates a topic and waits for the coordinator.
func (k *talk) prepare() {
	create := kmsg.NewPtrCreateTopicsRequest()
	create.Version, create.TimeoutMillis = 7, 30_000
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = "orders", 2, 1
	create.Topics = append(create.Topics, t)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		resp, err := k.r.ask(create)
		if err == nil && resp.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode == 0 {
			k.topicID = resp.(*kmsg.CreateTopicsResponse).Topics[0].TopicID
			break
		}
		if time.Now().After(deadline) {
			k.t.Fatalf("topic: %v %+v", err, resp)
		}
	}
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.Version, find.CoordinatorKeys = 4, []string{"any"}
	beat := heartbeat("any", "nobody", 1)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		found, err := k.r.ask(find)
		if err != nil {
			k.t.Fatal(err)
		}
		probe, err := k.r.ask(beat)
		if err != nil {
			k.t.Fatal(err)
		}
		if found.(*kmsg.FindCoordinatorResponse).Coordinators[0].ErrorCode == 0 && probe.(*kmsg.HeartbeatResponse).ErrorCode == 25 {
			break
		}
		if time.Now().After(deadline) {
			k.t.Fatalf("no coordinator: %+v %+v", found, probe)
		}
	}
	time.Sleep(time.Second) // Apache Kafka loads one partition after the other
}

// talkOfGroups asks every question, in order.
func talkOfGroups(t *testing.T, address string) (questions []string, answers map[string]string) {
	k := &talk{t: t, r: dialRaw(t, address), answers: map[string]string{}}
	defer func() { k.r.conn.Close() }()
	k.prepare()
	note := kmsg.StringPtr("note")
	long := kmsg.StringPtr(strings.Repeat("x", 4097))

	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKey, find.CoordinatorKeys = "g", []string{"g", "h"}
	k.ask("a group", find, 0)
	k.ask("a group", find, 3)
	k.ask("two groups", find, 4)
	k.ask("two groups", find, 6)
	find.CoordinatorType = 9
	k.ask("of no kind", find, 6)

	k.ask("no group", join("", ""), 9)
	k.ask("session too short", join("g", "", func(r *kmsg.JoinGroupRequest) { r.SessionTimeoutMillis = 5999 }), 9)
	k.ask("session too long", join("g", "", func(r *kmsg.JoinGroupRequest) { r.SessionTimeoutMillis = 1_800_001 }), 4)
	k.ask("unknown member of an unknown group", join("g", "nobody"), 9)
	k.ask("no protocols", join("none", "", func(r *kmsg.JoinGroupRequest) { r.Protocols = nil }), 9)
	k.ask("no protocol type", join("none", "", func(r *kmsg.JoinGroupRequest) { r.ProtocolType = "" }), 5)
	k.ask("first", join("g", ""), 9)
	k.ask("with the id", join("g", k.member(1)), 9)
	k.ask("again", join("g", k.member(1)), 6)
	k.ask("other protocol type", join("g", "", func(r *kmsg.JoinGroupRequest) { r.ProtocolType = "connect" }), 9)
	k.ask("other protocol", join("g", "", func(r *kmsg.JoinGroupRequest) { r.Protocols[0].Name = "mine" }), 9)
	k.ask("unknown instance", join("g", k.member(1), static("nobody")), 9)
	k.ask("while it is assigned", describe("g", "nothing"), 5)
	k.ask("while it is assigned", k.commit("g", k.member(1), 1, "orders", 5, note), 8)
	k.ask("while it is assigned", heartbeat("g", k.member(1), 1), 4)

	k.ask("no group", syncRequest("", k.member(1), 1), 3)
	k.ask("unknown group", syncRequest("nothing", k.member(1), 1), 5)
	k.ask("unknown member", syncRequest("g", "nobody", 1), 5)
	k.ask("wrong generation", syncRequest("g", k.member(1), 9), 5)
	wrong := syncRequest("g", k.member(1), 1)
	wrong.Protocol = kmsg.StringPtr("sticky")
	k.ask("wrong protocol", wrong, 5)
	missing := syncRequest("g", k.member(1), 1)
	missing.Protocol = nil
	k.ask("no protocol", missing, 5)
	k.ask("the leader's", syncRequest("g", k.member(1), 1, k.member(1), "nobody"), 5)
	k.ask("again", syncRequest("g", k.member(1), 1), 0)

	for version := int16(0); version <= 4; version++ {
		k.ask("good", heartbeat("g", k.member(1), 1), version)
	}
	k.ask("no group", heartbeat("", k.member(1), 1), 4)
	k.ask("unknown group", heartbeat("nothing", k.member(1), 1), 4)
	k.ask("unknown member", heartbeat("g", "nobody", 1), 4)
	k.ask("wrong generation", heartbeat("g", k.member(1), 2), 4)

	k.ask("stable", describe("g"), 0)
	k.ask("stable", describe("g", "nothing", ""), 5)
	k.ask("stable", describe("g", "nothing"), 6)
	k.ask("all", list(nil, nil), 0)
	k.ask("all", list(nil, nil), 5)
	k.ask("stable ones", list([]string{"Stable"}, nil), 4)
	k.ask("stable ones, in capitals", list([]string{"STABLE"}, nil), 4)
	k.ask("empty ones", list([]string{"Empty"}, nil), 5)
	k.ask("classic ones", list(nil, []string{"classic"}), 5)
	k.ask("consumer ones", list(nil, []string{"consumer"}), 5)
	k.ask("of an unknown state", list([]string{"strange"}, nil), 5)
	k.ask("of an unknown type", list(nil, []string{"strange"}), 5)

	for _, version := range []int16{2, 4, 5, 7, 9} {
		k.ask("good", k.commit("g", k.member(1), 1, "orders", int64(version), note), version)
	}
	k.ask("good, by id", k.commit("g", k.member(1), 1, "", 10, nil), 10)
	k.ask("long note", k.commit("g", k.member(1), 1, "orders", 6, long), 9)
	k.ask("unknown topic", k.commit("g", k.member(1), 1, "nothing", 6, note), 9)
	k.ask("wrong generation", k.commit("g", k.member(1), 2, "orders", 6, note), 9)
	k.ask("unknown member", k.commit("g", "nobody", 1, "orders", 6, note), 9)
	k.ask("not of a member", k.commit("g", "", -1, "orders", 6, note), 9)
	k.ask("without a member id", k.commit("g", "", 1, "orders", 6, note), 9)
	k.ask("generation of an unknown group", k.commit("nothing", "x", 1, "orders", 6, note), 8)
	k.ask("generation of an unknown group", k.commit("nothing", "x", 1, "orders", 6, note), 9)
	k.ask("of nobody's group", k.commit("solo", "", -1, "orders", 6, nil), 9)
	id := k.topicID
	k.topicID = [16]byte{1, 2, 3}
	k.ask("unknown id", k.commit("g", k.member(1), 1, "", 6, note), 10)
	k.ask("unknown id", k.fetch(false, "g"), 10)
	k.topicID = id

	for version := int16(1); version <= 10; version++ {
		k.ask("some", k.fetch(false, "g"), version)
		if version >= 2 {
			k.ask("all", k.fetch(true, "g"), version)
		}
	}
	k.ask("of three groups", k.fetch(true, "g", "solo", "nothing"), 8)
	k.ask("of an unknown group", k.fetch(false, "nothing"), 9)

	k.ask("what is subscribed to, what does not exist", offsetDelete("g", "orders", "nothing"), 0)
	k.ask("unknown group", offsetDelete("nothing", "orders"), 0)
	k.ask("no group", offsetDelete("", "orders"), 0)
	k.ask("of nobody's group", offsetDelete("solo", "orders"), 0)
	k.ask("with members, unknown, empty", deleteGroups("g", "nothing", "solo", ""), 2)
	k.ask("again", deleteGroups("solo"), 0)

	k.ask("unknown group", leave("nothing", kmsg.LeaveGroupRequestMember{MemberID: k.member(1)}), 0)
	k.ask("unknown group", leave("nothing", kmsg.LeaveGroupRequestMember{MemberID: k.member(1)}), 4)
	k.ask("no group", leave("", kmsg.LeaveGroupRequestMember{MemberID: k.member(1)}), 5)
	k.ask("nobody", leave("g"), 5)
	k.ask("one that is there, two that are not", leave("g", kmsg.LeaveGroupRequestMember{MemberID: k.member(1)},
		kmsg.LeaveGroupRequestMember{MemberID: "nobody"}, kmsg.LeaveGroupRequestMember{InstanceID: kmsg.StringPtr("nobody")}), 5)
	k.ask("again", leave("g", kmsg.LeaveGroupRequestMember{MemberID: k.member(1)}), 1)
	k.ask("empty", describe("g"), 4)
	k.ask("by nobody of an empty group", k.commit("g", "", -1, "orders", 77, note), 9)
	k.ask("of a member that has left", k.commit("g", k.member(1), 1, "orders", 78, note), 9)
	k.ask("of a member that has left", heartbeat("g", k.member(1), 1), 2)
	k.ask("after that", k.fetch(true, "g"), 9)
	k.ask("of an empty group", offsetDelete("g", "orders"), 0)
	k.ask("of an empty group", deleteGroups("g"), 1)

	k.ask("static", join("s", "", static("i1")), 5)
	static1 := len(k.members)
	k.ask("static", syncRequest("s", k.member(static1), 1, k.member(static1)), 3)
	k.ask("static, back again", join("s", "", static("i1")), 9)
	static2 := len(k.members)
	k.ask("static, back again with an old client", join("s", "", static("i1")), 8)
	static3 := len(k.members)
	fenced := heartbeat("s", k.member(static2), 1)
	fenced.InstanceID = kmsg.StringPtr("i1")
	k.ask("of a static member's past", fenced, 4)
	late := k.commit("s", k.member(static1), 1, "orders", 6, note)
	late.InstanceID = kmsg.StringPtr("i1")
	k.ask("of a static member's past", late, 9)
	k.ask("static, its part again", syncRequest("s", k.member(static3), 1), 5)
	k.ask("static", describe("s"), 5)
	k.ask("static, with another id", leave("s", kmsg.LeaveGroupRequestMember{MemberID: k.member(static1), InstanceID: kmsg.StringPtr("i1")}), 3)
	k.ask("static, by its name", leave("s", kmsg.LeaveGroupRequestMember{InstanceID: kmsg.StringPtr("i1")}), 4)
	return k.questions, k.answers
}
