package group

import (
	"bytes"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
)

// TestOffsetRecords: keys and values are those of kmsg, which has them from Kafka's message definitions, in every version.
func TestOffsetRecords(t *testing.T) {
	key := kmsg.OffsetCommitKey{Version: 1, Group: "grüße", Topic: "orders", Partition: 77}
	c := committed{offset: 1 << 40, leaderEpoch: 9, metadata: "note", at: 1_700_000_000_000, expires: noExpiry}
	r := offsetRecord(key.Group, key.Topic, key.Partition, &c)
	if want := key.AppendTo(nil); !bytes.Equal(r.Key, want) {
		t.Errorf("key %x, want %x", r.Key, want)
	}
	value := kmsg.OffsetCommitValue{Version: 3, Offset: c.offset, LeaderEpoch: c.leaderEpoch, Metadata: c.metadata, CommitTimestamp: c.at}
	if want := value.AppendTo(nil); !bytes.Equal(r.Value, want) {
		t.Errorf("value %x, want %x", r.Value, want)
	}
	c.expires = c.at + 60_000
	value.Version, value.ExpireTimestamp = 1, c.expires
	if got, want := appendOffset(nil, c), value.AppendTo(nil); !bytes.Equal(got, want) {
		t.Errorf("value with its own expiry %x, want %x", got, want)
	}
	if tombstone := offsetRecord("g", "t", 0, nil); tombstone.Value != nil {
		t.Error("a tombstone has a value")
	}
	for version := int16(0); version <= 1; version++ {
		key.Version = version
		k, err := readOffsetKey(key.AppendTo(nil))
		if err != nil || string(k.group) != key.Group || string(k.topic) != key.Topic || k.partition != key.Partition {
			t.Errorf("key version %d reads as %q %q %d: %v", version, k.group, k.topic, k.partition, err)
		}
	}
	for version := int16(0); version <= offsetNewest; version++ {
		value := kmsg.OffsetCommitValue{Version: version, Offset: 5, LeaderEpoch: 2, Metadata: "m", CommitTimestamp: 7, ExpireTimestamp: 8, TopicID: [16]byte{1, 2, 3}}
		want := committed{offset: 5, leaderEpoch: noLeaderEpoch, metadata: "m", at: 7, expires: noExpiry}
		if version >= 3 {
			want.leaderEpoch = 2
		}
		if version == 1 {
			want.expires = 8
		}
		if got, err := readOffset(value.AppendTo(nil)); err != nil || got != want {
			t.Errorf("value version %d reads as %+v, want %+v: %v", version, got, want, err)
		}
	}
}

// TestGroupRecords: every version reads back; the first had one timeout for two.
func TestGroupRecords(t *testing.T) {
	for version := int16(0); version <= groupNewest; version++ {
		v := kmsg.NewGroupMetadataValue()
		v.Version, v.ProtocolType, v.Generation, v.Protocol, v.Leader = version, "consumer", 3, kmsg.StringPtr("range"), kmsg.StringPtr("m")
		v.CurrentStateTimestamp = 99
		m := kmsg.NewGroupMetadataValueMember()
		m.MemberID, m.ClientID, m.ClientHost, m.SessionTimeoutMillis, m.RebalanceTimeoutMillis = "m", "c", "/h", 10, 20
		m.Subscription, m.Assignment = []byte("s"), []byte("a")
		v.Members = append(v.Members, m)
		got, err := readGroup(v.AppendTo(nil))
		if err != nil {
			t.Fatalf("version %d: %v", version, err)
		}
		rebalance := int32(20)
		if version == 0 {
			rebalance = 10
		}
		if got.Generation != 3 || *got.Leader != "m" || len(got.Members) != 1 || got.Members[0].RebalanceTimeoutMillis != rebalance {
			t.Errorf("version %d reads as %+v", version, got)
		}
	}
	key := kmsg.GroupMetadataKey{Version: 2, Group: "g"}
	if got := groupKey("g"); !bytes.Equal(got, key.AppendTo(nil)) {
		t.Errorf("key %x, want %x", got, key.AppendTo(nil))
	}
}

// FuzzReplay: whatever lies in the log, a shard loads without panicking, and what it understands it can write again.
func FuzzReplay(f *testing.F) {
	good := committed{offset: 5, leaderEpoch: 1, metadata: "m", at: 7, expires: noExpiry}
	r := offsetRecord("g", "t", 1, &good)
	f.Add(r.Key, r.Value)
	for version := int16(0); version <= offsetNewest; version++ {
		v := kmsg.OffsetCommitValue{Version: version, Metadata: "m"}
		f.Add(r.Key, v.AppendTo(nil))
	}
	g := newGroup("g", new(atomic.Int64))
	g.add(&member{id: "m", protocols: []protocol{{"range", []byte("x")}}})
	stored := groupRecord(g.value((*member).part), "g")
	f.Add(stored.Key, stored.Value)
	f.Add([]byte{0, 3, 0}, []byte{1})
	f.Fuzz(func(t *testing.T, key, value []byte) {
		s := &shard{c: &Coordinator{}, groups: map[string]*group{}}
		if s.Replay(coordinator.Record{Key: key, Value: value}) != nil {
			return
		}
		for _, g := range s.sorted() {
			g.value((*member).part)
			for range g.all() {
				continue
			}
		}
		_ = s.Replay(coordinator.Record{Key: key})
	})
}

// TestPartitionOf: Java's arithmetic, with values that Apache Kafka computes (Utils.abs(id.hashCode()) % 50).
func TestPartitionOf(t *testing.T) {
	for id, want := range map[string]int32{
		"":                       0,
		"g":                      3,
		"group":                  47,
		"Aa":                     12,
		"BB":                     12, // the same hash
		"console-consumer-12345": 6,
		"polygenelubricants":     0,  // the smallest number, which has no opposite
		"grüße":                  23, // beyond ASCII
		"😀":                      49, // a surrogate pair
	} {
		if got := partitionOf(id, 50); got != want {
			t.Errorf("%q: %d, want %d", id, got, want)
		}
	}
}

// TestMark: a mark is a record of its own key that says nothing about any group.
func TestMark(t *testing.T) {
	s := &shard{c: &Coordinator{}, groups: map[string]*group{}}
	mark := s.Mark()
	if k, err := readOffsetKey(mark.Key); err != nil || len(k.group)+len(k.topic) > 0 || mark.Value != nil {
		t.Errorf("key %+v, value %x, %v", k, mark.Value, err)
	}
	if err := s.Replay(mark); err != nil || len(s.groups) > 0 {
		t.Errorf("groups %v, %v", s.groups, err)
	}
}
