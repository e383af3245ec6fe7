package cli

import (
	"reflect"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

// TestShapes: every line of the table is read, and says what it reads as.
func TestShapes(t *testing.T) {
	kinds := map[string]bool{"string": true, "bytes": true, "uuid": true, "bool": true, "int8": true, "int16": true, "uint16": true, "int32": true, "int64": true, "float64": true}
	var check func(line string, fields []field)
	var count func(fields []field) int
	count = func(fields []field) int {
		n := len(fields)
		for _, f := range fields {
			n += count(f.fields)
		}
		return n
	}
	check = func(line string, fields []field) {
		for _, f := range fields {
			switch {
			case f.name == "" || strings.ContainsAny(f.name, " ,{}@:"):
				t.Errorf("%s\nhas a field named %q", line, f.name)
			case f.kind == "struct":
				check(line, f.fields)
			case !kinds[f.kind]:
				t.Errorf("%s\nhas a field %s of kind %q", line, f.name, f.kind)
			}
		}
	}
	for line := range strings.SplitSeq(strings.Trim(shapes, "\n"), "\n") {
		name, _, _ := strings.Cut(line, " ")
		prefix := name[:strings.LastIndexByte(name, '.')]
		s, ok := findShape(prefix)
		if !ok || prefix+"."+s.name != name {
			t.Errorf("%s is not found, but %v", name, s)
			continue
		}
		check(line, s.fields)
		if words := strings.SplitN(line, " ", 4); len(words) == 4 && count(s.fields) != 1+strings.Count(words[3], ",")+strings.Count(words[3], "{") {
			t.Errorf("%s\nhas %d fields", line, count(s.fields))
		}
	}
}

func TestGroupRecordsAreRead(t *testing.T) {
	key := kmsg.OffsetCommitKey{Version: 1, Group: "g", Topic: "t", Partition: 3}
	commit := kmsg.OffsetCommitValue{Version: 3, Offset: 7, LeaderEpoch: 2, Metadata: "m\n\"é\"", CommitTimestamp: 9}
	member := kmsg.NewGroupMetadataValueMember()
	member.MemberID, member.ClientID, member.ClientHost, member.SessionTimeoutMillis = "a", "c", "/h", 10
	subscription := kmsg.NewConsumerMemberMetadata()
	subscription.Version, subscription.Topics = 1, []string{"t"}
	member.Subscription, member.Assignment = subscription.AppendTo(nil), []byte{9}
	group := kmsg.GroupMetadataValue{Version: 2, ProtocolType: "consumer", Generation: 4, Members: []kmsg.GroupMetadataValueMember{member}}
	groupKey := kmsg.GroupMetadataKey{Version: 2, Group: "g"}
	for _, c := range []struct {
		key, value []byte
		want       string
	}{
		{key.AppendTo(nil), commit.AppendTo(nil), `{"group":"g","topic":"t","partition":3} {"offset":7,"leaderEpoch":2,"metadata":"m\n\"é\"","commitTimestamp":9}`},
		{key.AppendTo(nil), nil, `{"group":"g","topic":"t","partition":3} {}`},
		{groupKey.AppendTo(nil), group.AppendTo(nil), `{"group":"g"} {"protocolType":"consumer","generation":4,"protocol":null,"leader":null,"currentStateTimestamp":0,` +
			`"members":[{"memberId":"a","clientId":"c","clientHost":"/h","rebalanceTimeout":-1,"sessionTimeout":10,` +
			`"subscription":{"topics":["t"],"userData":null,"ownedPartitions":[]},"assignment":"CQ=="}]}`},
	} {
		r, err := readInternal("group", c.key, c.value)
		if err != nil {
			t.Fatal(err)
		}
		openMembers(r.value)
		if got := javaJSON(r.key) + " " + javaJSON(r.value); got != c.want {
			t.Errorf("got:\n%s\nwant:\n%s", got, c.want)
		}
		// No cut makes it fall.
		for i := range c.key {
			if _, err := readInternal("group", c.key[:i], c.value); err == nil {
				t.Errorf("a key of %d bytes of %d is read", i, len(c.key))
			}
		}
		for i := range c.value {
			if _, err := readInternal("group", c.key, c.value[:i]); err == nil {
				t.Errorf("a value of %d bytes of %d is read", i, len(c.value))
			}
		}
	}
	if r, err := readInternal("group", []byte{0, 99}, nil); err != errUnknownKind || r.kind != 99 {
		t.Errorf("%v %v", r, err)
	}
}

func TestMetadataRecordsAreRead(t *testing.T) {
	topic := kafka.UUID{1, 2, 3}
	for _, c := range []struct {
		r       metadata.Record
		version int16
		want    string
	}{
		{&metadata.PartitionRecord{TopicID: topic, Replicas: []int32{1, 2}, LeaderRecoveryState: 1}, 0, `{"type":"PARTITION_RECORD","version":0,"data":{"partitionId":0,` +
			`"topicId":"AQIDAAAAAAAAAAAAAAAAAA","replicas":[1,2],"isr":[],"removingReplicas":[],"addingReplicas":[],"leader":0,"leaderRecoveryState":1,"leaderEpoch":0,"partitionEpoch":0}}`},
		{&metadata.PartitionChangeRecord{Leader: metadata.LeaderUnchanged, LeaderRecoveryState: metadata.RecoveryUnchanged, ISR: []int32{}}, 2,
			`{"type":"PARTITION_CHANGE_RECORD","version":2,"data":{"partitionId":0,"topicId":"AAAAAAAAAAAAAAAAAAAAAA","isr":[]}}`},
		{&metadata.ClientQuotaRecord{Key: "k", Value: 1e9}, 0, `{"type":"CLIENT_QUOTA_RECORD","version":0,"data":{"entity":[],"key":"k","value":1.0E9,"remove":false}}`},
		{&metadata.NoOpRecord{}, 0, `{"type":"NO_OP_RECORD","version":0,"data":{}}`},
	} {
		b := metadata.Encode(nil, c.r, c.version)
		o, err := readMetadata(b)
		if got := javaJSON(o); err != nil || got != c.want {
			t.Errorf("%v:\n%s\nwant:\n%s", err, got, c.want)
		}
		for i := range b {
			if _, err := readMetadata(b[:i]); err == nil {
				t.Errorf("%d bytes of %d are read", i, len(b))
			}
		}
	}
	for _, b := range [][]byte{{2, 1, 0}, {1, 6, 0}, {1, 2, 1}} {
		if o, err := readMetadata(b); err == nil {
			t.Errorf("%v is read: %v", b, o)
		}
	}
}

// FuzzShapes: whatever a log holds, reading it ends, and within its bytes.
func FuzzShapes(f *testing.F) {
	f.Add([]byte{1, 5, 2, 0, 0, 0, 1})
	f.Add(metadata.Encode(nil, &metadata.RegisterBrokerRecord{LogDirs: []kafka.UUID{{1}}, Endpoints: []metadata.Endpoint{{Name: "x"}}}, 4))
	f.Fuzz(func(t *testing.T, b []byte) {
		before := append([]byte{}, b...)
		for _, log := range []string{"group", "transaction", "share"} {
			key := []byte{0, 0}
			if len(b) > 0 {
				key[1] = b[0]
			}
			r, _ := readInternal(log, append(key, b...), b)
			_ = javaJSON(r.value)
		}
		o, _ := readMetadata(b)
		_ = javaJSON(o)
		if !reflect.DeepEqual(before, append([]byte{}, b...)) {
			t.Error("the record was changed")
		}
	})
}
