package metadata

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"moldau/internal/kafka"
)

func id(n int) kafka.UUID { return kafka.UUID{0: 0x10, 14: byte(n >> 8), 15: byte(n)} }

func ptr[T any](v T) *T { return &v }

// draw returns a record that a log may hold after what the image shows.
func draw(t *rapid.T, image *Image) Record {
	topics := slices.Collect(maps.Keys(maps.Collect(image.Topics.All())))
	slices.Sort(topics)
	someTopic := func() *Topic {
		topic, _ := image.Topics.ByName(rapid.SampledFrom(topics).Draw(t, "topic"))
		return topic
	}
	nodes := rapid.SliceOfNDistinct(rapid.Int32Range(0, 5), 0, 3, rapid.ID[int32])
	small := rapid.IntRange(0, 6)
	name := func(prefix string) string { return fmt.Sprintf("%s%d", prefix, small.Draw(t, prefix)) }
	for {
		switch rapid.IntRange(0, 19).Draw(t, "kind") {
		case 0:
			n := name("topic")
			if _, ok := image.Topics.ByName(n); !ok {
				return &TopicRecord{Name: n, TopicID: id(int(image.Offset) + 1)} // an id is never used twice
			}
		case 1, 2, 3:
			if len(topics) > 0 {
				replicas := nodes.Draw(t, "replicas")
				return &PartitionRecord{
					PartitionID: int32(small.Draw(t, "partition")), TopicID: someTopic().ID,
					Replicas: replicas, Directories: make([]kafka.DirID, len(replicas)), ISR: replicas,
					EligibleLeaderReplicas: nilIfEmpty(nodes.Draw(t, "elr")), Leader: -1, LeaderEpoch: 3,
				}
			}
		case 4, 5, 6:
			if len(topics) == 0 {
				continue
			}
			topic := someTopic()
			if topic.Partitions.Len() == 0 {
				continue
			}
			indexes := slices.Sorted(maps.Keys(maps.Collect(topic.Partitions.All())))
			return &PartitionChangeRecord{
				PartitionID: rapid.SampledFrom(indexes).Draw(t, "partition"), TopicID: topic.ID,
				ISR: nodes.Draw(t, "isr"), Leader: rapid.Int32Range(-2, 3).Draw(t, "leader"),
				LeaderRecoveryState: int8(rapid.IntRange(-1, 1).Draw(t, "recovery")),
				LastKnownELR:        rapid.SampledFrom([][]int32{nil, {}, {1}}).Draw(t, "last"),
			}
		case 7:
			if len(topics) > 0 {
				return &RemoveTopicRecord{TopicID: someTopic().ID}
			}
		case 8:
			return &ConfigRecord{ResourceType: 2, ResourceName: name("topic"), Name: name("key"),
				Value: rapid.SampledFrom([]*string{nil, ptr("a"), ptr("b")}).Draw(t, "value")}
		case 9:
			return &RegisterBrokerRecord{BrokerID: int32(small.Draw(t, "broker")), BrokerEpoch: 7, Fenced: rapid.Bool().Draw(t, "fenced")}
		case 10, 11:
			broker := int32(small.Draw(t, "broker"))
			if b, ok := image.Cluster.Broker(broker); ok {
				if rapid.Bool().Draw(t, "gone") {
					return &UnregisterBrokerRecord{BrokerID: broker, BrokerEpoch: b.Epoch}
				}
				return &BrokerRegistrationChangeRecord{BrokerID: broker, BrokerEpoch: b.Epoch, Fenced: int8(rapid.IntRange(-1, 1).Draw(t, "fence"))}
			}
		case 12:
			return &FeatureLevelRecord{Name: rapid.SampledFrom([]string{"group.version", "share.version"}).Draw(t, "feature"),
				FeatureLevel: int16(rapid.IntRange(0, 2).Draw(t, "level"))}
		case 13:
			return &ClientQuotaRecord{Entity: []QuotaEntityPart{{EntityType: "user", EntityName: ptr(name("user"))}}, Key: name("quota"),
				Value: 1, Remove: rapid.Bool().Draw(t, "remove")}
		case 14:
			return &ProducerIDsRecord{NextProducerID: image.ProducerIDs.Next + 1000}
		case 15:
			if rapid.Bool().Draw(t, "remove") {
				return &RemoveAccessControlEntryRecord{ID: id(small.Draw(t, "acl"))}
			}
			return &AccessControlEntryRecord{ID: id(small.Draw(t, "acl")), Principal: "User:x"}
		case 16:
			if rapid.Bool().Draw(t, "remove") {
				return &RemoveUserScramCredentialRecord{Name: name("user"), Mechanism: 1}
			}
			return &UserScramCredentialRecord{Name: name("user"), Mechanism: 1, Iterations: 4096}
		case 17:
			if rapid.Bool().Draw(t, "remove") {
				return &RemoveDelegationTokenRecord{TokenID: name("token")}
			}
			return &DelegationTokenRecord{TokenID: name("token"), Owner: "User:x"}
		case 18:
			return &RegisterControllerRecord{ControllerID: int32(small.Draw(t, "controller"))}
		case 19:
			return &ClearElrRecord{}
		}
	}
}

// Applying records one by one, all at once, from bytes, and from a snapshot at any point gives the same image; and the
// delta between two images names what the records changed.
func TestImagesAddUpTheSameEveryWay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := &FeatureLevelRecord{Name: FeatureMetadataVersion, FeatureLevel: MaxMetadataVersion}
		steps := NewLoader()
		commit := func(r Record) {
			if err := steps.Commit(steps.Image().Offset+1, 1, []Record{r}); err != nil {
				t.Fatal(err)
			}
		}
		commit(first)
		history := []Record{first}
		for range rapid.IntRange(0, 40).Draw(t, "before") {
			r := draw(t, steps.Image())
			history = append(history, r)
			commit(r)
		}
		middle := steps.Image()
		middleHash := middle.Hash()
		for range rapid.IntRange(0, 20).Draw(t, "after") {
			r := draw(t, steps.Image())
			history = append(history, r)
			commit(r)
		}
		last := steps.Image()

		whole := NewDelta(EmptyImage())
		for _, r := range history {
			decoded, err := Decode(Encode(nil, r, Latest(r, MaxMetadataVersion)))
			if err != nil {
				t.Fatal(err)
			}
			if err := whole.Replay(decoded); err != nil {
				t.Fatal(err)
			}
		}
		if got := whole.Image(last.Offset, last.Epoch); got.Hash() != last.Hash() {
			t.Fatal("replayed from bytes, the image differs")
		}

		var fromSnapshot []Record
		last.EncodeRecords(func(value []byte) {
			r, err := Decode(value)
			if err != nil {
				t.Fatal(err)
			}
			fromSnapshot = append(fromSnapshot, r)
		})
		loader := NewLoader()
		if err := loader.Snapshot(last.Offset, last.Epoch, fromSnapshot); err != nil {
			t.Fatal(err)
		}
		if loader.Image().Hash() != last.Hash() {
			t.Fatal("loaded from a snapshot, the image differs")
		}
		if got, want := loader.Image().Topics.PartitionCount(), last.Topics.PartitionCount(); got != want {
			t.Fatalf("partition count %d, want %d", got, want)
		}

		if middle.Hash() != middleHash {
			t.Fatal("an image changed after it was published")
		}
		checkDelta(t, middle, last, Between(middle, loader.Image()), true)
		replayed := NewDelta(middle)
		for _, r := range history[middle.Offset+1:] {
			if err := replayed.Replay(r); err != nil {
				t.Fatal(err)
			}
		}
		checkDelta(t, middle, last, replayed, false)
	})
}

// checkDelta compares what a delta says with the two images, found out the slow way. A delta that is not exact may also
// name what was written again as it was.
func checkDelta(t *rapid.T, before, after *Image, d *Delta, exact bool) {
	var wantDeleted, wantChanged []string
	for name, a := range before.Topics.All() {
		if b, ok := after.Topics.ByName(name); !ok || b.ID != a.ID {
			wantDeleted = append(wantDeleted, name)
		}
	}
	for name, b := range after.Topics.All() {
		a, ok := before.Topics.ByName(name)
		for index, p := range b.Partitions.All() {
			q, had := (*PartitionRegistration)(nil), false
			if ok && a.ID == b.ID {
				q, had = a.Partitions.Get(index)
			}
			if !had || !p.equal(q) {
				wantChanged = append(wantChanged, fmt.Sprintf("%s-%d", name, index))
			}
		}
		if !ok || a.ID != b.ID {
			wantChanged = append(wantChanged, name)
		}
	}
	var deleted, changed []string
	for _, topic := range d.DeletedTopics() {
		deleted = append(deleted, topic.Name)
	}
	for _, c := range d.ChangedTopics() {
		for _, index := range c.Partitions {
			changed = append(changed, fmt.Sprintf("%s-%d", c.After.Name, index))
		}
		if c.Before == nil {
			changed = append(changed, c.After.Name)
		}
	}
	if !exact {
		changed = slices.DeleteFunc(changed, func(c string) bool { return !slices.Contains(wantChanged, c) })
	}
	if !slices.Equal(deleted, wantDeleted) || !slices.Equal(changed, wantChanged) {
		t.Fatalf("deleted %v, want %v; changed %v, want %v", deleted, wantDeleted, changed, wantChanged)
	}
	for broker := range int32(7) {
		a, _ := before.Cluster.Broker(broker)
		b, _ := after.Cluster.Broker(broker)
		if named := slices.Contains(d.ChangedBrokers(), broker); !named && !reflect.DeepEqual(a, b) {
			t.Fatalf("broker %d changed and is not named", broker)
		}
	}
	for resource := range maps.Keys(maps.Collect(before.Configs.All())) {
		if !maps.Equal(before.Configs.Get(resource.Type, resource.Name), after.Configs.Get(resource.Type, resource.Name)) &&
			!slices.Contains(d.ChangedConfigs(), resource) {
			t.Fatalf("configuration of %v changed and is not named", resource)
		}
	}
}

func TestReplayRefusesWhatContradictsTheImage(t *testing.T) {
	base := NewDelta(EmptyImage())
	for _, r := range []Record{
		&TopicRecord{Name: "t", TopicID: id(1)},
		&RegisterBrokerRecord{BrokerID: 1, BrokerEpoch: 5},
	} {
		if err := base.Replay(r); err != nil {
			t.Fatal(err)
		}
	}
	image := base.Image(1, 1)
	for _, r := range []Record{
		&TopicRecord{Name: "t", TopicID: id(2)},
		&TopicRecord{Name: "u", TopicID: id(1)},
		&PartitionRecord{TopicID: id(2)},
		&PartitionChangeRecord{TopicID: id(1), PartitionID: 0},
		&RemoveTopicRecord{TopicID: id(2)},
		&ClearElrRecord{TopicName: "u"},
		&UnregisterBrokerRecord{BrokerID: 1, BrokerEpoch: 4},
		&BrokerRegistrationChangeRecord{BrokerID: 2, BrokerEpoch: 5},
		&BrokerRegistrationChangeRecord{BrokerID: 1, BrokerEpoch: 5, Fenced: 2},
		&BrokerRegistrationChangeRecord{BrokerID: 1, BrokerEpoch: 5, InControlledShutdown: -1},
		&BeginTransactionRecord{},
	} {
		if err := NewDelta(image).Replay(r); err == nil {
			t.Errorf("replay took %T %+v", r, r)
		}
	}
}

func TestChangeRecordMovesEpochs(t *testing.T) {
	p := newPartition(&PartitionRecord{Replicas: []int32{1, 2}, ISR: []int32{1, 2}, Leader: 1, LeaderEpoch: 4, PartitionEpoch: 9})
	if p.Directories[0] != kafka.DirMigrating {
		t.Errorf("directory %v of a record that has none, want %v", p.Directories[0], kafka.DirMigrating)
	}
	same := p.Change(&PartitionChangeRecord{Leader: LeaderUnchanged, LeaderRecoveryState: RecoveryUnchanged, ISR: []int32{1}})
	if same.LeaderEpoch != 4 || same.PartitionEpoch != 10 || same.Leader != 1 || len(same.ISR) != 1 || len(p.ISR) != 2 {
		t.Errorf("ISR change gave %+v from %+v", same, p)
	}
	moved := same.Change(&PartitionChangeRecord{Leader: 1, LeaderRecoveryState: RecoveryUnchanged})
	if moved.LeaderEpoch != 5 || moved.PartitionEpoch != 11 {
		t.Errorf("naming the same leader gave epochs %d and %d, want 5 and 11", moved.LeaderEpoch, moved.PartitionEpoch)
	}
}
