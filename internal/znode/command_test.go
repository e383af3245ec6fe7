package znode

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

// existing is a cluster with a topic of two partitions and some settings.
func existing(t *testing.T) *metadata.Image {
	c := newCluster(t)
	c.commit(broker(1, 11), &metadata.TopicRecord{Name: "first", TopicID: topicID(1)}, partition(1, 0, 1), partition(1, 1, 1),
		setting(metadata.ConfigTopic, "first", "retention.ms", "1"), setting(metadata.ConfigTopic, "first", "cleanup.policy", "compact"),
		setting(metadata.ConfigBroker, "1", "ssl.key.password", "hush"), setting(metadata.ConfigBroker, "1", "log.cleaner.threads", "2"))
	return c.image
}

// nothingStored is a tree without settings of topics to come.
func nothingStored(string) ([]byte, bool) { return nil, false }

// TestWritesThatAreCommands has the writes of the genuine tools, and the request that each is.
func TestWritesThatAreCommands(t *testing.T) {
	stored := func(path string) ([]byte, bool) {
		return []byte(`{"version":1,"config":{"retention.ms":"600000","cleanup.policy":"delete"}}`), path == "/config/topics/new"
	}
	for _, c := range []struct {
		name   string
		write  Write
		want   kmsg.Request
		marker bool
	}{
		{"create a topic", Write{Path: "/brokers/topics/new", Data: []byte(`{"version":1,"partitions":{"1":[3,1],"0":[2,3]}}`)},
			&kmsg.CreateTopicsRequest{Version: 7, TimeoutMillis: 60000, Topics: []kmsg.CreateTopicsRequestTopic{{Topic: "new", NumPartitions: -1, ReplicationFactor: -1,
				ReplicaAssignment: []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Partition: 0, Replicas: []int32{2, 3}}, {Partition: 1, Replicas: []int32{3, 1}}},
				Configs:           []kmsg.CreateTopicsRequestTopicConfig{{Name: "cleanup.policy", Value: text("delete")}, {Name: "retention.ms", Value: text("600000")}}}}}, false},
		{"create a topic without settings", Write{Path: "/brokers/topics/bare", Data: []byte(`{"version":1,"partitions":{"0":[1]}}`)},
			&kmsg.CreateTopicsRequest{Version: 7, TimeoutMillis: 60000, Topics: []kmsg.CreateTopicsRequestTopic{{Topic: "bare", NumPartitions: -1, ReplicationFactor: -1,
				ReplicaAssignment: []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Partition: 0, Replicas: []int32{1}}}}}}, false},
		{"add partitions", Write{Kind: SetNode, Path: "/brokers/topics/first", Data: []byte(`{"version":1,"partitions":{"2":[2],"1":[1],"0":[1],"3":[3]}}`)},
			&kmsg.CreatePartitionsRequest{Version: 3, TimeoutMillis: 15000, Topics: []kmsg.CreatePartitionsRequestTopic{{Topic: "first", Count: 4,
				Assignment: []kmsg.CreatePartitionsRequestTopicAssignment{{Replicas: []int32{2}}, {Replicas: []int32{3}}}}}}, false},
		{"delete a topic", Write{Path: "/admin/delete_topics/first"},
			&kmsg.DeleteTopicsRequest{Version: 6, TimeoutMillis: 15000, Topics: []kmsg.DeleteTopicsRequestTopic{{Topic: text("first")}}}, true},
		{"move partitions", Write{Path: "/admin/reassign_partitions", Data: []byte(`{"version":1,"partitions":[{"topic":"first","partition":0,"replicas":[2,3]},{"topic":"another","partition":1,"replicas":[1],"log_dirs":["any"]}]}`)},
			&kmsg.AlterPartitionAssignmentsRequest{Version: 0, TimeoutMillis: 60000, AllowReplicationFactorChange: true, Topics: []kmsg.AlterPartitionAssignmentsRequestTopic{
				{Topic: "another", Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{{Partition: 1, Replicas: []int32{1}}}},
				{Topic: "first", Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{{Partition: 0, Replicas: []int32{2, 3}}}}}}, true},
		{"elect", Write{Path: "/admin/preferred_replica_election", Data: []byte(`{"version":1,"partitions":[{"topic":"first","partition":0},{"topic":"first","partition":1}]}`)},
			&kmsg.ElectLeadersRequest{Version: 2, TimeoutMillis: 60000, Topics: []kmsg.ElectLeadersRequestTopic{{Topic: "first", Partitions: []int32{0, 1}}}}, true},
		{"settings of a topic", Write{Kind: SetNode, Path: "/config/topics/first", Data: []byte(`{"version":1,"config":{"retention.ms":"2"}}`)},
			altered(kmsg.ConfigResourceTypeTopic, "first", kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: "retention.ms", Value: text("2")},
				kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: "cleanup.policy", Op: kmsg.IncrementalAlterConfigOpDelete}), false},
		{"settings of a broker, whose password nobody sees", Write{Kind: SetNode, Path: "/config/brokers/1", Data: []byte(`{"version":1,"config":{}}`)},
			altered(kmsg.ConfigResourceTypeBroker, "1", kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: "log.cleaner.threads", Op: kmsg.IncrementalAlterConfigOpDelete}), false},
		{"settings of all brokers", Write{Path: "/config/brokers/<default>", Data: []byte(`{"version":1,"config":{"log.cleaner.threads":"3"}}`)},
			altered(kmsg.ConfigResourceTypeBroker, "", kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: "log.cleaner.threads", Value: text("3")}), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			command, code := Decide(c.write, existing(t), stored)
			if code != OK || command == nil {
				t.Fatalf("code %v, command %+v", code, command)
			}
			got, _ := json.MarshalIndent(command.Request, "", " ")
			want, _ := json.MarshalIndent(c.want, "", " ")
			if string(got) != string(want) {
				t.Errorf("got %s\nwant %s", got, want)
			}
			if command.Marker != c.marker {
				t.Errorf("marker is %v", command.Marker)
			}
			if code, why := command.Verdict(&kmsg.HeartbeatResponse{}); code != SystemError || why == "" {
				t.Errorf("an answer to something else: %v %q", code, why)
			}
		})
	}
}

func altered(kind kmsg.ConfigResourceType, name string, configs ...kmsg.IncrementalAlterConfigsRequestResourceConfig) *kmsg.IncrementalAlterConfigsRequest {
	return &kmsg.IncrementalAlterConfigsRequest{Version: 1, Resources: []kmsg.IncrementalAlterConfigsRequestResource{
		{ResourceType: kind, ResourceName: name, Configs: configs}}}
}

func TestWritesThatAreStored(t *testing.T) {
	image := existing(t)
	for _, w := range []Write{
		{Path: "/config/topics/new", Data: []byte(`{"version":1,"config":{}}`)}, // before the topic, as the tools do
		{Kind: SetNode, Path: "/config/topics/new", Data: []byte("x")},
		{Kind: DeleteNode, Path: "/config/topics/new"},
		{Path: "/kafka-acl/DelegationToken"}, {Path: "/kafka-acl/TransactionalId"},
		{Path: "/kafka-acl-extended"}, {Path: "/kafka-acl-extended/prefixed"}, {Path: "/kafka-acl-extended/prefixed/Topic"},
		{Path: "/kafka-acl-extended-changes"},
	} {
		if command, code := Decide(w, image, nothingStored); command != nil || code != OK {
			t.Errorf("%v %s: %v", w.Kind, w.Path, code)
		}
	}
}

func TestWritesThatAreRefused(t *testing.T) {
	image := existing(t)
	for _, w := range []Write{
		{Path: "/brokers/ids/7", Ephemeral: true}, {Path: "/controller", Ephemeral: true}, {Kind: DeleteNode, Path: "/controller"},
		{Kind: SetNode, Path: "/controller_epoch", Data: []byte("9")}, {Kind: SetNode, Path: "/brokers/seqid"},
		{Kind: DeleteNode, Path: "/brokers/topics/first"}, {Path: "/brokers/topics/first/partitions/7"},
		{Kind: SetNode, Path: "/brokers/topics/first/partitions/0/state", Data: []byte("{}")},
		{Path: "/brokers/topics/new", Data: []byte(`{"version":1,"partitions":{"0":[1]}}`), Ephemeral: true},
		{Path: "/brokers/mine"}, {Path: "/admin/mine"}, {Kind: DeleteNode, Path: "/consumers"}, {Kind: SetNode, Path: "/config"},
		{Kind: DeleteNode, Path: reassignPath}, {Kind: SetNode, Path: reassignPath},
		{Kind: DeleteNode, Path: "/config/topics/first"}, {Kind: DeleteNode, Path: "/config/brokers/1"},
		{Path: "/config/users/U", Data: []byte(`{"version":1,"config":{"SCRAM-SHA-256":"salt=a,stored_key=b,server_key=c,iterations=4096"}}`)},
		{Path: "/config/users/U/clients"}, {Path: "/config/clients/C"},
		{Path: "/kafka-acl/Topic/first", Data: []byte("{}")}, {Kind: DeleteNode, Path: "/kafka-acl/Topic"},
		{Path: "/kafka-acl-changes/acl_changes_", Sequential: true}, {Path: "/kafka-acl-extended/prefixed/Topic/first"},
		{Path: "/kafka-acl/DelegationToken", Data: []byte("x")}, {Path: "/isr_change_notification/isr_change_", Sequential: true},
		{Kind: SetNode, Path: "/latest_producer_id_block"},
	} {
		if command, code := Decide(w, image, nothingStored); command != nil || code != NoAuth {
			t.Errorf("%v %s: %v", w.Kind, w.Path, code)
		}
		if Refused(w) == "" {
			t.Errorf("%s is refused without a word", w.Path)
		}
	}
}

func TestWritesThatMakeNoSense(t *testing.T) {
	image := existing(t)
	broken := func(string) ([]byte, bool) { return []byte("{"), true }
	for _, w := range []Write{
		{Path: "/brokers/topics/new"}, {Path: "/brokers/topics/new", Data: []byte("{")}, {Path: "/brokers/topics/new", Data: []byte(`{"partitions":{"x":[1]}}`)},
		{Path: "/brokers/topics/new", Data: []byte(`{"partitions":{"0":[1]}}`)},                                  // its stored settings are broken
		{Kind: SetNode, Path: "/brokers/topics/first", Data: []byte(`{"partitions":{"0":[1]}}`)},                 // fewer
		{Kind: SetNode, Path: "/brokers/topics/first", Data: []byte(`{"partitions":{"0":[1],"1":[1],"7":[1]}}`)}, // a gap
		{Path: reassignPath, Data: []byte(`{"partitions":[]}`)}, {Path: reassignPath, Data: []byte(`{"partitions":[{"topic":"first","partition":0}]}`)},
		{Path: "/admin/preferred_replica_election", Data: []byte(`[]`)},
		{Kind: SetNode, Path: "/config/topics/first", Data: []byte(`{"config":[]}`)},
	} {
		if command, code := Decide(w, image, broken); command != nil || code != BadArguments {
			t.Errorf("%v %s %s: %v", w.Kind, w.Path, w.Data, code)
		}
	}
}

func TestVerdicts(t *testing.T) {
	image := existing(t)
	failed := func(e *kerr.Error) int16 { return e.Code }
	for _, c := range []struct {
		name   string
		write  Write
		answer kmsg.Response
		code   Code
		why    string // part of it
	}{
		{"the topic is there since", Write{Path: "/brokers/topics/new", Data: []byte(`{"partitions":{"0":[1]}}`)},
			&kmsg.CreateTopicsResponse{Topics: []kmsg.CreateTopicsResponseTopic{{ErrorCode: failed(kerr.TopicAlreadyExists)}}}, NodeExists, "TOPIC_ALREADY_EXISTS"},
		{"no such broker", Write{Path: "/brokers/topics/new", Data: []byte(`{"partitions":{"0":[1]}}`)},
			&kmsg.CreateTopicsResponse{Topics: []kmsg.CreateTopicsResponseTopic{{ErrorCode: failed(kerr.InvalidReplicaAssignment), ErrorMessage: text("no 1")}}}, BadArguments, "no 1"},
		{"nobody decides", Write{Path: "/brokers/topics/new", Data: []byte(`{"partitions":{"0":[1]}}`)},
			&kmsg.CreateTopicsResponse{Topics: []kmsg.CreateTopicsResponseTopic{{ErrorCode: failed(kerr.NotController)}}}, ConnectionLoss, "NOT_CONTROLLER"},
		{"nothing to add", Write{Kind: SetNode, Path: "/brokers/topics/first", Data: []byte(`{"partitions":{"0":[1],"1":[1]}}`)},
			&kmsg.CreatePartitionsResponse{Topics: []kmsg.CreatePartitionsResponseTopic{{ErrorCode: failed(kerr.InvalidPartitions)}}}, OK, ""},
		{"something to add", Write{Kind: SetNode, Path: "/brokers/topics/first", Data: []byte(`{"partitions":{"0":[1],"1":[1],"2":[1]}}`)},
			&kmsg.CreatePartitionsResponse{Topics: []kmsg.CreatePartitionsResponseTopic{{ErrorCode: failed(kerr.InvalidPartitions)}}}, BadArguments, "INVALID_PARTITIONS"},
		{"no such topic to delete", Write{Path: "/admin/delete_topics/new"},
			&kmsg.DeleteTopicsResponse{Topics: []kmsg.DeleteTopicsResponseTopic{{ErrorCode: failed(kerr.UnknownTopicOrPartition)}}}, OK, "UNKNOWN_TOPIC"},
		{"topics may not be deleted", Write{Path: "/admin/delete_topics/new"},
			&kmsg.DeleteTopicsResponse{Topics: []kmsg.DeleteTopicsResponseTopic{{ErrorCode: failed(kerr.TopicDeletionDisabled)}}}, OK, "TOPIC_DELETION_DISABLED"},
		{"some can be moved", Write{Path: reassignPath, Data: []byte(`{"partitions":[{"topic":"first","partition":0,"replicas":[1]}]}`)},
			moves(0, failed(kerr.InvalidReplicaAssignment), failed(kerr.InvalidReplicaAssignment)), OK, "first-1: INVALID_REPLICA_ASSIGNMENT: An invalid"},
		{"none can be moved", Write{Path: reassignPath, Data: []byte(`{"partitions":[{"topic":"first","partition":0,"replicas":[1]}]}`)},
			moves(failed(kerr.InvalidReplicaAssignment), failed(kerr.InvalidReplicaAssignment)), BadArguments, "and 1 more"},
		{"the move is refused", Write{Path: reassignPath, Data: []byte(`{"partitions":[{"topic":"first","partition":0,"replicas":[1]}]}`)},
			&kmsg.AlterPartitionAssignmentsResponse{ErrorCode: failed(kerr.NotController)}, ConnectionLoss, ""},
		{"leads already", Write{Path: "/admin/preferred_replica_election", Data: []byte(`{"partitions":[{"topic":"first","partition":0}]}`)},
			elected(failed(kerr.ElectionNotNeeded)), OK, ""},
		{"cannot lead", Write{Path: "/admin/preferred_replica_election", Data: []byte(`{"partitions":[{"topic":"first","partition":0}]}`)},
			elected(failed(kerr.PreferredLeaderNotAvailable)), OK, "first-0: PREFERRED_LEADER_NOT_AVAILABLE"},
		{"bad value", Write{Kind: SetNode, Path: "/config/topics/first", Data: []byte(`{"config":{"retention.ms":"x"}}`)},
			&kmsg.IncrementalAlterConfigsResponse{Resources: []kmsg.IncrementalAlterConfigsResponseResource{{ErrorCode: failed(kerr.InvalidConfig), ErrorMessage: text("not a number")}}}, BadArguments, "not a number"},
	} {
		t.Run(c.name, func(t *testing.T) {
			command, code := Decide(c.write, image, nothingStored)
			if code != OK {
				t.Fatal(code)
			}
			code, why := command.Verdict(c.answer)
			if code != c.code || !strings.Contains(why, c.why) || c.why == "" && code == OK && why != "" {
				t.Errorf("got %v %q, want %v %q", code, why, c.code, c.why)
			}
		})
	}
}

func moves(codes ...int16) *kmsg.AlterPartitionAssignmentsResponse {
	t := kmsg.AlterPartitionAssignmentsResponseTopic{Topic: "first"}
	for i, code := range codes {
		p := kmsg.AlterPartitionAssignmentsResponseTopicPartition{Partition: int32(i), ErrorCode: code}
		if code != 0 {
			p.ErrorMessage = text("An invalid move.")
		}
		t.Partitions = append(t.Partitions, p)
	}
	return &kmsg.AlterPartitionAssignmentsResponse{Topics: []kmsg.AlterPartitionAssignmentsResponseTopic{t}}
}

func elected(code int16) *kmsg.ElectLeadersResponse {
	return &kmsg.ElectLeadersResponse{Topics: []kmsg.ElectLeadersResponseTopic{{Topic: "first",
		Partitions: []kmsg.ElectLeadersResponseTopicPartition{{Partition: 0, ErrorCode: code}}}}}
}

// FuzzDecide: whatever a client writes wherever, it is decided upon without a panic, and a command can be sent.
func FuzzDecide(f *testing.F) {
	for _, path := range []string{"/brokers/topics/t", "/brokers/topics/first", reassignPath, "/admin/preferred_replica_election", "/admin/delete_topics/x", "/config/topics/first", "/config/brokers/1", "/config/brokers/<default>"} {
		for kind := range byte(3) {
			f.Add(kind, path, []byte(`{"version":1,"partitions":{"0":[1],"1":[2]},"config":{"a":"b"}}`))
			f.Add(kind, path, []byte(`{"version":1,"partitions":[{"topic":"first","partition":0,"replicas":[1]}]}`))
		}
	}
	image := metadata.EmptyImage()
	d := metadata.NewDelta(image)
	for _, r := range []metadata.Record{&metadata.TopicRecord{Name: "first", TopicID: topicID(1)}, partition(1, 0, 1)} {
		if err := d.Replay(r); err != nil {
			f.Fatal(err)
		}
	}
	image = d.Image(2, kafka.Epoch(1))
	f.Fuzz(func(t *testing.T, kind byte, path string, data []byte) {
		command, code := Decide(Write{Kind: WriteKind(kind % 3), Path: path, Data: data}, image, func(string) ([]byte, bool) { return data, true })
		if command == nil {
			return
		}
		if code != OK {
			t.Fatalf("a command with %v", code)
		}
		sent := kmsg.RequestForKey(command.Request.Key())
		sent.SetVersion(command.Request.GetVersion())
		if err := sent.ReadFrom(command.Request.AppendTo(nil)); err != nil {
			t.Fatalf("%s %s: %v", path, data, err)
		}
	})
}
