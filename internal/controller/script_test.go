package controller

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

// TestScripts runs testdata/*.txt: each command is one decision, which prints its answer and its records.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var w *world
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "cluster" {
				w = newWorld(t, d)
				return w.commit(bootstrap(w.options.Config))
			}
			return w.run(t, d)
		})
	})
}

// world is a controller without a loop: decisions take effect at once.
type world struct {
	options  Options
	image    *metadata.Image
	contacts map[kafka.NodeID]contact
}

func newWorld(t *testing.T, d *datadriven.TestData) *world {
	w := &world{image: metadata.EmptyImage(), contacts: map[kafka.NodeID]contact{}}
	ids := 0
	level, factor, partitions, minInsync, elr := 33, 1, 1, 1, 0
	d.MaybeScanArgs(t, "level", &level)
	d.MaybeScanArgs(t, "factor", &factor)
	d.MaybeScanArgs(t, "partitions", &partitions)
	d.MaybeScanArgs(t, "min-isr", &minInsync)
	d.MaybeScanArgs(t, "elr", &elr)
	offsets := 0
	d.MaybeScanArgs(t, "offsets-factor", &offsets)
	w.options = Options{
		NodeID: 100, ClusterID: "test",
		NewID: func() kafka.UUID { ids++; return testID(ids) },
		Config: Config{
			NumPartitions: int32(partitions), DefaultReplicationFactor: int16(factor), MinInsyncReplicas: int32(minInsync),
			InternalFactors:        map[string]int16{"__consumer_offsets": int16(offsets)},
			InitialMetadataVersion: int16(level), TopicDeletionDisabled: d.HasArg("no-deletion"),
			InitialFeatures: []metadata.FeatureLevelRecord{{Name: metadata.FeatureEligibleLeaderReplicas, FeatureLevel: int16(elr)}},
		},
		Features: testFeatures(),
		Rules: ConfigRules{
			Check: func(_ metadata.ConfigResource, values, _ map[string]string) error {
				for _, name := range slices.Sorted(maps.Keys(values)) {
					switch name {
					case "cleanup.policy", "min.insync.replicas", "unclean.leader.election.enable":
					case "retention.ms":
						if _, err := strconv.Atoi(values[name]); err != nil {
							return errors.New("Invalid value " + values[name] + " for configuration retention.ms")
						}
					default:
						return errors.New("Unknown topic config name: " + name)
					}
				}
				return nil
			},
			List:    func(_ metadata.ConfigType, name string) bool { return name == "cleanup.policy" },
			Default: func(_ metadata.ConfigType, name string) (string, bool) { return "delete", name == "cleanup.policy" },
		},
	}
	return w
}

func testFeatures() []metadata.FeatureRange {
	return []metadata.FeatureRange{
		{Name: metadata.FeatureMetadataVersion, Min: 7, Max: 33},
		{Name: metadata.FeatureEligibleLeaderReplicas, Min: 0, Max: 1},
		{Name: metadata.FeatureGroupVersion, Min: 0, Max: 1},
	}
}

func testID(n int) kafka.UUID { return kafka.UUID{0: 0xff, 15: byte(n)} }

func (w *world) state() *state {
	return &state{Options: &w.options, image: w.image, nextOffset: w.image.Offset + 1, contacts: w.contacts}
}

func (w *world) commit(records []metadata.Record) string {
	var out strings.Builder
	for _, r := range records {
		fmt.Fprintln(&out, w.text(r))
		d := metadata.NewDelta(w.image)
		if err := d.Replay(r); err != nil {
			fmt.Fprintf(&out, "REPLAY FAILED: %v\n", err)
			return out.String()
		}
		w.image = d.Image(w.image.Offset+1, 1)
	}
	return out.String()
}

// decide runs one request and takes over its result.
func (w *world) decide(q kmsg.Request) (kmsg.Response, string) {
	result, err := decide(w.state(), Request{Body: q})
	if err != nil {
		response, err := refuse(q, err)
		if err != nil {
			return nil, fmt.Sprintf("error: %v\n", err)
		}
		return response, ""
	}
	records := w.commit(result.Records)
	if then := w.commit(result.Then); then != "" {
		records += "then\n" + then
	}
	if n := result.Contact; n != nil {
		k, ok := w.contacts[n.Broker]
		if !ok || n.New {
			k = contact{MetadataOffset: -1, ShutdownOffset: -1}
		}
		k.Live, k.MetadataOffset = true, max(k.MetadataOffset, n.MetadataOffset)
		if n.ShuttingDown {
			k.ShutdownOffset = w.image.Offset
		}
		if n.Failed != nil {
			k.Failed = n.Failed
		}
		w.contacts[n.Broker] = k
		if n.Gone {
			delete(w.contacts, n.Broker)
		}
	}
	return result.Response, records
}

func numbers(t *testing.T, d *datadriven.TestData, key string) []int32 {
	var text string
	if d.MaybeScanArgs(t, key, &text); text == "" {
		return nil
	}
	return parseNumbers(t, text)
}

func parseNumbers(t *testing.T, text string) []int32 {
	var out []int32
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(part)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, int32(n))
	}
	return out
}

func testDirs(ids []int32) [][16]byte {
	var out [][16]byte
	for _, n := range ids {
		out = append(out, kafka.UUID{0: 0xdd, 15: byte(n)})
	}
	return out
}

func (w *world) broker(id int32) *metadata.Broker {
	if b, ok := w.image.Cluster.Broker(id); ok {
		return b
	}
	return &metadata.Broker{ID: id, Epoch: -1}
}

func (w *world) run(t *testing.T, d *datadriven.TestData) string {
	integer := func(key string, or int) int {
		d.MaybeScanArgs(t, key, &or)
		return or
	}
	name := ""
	d.MaybeScanArgs(t, "name", &name)
	var out strings.Builder
	answer := func(q kmsg.Request) kmsg.Response {
		response, records := w.decide(q)
		defer out.WriteString(records)
		return response
	}
	switch d.Cmd {
	case "start": // brokers register and are taken into service
		for _, id := range numbers(t, d, "brokers") {
			rack := ""
			q := registration(id)
			if d.MaybeScanArgs(t, "rack", &rack) {
				q.Rack = &rack
			}
			w.decide(q)
			w.decide(&kmsg.BrokerHeartbeatRequest{BrokerID: id, BrokerEpoch: w.broker(id).Epoch, CurrentMetadataOffset: w.image.Offset})
		}
		return "ok"
	case "register":
		id := int32(integer("broker", 0))
		q := registration(id)
		q.IncarnationID = testID(integer("incarnation", 1))
		q.PreviousBrokerEpoch = int64(integer("previous", -1))
		if d.HasArg("dirs") {
			q.LogDirs = testDirs(numbers(t, d, "dirs"))
		}
		d.MaybeScanArgs(t, "cluster", &q.ClusterID)
		if d.HasArg("max-level") {
			q.Features[0].MaxSupportedVersion = int16(integer("max-level", 0))
		}
		r := answer(q).(*kmsg.BrokerRegistrationResponse)
		return fmt.Sprintf("%s epoch=%d\n%s", code(r.ErrorCode, nil), r.BrokerEpoch, &out)
	case "silent": // the session of a broker ends
		id := int32(integer("broker", 0))
		k := w.contacts[id]
		k.Live = false
		w.contacts[id] = k
		return w.commit(w.state().fence(w.broker(id)))
	case "balance":
		return w.commit(w.state().preferLeaders(integer("limit", maxElections))) + "ok"
	case "new-controller": // which knows the image and nothing else
		clear(w.contacts)
		for id, b := range w.image.Cluster.Brokers() {
			if !b.Fenced {
				w.contacts[id] = contact{Live: true, MetadataOffset: -1, ShutdownOffset: -1}
			}
		}
		return w.commit(w.state().revive()) + w.commit(w.state().raiseInternal()) + "ok"
	case "heartbeat":
		id := int32(integer("broker", 0))
		r := answer(&kmsg.BrokerHeartbeatRequest{
			Version: 1, BrokerID: id, BrokerEpoch: int64(integer("epoch", int(w.broker(id).Epoch))),
			CurrentMetadataOffset: int64(integer("offset", int(w.image.Offset))),
			WantFence:             d.HasArg("want-fence"), WantShutdown: d.HasArg("want-shutdown"),
			OfflineLogDirs: testDirs(numbers(t, d, "offline")),
		}).(*kmsg.BrokerHeartbeatResponse)
		return fmt.Sprintf("%s caught-up=%v fenced=%v shutdown=%v\n%s", code(r.ErrorCode, nil), r.IsCaughtUp, r.IsFenced, r.ShouldShutdown, &out)
	case "next-node-id":
		id, records, err := w.state().nextNodeID(int32(integer("least", 0)))
		if err != nil {
			return err.Error()
		}
		return fmt.Sprintf("%d\n%s", id, w.commit(records))
	case "unregister":
		r := answer(&kmsg.UnregisterBrokerRequest{BrokerID: int32(integer("broker", 0))}).(*kmsg.UnregisterBrokerResponse)
		return code(r.ErrorCode, r.ErrorMessage) + "\n" + out.String()
	case "create-topics":
		r := answer(w.createTopics(t, d)).(*kmsg.CreateTopicsResponse)
		var text strings.Builder
		for _, topic := range r.Topics {
			fmt.Fprintf(&text, "%s: %s", topic.Topic, code(topic.ErrorCode, topic.ErrorMessage))
			if topic.ErrorCode == 0 {
				fmt.Fprintf(&text, " id=%s partitions=%d factor=%d", idText(topic.TopicID), topic.NumPartitions, topic.ReplicationFactor)
			}
			text.WriteString("\n")
		}
		return text.String() + out.String()
	case "delete-topics":
		return w.deleteTopics(t, d, answer, &out)
	case "create-partitions":
		q := &kmsg.CreatePartitionsRequest{Version: 3, ValidateOnly: d.HasArg("validate-only")}
		topic := kmsg.CreatePartitionsRequestTopic{Topic: name, Count: int32(integer("count", 0))}
		for _, arg := range d.CmdArgs {
			if arg.Key == "assign" {
				for _, v := range arg.Vals {
					ids := strings.ReplaceAll(v, "/", ",")
					topic.Assignment = append(topic.Assignment, kmsg.CreatePartitionsRequestTopicAssignment{Replicas: parseNumbers(t, ids)})
				}
			}
		}
		q.Topics = append(q.Topics, topic)
		if d.HasArg("twice") {
			q.Topics = append(q.Topics, topic)
		}
		var text strings.Builder
		for _, topic := range answer(q).(*kmsg.CreatePartitionsResponse).Topics {
			fmt.Fprintf(&text, "%s: %s\n", topic.Topic, code(topic.ErrorCode, topic.ErrorMessage))
		}
		return text.String() + out.String()
	case "alter-configs", "incremental-alter-configs":
		return w.alterConfigs(t, d, answer, &out)
	case "alter-partition":
		topic, p, _ := w.image.Topics.Partition(kafka.TopicPartition{Topic: name, Partition: int32(integer("partition", 0))})
		leader := int32(integer("broker", int(p.Leader)))
		part := kmsg.AlterPartitionRequestTopicPartition{
			Partition: int32(integer("partition", 0)), LeaderEpoch: int32(integer("leader-epoch", int(p.LeaderEpoch))),
			PartitionEpoch: int32(integer("partition-epoch", int(p.PartitionEpoch))), LeaderRecoveryState: int8(integer("recovery", 0)),
		}
		for _, id := range numbers(t, d, "isr") {
			epoch := w.broker(id).Epoch
			if d.HasArg("stale") {
				epoch--
			}
			part.NewEpochISR = append(part.NewEpochISR, kmsg.AlterPartitionRequestTopicPartitionNewEpochISR{BrokerID: id, BrokerEpoch: epoch})
		}
		r := answer(&kmsg.AlterPartitionRequest{
			Version: 3, BrokerID: leader, BrokerEpoch: w.broker(leader).Epoch,
			Topics: []kmsg.AlterPartitionRequestTopic{{TopicID: topic.ID, Partitions: []kmsg.AlterPartitionRequestTopicPartition{part}}},
		}).(*kmsg.AlterPartitionResponse)
		if r.ErrorCode != 0 {
			return code(r.ErrorCode, nil)
		}
		got := r.Topics[0].Partitions[0]
		return fmt.Sprintf("%s leader=%d isr=%v leader-epoch=%d partition-epoch=%d\n%s",
			code(got.ErrorCode, nil), got.LeaderID, got.ISR, got.LeaderEpoch, got.PartitionEpoch, &out)
	case "reassign": // to=cancel takes it back
		part := kmsg.AlterPartitionAssignmentsRequestTopicPartition{Partition: int32(integer("partition", 0))}
		var to string
		if d.MaybeScanArgs(t, "to", &to); to != "cancel" {
			part.Replicas = append([]int32{}, numbers(t, d, "to")...)
		}
		topic := kmsg.AlterPartitionAssignmentsRequestTopic{Topic: name, Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{part}}
		if d.HasArg("twice") {
			topic.Partitions = append(topic.Partitions, part)
		}
		r := answer(&kmsg.AlterPartitionAssignmentsRequest{
			Version: 1, AllowReplicationFactorChange: !d.HasArg("same-factor"), Topics: []kmsg.AlterPartitionAssignmentsRequestTopic{topic},
		}).(*kmsg.AlterPartitionAssignmentsResponse)
		var text strings.Builder
		for _, p := range r.Topics[0].Partitions {
			fmt.Fprintln(&text, code(p.ErrorCode, p.ErrorMessage))
		}
		return text.String() + out.String()
	case "reassignments":
		q := &kmsg.ListPartitionReassignmentsRequest{}
		if name != "" {
			q.Topics = []kmsg.ListPartitionReassignmentsRequestTopic{{Topic: name, Partitions: numbers(t, d, "partitions")}}
		}
		for _, topic := range answer(q).(*kmsg.ListPartitionReassignmentsResponse).Topics {
			for _, p := range topic.Partitions {
				fmt.Fprintf(&out, "%s-%d replicas=%v adding=%v removing=%v\n", topic.Topic, p.Partition, p.Replicas, p.AddingReplicas, p.RemovingReplicas)
			}
		}
		return out.String() + "ok"
	case "elect-leaders":
		q := &kmsg.ElectLeadersRequest{Version: 2}
		if d.HasArg("unclean") {
			q.ElectionType = 1
		}
		if name != "" {
			q.Topics = []kmsg.ElectLeadersRequestTopic{{Topic: name, Partitions: numbers(t, d, "partitions")}}
		}
		r := answer(q).(*kmsg.ElectLeadersResponse)
		text := code(r.ErrorCode, nil) + "\n"
		for _, topic := range r.Topics {
			for _, p := range topic.Partitions {
				text += fmt.Sprintf("%s-%d: %s\n", topic.Topic, p.Partition, code(p.ErrorCode, p.ErrorMessage))
			}
		}
		return text + out.String()
	case "assign-dir":
		id := int32(integer("broker", 0))
		topic, _ := w.image.Topics.ByName(name)
		r := answer(&kmsg.AssignReplicasToDirsRequest{
			BrokerID: id, BrokerEpoch: w.broker(id).Epoch,
			Directories: []kmsg.AssignReplicasToDirsRequestDirectory{{
				ID: testDirs(numbers(t, d, "dir"))[0],
				Topics: []kmsg.AssignReplicasToDirsRequestDirectoryTopic{{
					TopicID:    topic.ID,
					Partitions: []kmsg.AssignReplicasToDirsRequestDirectoryTopicPartition{{Partition: int32(integer("partition", 0))}},
				}},
			}},
		}).(*kmsg.AssignReplicasToDirsResponse)
		if r.ErrorCode != 0 {
			return code(r.ErrorCode, nil)
		}
		return code(r.Directories[0].Topics[0].Partitions[0].ErrorCode, nil) + "\n" + out.String()
	case "allocate-producer-ids":
		id := int32(integer("broker", 0))
		r := answer(&kmsg.AllocateProducerIDsRequest{BrokerID: id, BrokerEpoch: int64(integer("epoch", int(w.broker(id).Epoch)))}).(*kmsg.AllocateProducerIDsResponse)
		return fmt.Sprintf("%s first=%d count=%d\n%s", code(r.ErrorCode, nil), r.ProducerIDStart, r.ProducerIDLen, &out)
	case "update-feature":
		r := answer(&kmsg.UpdateFeaturesRequest{
			Version: 2, ValidateOnly: d.HasArg("validate-only"),
			FeatureUpdates: []kmsg.UpdateFeaturesRequestFeatureUpdate{
				{Feature: name, MaxVersionLevel: int16(integer("level", 0)), UpgradeType: int8(integer("type", 1))},
			},
		}).(*kmsg.UpdateFeaturesResponse)
		return code(r.ErrorCode, r.ErrorMessage) + "\n" + out.String()
	case "show":
		for topic, x := range w.image.Topics.All() {
			for index, p := range x.Partitions.All() {
				fmt.Fprintf(&out, "%s-%d replicas=%v isr=%v leader=%d leader-epoch=%d", topic, index, p.Replicas, p.ISR, p.Leader, p.LeaderEpoch)
				if p.Reassigning() {
					fmt.Fprintf(&out, " adding=%v removing=%v", p.AddingReplicas, p.RemovingReplicas)
				}
				if len(p.ELR)+len(p.LastKnownELR) > 0 {
					fmt.Fprintf(&out, " elr=%v last=%v", p.ELR, p.LastKnownELR)
				}
				out.WriteString("\n")
			}
		}
		return out.String()
	}
	t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
	return ""
}

func registration(id int32) *kmsg.BrokerRegistrationRequest {
	return &kmsg.BrokerRegistrationRequest{
		Version: 4, BrokerID: id, ClusterID: "test", IncarnationID: testID(1), LogDirs: testDirs([]int32{id * 10}),
		PreviousBrokerEpoch: -1,
		Listeners:           []kmsg.BrokerRegistrationRequestListener{{Name: "PLAINTEXT", Host: "localhost", Port: 9092}},
		Features: []kmsg.BrokerRegistrationRequestFeature{
			{Name: metadata.FeatureMetadataVersion, MinSupportedVersion: 7, MaxSupportedVersion: 33},
			{Name: metadata.FeatureEligibleLeaderReplicas, MinSupportedVersion: 0, MaxSupportedVersion: 1},
			{Name: metadata.FeatureGroupVersion, MinSupportedVersion: 0, MaxSupportedVersion: 1},
		},
	}
}

// createTopics reads one topic per line: name [partitions=N] [factor=N] [assign=0:1/2,1:2/3] [key=value …].
func (w *world) createTopics(t *testing.T, d *datadriven.TestData) kmsg.Request {
	q := &kmsg.CreateTopicsRequest{Version: 7, ValidateOnly: d.HasArg("validate-only")}
	for line := range strings.SplitSeq(d.Input, "\n") {
		fields := strings.Fields(line)
		topic := kmsg.CreateTopicsRequestTopic{Topic: strings.Trim(fields[0], `"`), NumPartitions: -1, ReplicationFactor: -1}
		for _, f := range fields[1:] {
			key, value, set := strings.Cut(f, "=")
			switch key {
			case "partitions", "factor":
				n, err := strconv.Atoi(value)
				if err != nil {
					t.Fatal(err)
				}
				if key == "factor" {
					topic.ReplicationFactor = int16(n)
				} else {
					topic.NumPartitions = int32(n)
				}
			case "assign":
				for part := range strings.SplitSeq(value, ",") {
					index, replicas, _ := strings.Cut(part, ":")
					a := kmsg.CreateTopicsRequestTopicReplicaAssignment{Partition: parseNumbers(t, index)[0]}
					if replicas != "" {
						a.Replicas = parseNumbers(t, strings.ReplaceAll(replicas, "/", ","))
					}
					topic.ReplicaAssignment = append(topic.ReplicaAssignment, a)
				}
			default:
				c := kmsg.CreateTopicsRequestTopicConfig{Name: key}
				if set {
					c.Value = &value
				}
				topic.Configs = append(topic.Configs, c)
			}
		}
		q.Topics = append(q.Topics, topic)
	}
	return q
}

// deleteTopics reads one name, or #n for the n-th id, per line.
func (w *world) deleteTopics(t *testing.T, d *datadriven.TestData, answer func(kmsg.Request) kmsg.Response, records *strings.Builder) string {
	q := &kmsg.DeleteTopicsRequest{Version: 6}
	for line := range strings.SplitSeq(d.Input, "\n") {
		var topic kmsg.DeleteTopicsRequestTopic
		for _, part := range strings.Fields(line) {
			if n, ok := strings.CutPrefix(part, "#"); ok {
				topic.TopicID = testID(int(parseNumbers(t, n)[0]))
			} else if part != "nothing" {
				topic.Topic = &part
			}
		}
		q.Topics = append(q.Topics, topic)
	}
	var text strings.Builder
	for _, topic := range answer(q).(*kmsg.DeleteTopicsResponse).Topics {
		name := "(no name)"
		if topic.Topic != nil {
			name = *topic.Topic
		}
		fmt.Fprintf(&text, "%s %s: %s\n", name, idText(topic.TopicID), code(topic.ErrorCode, topic.ErrorMessage))
	}
	return text.String() + records.String()
}

// alterConfigs reads one change per line: key=value, and for incremental changes also -key, key+=value, key-=value.
func (w *world) alterConfigs(t *testing.T, d *datadriven.TestData, answer func(kmsg.Request) kmsg.Response, records *strings.Builder) string {
	kind, name := kmsg.ConfigResourceTypeTopic, ""
	if d.HasArg("broker") {
		kind = kmsg.ConfigResourceTypeBroker
		d.MaybeScanArgs(t, "broker", &name)
		if name == "default" {
			name = ""
		}
	} else {
		d.ScanArgs(t, "topic", &name)
	}
	if d.Cmd == "alter-configs" {
		resource := kmsg.AlterConfigsRequestResource{ResourceType: kind, ResourceName: name}
		for line := range strings.SplitSeq(strings.TrimSpace(d.Input), "\n") {
			if key, value, ok := strings.Cut(line, "="); ok {
				resource.Configs = append(resource.Configs, kmsg.AlterConfigsRequestResourceConfig{Name: key, Value: &value})
			}
		}
		r := answer(&kmsg.AlterConfigsRequest{
			Version: 2, Resources: []kmsg.AlterConfigsRequestResource{resource}, ValidateOnly: d.HasArg("validate-only"),
		}).(*kmsg.AlterConfigsResponse)
		return code(r.Resources[0].ErrorCode, r.Resources[0].ErrorMessage) + "\n" + records.String()
	}
	resource := kmsg.IncrementalAlterConfigsRequestResource{ResourceType: kind, ResourceName: name}
	for line := range strings.SplitSeq(d.Input, "\n") {
		key, value, _ := strings.Cut(line, "=")
		c := kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: key, Value: &value}
		switch {
		case strings.HasPrefix(key, "-"):
			c.Name, c.Op, c.Value = key[1:], kmsg.IncrementalAlterConfigOpDelete, nil
		case strings.HasSuffix(key, "+"):
			c.Name, c.Op = key[:len(key)-1], kmsg.IncrementalAlterConfigOpAppend
		case strings.HasSuffix(key, "-"):
			c.Name, c.Op = key[:len(key)-1], kmsg.IncrementalAlterConfigOpSubtract
		}
		resource.Configs = append(resource.Configs, c)
	}
	q := &kmsg.IncrementalAlterConfigsRequest{
		Version: 1, Resources: []kmsg.IncrementalAlterConfigsRequestResource{resource}, ValidateOnly: d.HasArg("validate-only"),
	}
	if d.HasArg("twice") {
		q.Resources = append(q.Resources, resource)
	}
	r := answer(q).(*kmsg.IncrementalAlterConfigsResponse)
	return code(r.Resources[0].ErrorCode, r.Resources[0].ErrorMessage) + "\n" + records.String()
}

func code(c int16, message *string) string {
	if c == 0 {
		return "ok"
	}
	text := kerr.TypedErrorForCode(c).Message
	if message != nil {
		text += " " + *message
	}
	return text
}

func idText(id [16]byte) string {
	switch {
	case id == [16]byte{}:
		return "#0"
	case kafka.DirID(id) == kafka.DirLost:
		return "lost"
	case id[0] == 0xff || id[0] == 0xdd:
		return fmt.Sprintf("#%d", id[15])
	}
	return kafka.UUID(id).String()
}

func dirsText(ids []kafka.DirID) string {
	parts := make([]string, len(ids))
	for i, id := range ids {
		parts[i] = idText(id)
	}
	return strings.Join(parts, ",")
}

func (w *world) text(r metadata.Record) string {
	topic := func(id kafka.TopicID, index int32) string {
		if x, ok := w.image.Topics.ByID(id); ok {
			return fmt.Sprintf("%s-%d", x.Name, index)
		}
		return idText(id)
	}
	switch r := r.(type) {
	case *metadata.TopicRecord:
		return fmt.Sprintf("  Topic %s id=%s", r.Name, idText(r.TopicID))
	case *metadata.RemoveTopicRecord:
		return "  RemoveTopic " + idText(r.TopicID)
	case *metadata.PartitionRecord:
		return fmt.Sprintf("  Partition %s replicas=%v isr=%v leader=%d dirs=%s", topic(r.TopicID, r.PartitionID), r.Replicas, r.ISR, r.Leader, dirsText(r.Directories))
	case *metadata.PartitionChangeRecord:
		text := "  PartitionChange " + topic(r.TopicID, r.PartitionID)
		if r.Replicas != nil {
			text += fmt.Sprintf(" replicas=%v", r.Replicas)
		}
		if r.AddingReplicas != nil {
			text += fmt.Sprintf(" adding=%v", r.AddingReplicas)
		}
		if r.RemovingReplicas != nil {
			text += fmt.Sprintf(" removing=%v", r.RemovingReplicas)
		}
		if r.ISR != nil {
			text += fmt.Sprintf(" isr=%v", r.ISR)
		}
		if r.Leader != metadata.LeaderUnchanged {
			text += fmt.Sprintf(" leader=%d", r.Leader)
		}
		if r.EligibleLeaderReplicas != nil {
			text += fmt.Sprintf(" elr=%v", r.EligibleLeaderReplicas)
		}
		if r.LastKnownELR != nil {
			text += fmt.Sprintf(" last=%v", r.LastKnownELR)
		}
		if r.LeaderRecoveryState != metadata.RecoveryUnchanged {
			text += fmt.Sprintf(" recovery=%d", r.LeaderRecoveryState)
		}
		if r.Directories != nil {
			text += " dirs=" + dirsText(r.Directories)
		}
		return text
	case *metadata.RegisterBrokerRecord:
		return fmt.Sprintf("  RegisterBroker %d epoch=%d fenced=%v dirs=%s", r.BrokerID, r.BrokerEpoch, r.Fenced, dirsText(r.LogDirs))
	case *metadata.BrokerRegistrationChangeRecord:
		return fmt.Sprintf("  BrokerRegistrationChange %d fenced=%+d shutdown=%+d dirs=%s", r.BrokerID, r.Fenced, r.InControlledShutdown, dirsText(r.LogDirs))
	case *metadata.NoOpRecord:
		return fmt.Sprintf("  NoOp next-node-id=%d", r.NextNodeID)
	case *metadata.UnregisterBrokerRecord:
		return fmt.Sprintf("  UnregisterBroker %d", r.BrokerID)
	case *metadata.ConfigRecord:
		value := "(removed)"
		if r.Value != nil {
			value = *r.Value
		}
		return fmt.Sprintf("  Config %v %q %s=%s", metadata.ConfigType(r.ResourceType), r.ResourceName, r.Name, value)
	case *metadata.FeatureLevelRecord:
		return fmt.Sprintf("  FeatureLevel %s=%d", r.Name, r.FeatureLevel)
	case *metadata.ProducerIDsRecord:
		return fmt.Sprintf("  ProducerIds next=%d", r.NextProducerID)
	}
	return fmt.Sprintf("  %T", r)
}
