package znode

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

const testTime = 1795987175962

// cluster is metadata being made, and the nodes that a tree would have.
type cluster struct {
	t     *testing.T
	image *metadata.Image
	views *Views
	nodes map[string]View
}

func newCluster(t *testing.T) *cluster {
	c := &cluster{t: t, image: metadata.EmptyImage(), views: NewViews("QDaX0k2fRBOeug-F7xbvhg"), nodes: map[string]View{}}
	for _, v := range c.views.All(c.source()) {
		c.put(v)
	}
	return c
}

func (c *cluster) source() Source { return Source{Image: c.image, Controller: 1, NowMs: testTime} }

// commit replays records as one delta, and writes what it changes into the nodes.
func (c *cluster) commit(records ...metadata.Record) []ViewChange {
	c.t.Helper()
	d := metadata.NewDelta(c.image)
	for _, r := range records {
		if err := d.Replay(r); err != nil {
			c.t.Fatal(err)
		}
	}
	c.image = d.Image(c.image.Offset+int64(len(records)), max(c.image.Epoch, 1))
	changes := c.views.Changes(d, c.source())
	for _, change := range changes {
		if change.Gone {
			c.remove(change.Path)
		} else {
			c.put(change.View)
		}
	}
	return changes
}

func (c *cluster) put(v View) {
	c.t.Helper()
	old, ok := c.nodes[v.Path]
	parent := v.Path[:strings.LastIndexByte(v.Path, '/')]
	if _, there := c.nodes[parent]; parent != "" && !there {
		c.t.Fatalf("%s comes before its parent", v.Path)
	}
	if !ok || !v.Same(old.Data, old.Owner) {
		c.nodes[v.Path] = v
	}
}

func (c *cluster) remove(path string) {
	c.t.Helper()
	for other := range c.nodes {
		if strings.HasPrefix(other, path+"/") {
			c.t.Fatalf("%s goes before its child %s", path, other)
		}
	}
	delete(c.nodes, path)
}

func (c *cluster) data(path string) string {
	v, ok := c.nodes[path]
	switch {
	case !ok:
		return "no node"
	case v.Data == nil:
		return "null"
	}
	return string(v.Data)
}

func broker(id kafka.NodeID, epoch int64, endpoints ...metadata.Endpoint) *metadata.RegisterBrokerRecord {
	return &metadata.RegisterBrokerRecord{BrokerID: id, BrokerEpoch: epoch, Endpoints: endpoints}
}

func setting(t metadata.ConfigType, resource, name, value string) *metadata.ConfigRecord {
	return &metadata.ConfigRecord{ResourceType: int8(t), ResourceName: resource, Name: name, Value: &value}
}

func topicID(n byte) kafka.TopicID { return kafka.TopicID{15: n} }

func partition(topic byte, index int32, replicas ...kafka.NodeID) *metadata.PartitionRecord {
	return &metadata.PartitionRecord{TopicID: topicID(topic), PartitionID: index, Replicas: replicas, ISR: replicas, Leader: replicas[0]}
}

func text(s string) *string { return &s }

// TestPayloads has what processes of Kafka 1.1.1 were seen to write, for a cluster like theirs.
func TestPayloads(t *testing.T) {
	c := newCluster(t)
	rack := broker(2, 12, metadata.Endpoint{Name: "EXTERNAL", Host: "h", Port: 1}, metadata.Endpoint{Name: "INTERNAL", Host: "h", Port: 2})
	rack.Rack = text("rack-a")
	secure := broker(3, 13, metadata.Endpoint{Name: "SSL", Host: "::1", Port: 3, SecurityProtocol: 1})
	c.commit(
		broker(1, 11, metadata.Endpoint{Name: "PLAINTEXT", Host: "127.0.0.1", Port: 41092}), rack, secure,
		&metadata.TopicRecord{Name: "first", TopicID: topicID(1)},
		partition(1, 0, 2, 3, 1), partition(1, 1, 3, 1, 2),
		&metadata.PartitionChangeRecord{TopicID: topicID(1), Leader: kafka.NoNode, ISR: []kafka.NodeID{}, PartitionID: 1, LeaderRecoveryState: metadata.RecoveryUnchanged},
		setting(metadata.ConfigTopic, "first", "retention.ms", "600000"), setting(metadata.ConfigTopic, "first", "cleanup.policy", "delete"),
		&metadata.TopicRecord{Name: "plain", TopicID: topicID(2)}, partition(2, 0, 1),
		setting(metadata.ConfigBroker, "1", "leader.replication.throttled.rate", "1024"),
		setting(metadata.ConfigBroker, "1", "ssl.key.password", "hush"), setting(metadata.ConfigBroker, "1", "who.knows", "hush"),
		setting(metadata.ConfigBroker, "", "log.cleaner.threads", "2"),
		&metadata.ClientQuotaRecord{Entity: []metadata.QuotaEntityPart{{EntityType: "user", EntityName: text("Jo ~*")}, {EntityType: "client-id"}}, Key: "producer_byte_rate", Value: 1024},
		&metadata.ClientQuotaRecord{Entity: []metadata.QuotaEntityPart{{EntityType: "client-id", EntityName: text("C")}}, Key: "request_percentage", Value: 12.5},
		&metadata.AccessControlEntryRecord{ID: kafka.UUID{1}, ResourceType: 2, ResourceName: "first", PatternType: 3, Principal: "User:Bob", Host: "*", Operation: 3, PermissionType: 3},
		&metadata.AccessControlEntryRecord{ID: kafka.UUID{2}, ResourceType: 2, ResourceName: "pre", PatternType: 4, Principal: "User:Bob", Host: "*", Operation: 3, PermissionType: 3},
		&metadata.UserScramCredentialRecord{Name: "Bob", Mechanism: 1},
		&metadata.ProducerIDsRecord{NextProducerID: 1000},
	)
	for path, want := range map[string]string{
		"/consumers": "null", "/brokers/seqid": "null", "/admin/delete_topics": "null", "/config/changes": "null",
		"/isr_change_notification": "null", "/log_dir_event_notification": "null", "/kafka-acl/Cluster": "null",
		"/brokers/ids/1":                              `{"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},"endpoints":["PLAINTEXT://127.0.0.1:41092"],"jmx_port":-1,"host":"127.0.0.1","timestamp":"1795987175962","port":41092,"version":4}`,
		"/brokers/ids/2":                              `{"listener_security_protocol_map":{"EXTERNAL":"PLAINTEXT","INTERNAL":"PLAINTEXT"},"endpoints":["EXTERNAL://h:1","INTERNAL://h:2"],"rack":"rack-a","jmx_port":-1,"host":"h","timestamp":"1795987175962","port":1,"version":4}`,
		"/brokers/ids/3":                              `{"listener_security_protocol_map":{"SSL":"SSL"},"endpoints":["SSL://[::1]:3"],"jmx_port":-1,"host":null,"timestamp":"1795987175962","port":-1,"version":4}`,
		"/brokers/topics/first":                       `{"version":1,"partitions":{"0":[2,3,1],"1":[3,1,2]}}`,
		"/brokers/topics/first/partitions":            "null",
		"/brokers/topics/first/partitions/0":          "null",
		"/brokers/topics/plain/partitions/0/state":    `{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1]}`,
		"/brokers/topics/first/partitions/1/state":    `{"controller_epoch":1,"leader":-1,"version":1,"leader_epoch":1,"isr":[]}`,
		"/cluster/id":                                 `{"version":"1","id":"QDaX0k2fRBOeug-F7xbvhg"}`,
		"/controller":                                 `{"version":1,"brokerid":1,"timestamp":"1795987175962"}`,
		"/controller_epoch":                           "1",
		"/config/topics/first":                        `{"version":1,"config":{"cleanup.policy":"delete","retention.ms":"600000"}}`,
		"/config/topics/plain":                        `{"version":1,"config":{}}`,
		"/config/brokers/1":                           `{"version":1,"config":{"leader.replication.throttled.rate":"1024"}}`,
		"/config/brokers/<default>":                   `{"version":1,"config":{"log.cleaner.threads":"2"}}`,
		"/config/users/Jo%20%7E%2A":                   "null",
		"/config/users/Jo%20%7E%2A/clients":           "null",
		"/config/users/Jo%20%7E%2A/clients/<default>": `{"version":1,"config":{"producer_byte_rate":"1024"}}`,
		"/config/clients/C":                           `{"version":1,"config":{"request_percentage":"12.5"}}`,
		"/latest_producer_id_block":                   `{"version":1,"broker":-1,"block_start":"0","block_end":"999"}`,
		"/kafka-acl/Topic/first":                      `{"version":1,"acls":[{"principal":"User:Bob","permissionType":"Allow","operation":"Read","host":"*"}]}`,
		"/kafka-acl/TransactionalId":                  "no node",
		"/kafka-acl/Topic/pre":                        "no node",
		"/config/users/Bob":                           "no node",
		"/admin/reassign_partitions":                  "no node",
		"/admin/preferred_replica_election":           "no node",
	} {
		if got := c.data(path); got != want {
			t.Errorf("%s:\n got %s\nwant %s", path, got, want)
		}
	}
	if got := c.nodes["/brokers/ids/1"].Owner; uint64(got) != 0xff00_0000_0000_000b {
		t.Errorf("owner of /brokers/ids/1: %#x", uint64(got))
	}
}

func TestFreshProducerIDsAreNull(t *testing.T) {
	if got := newCluster(t).data("/latest_producer_id_block"); got != "null" {
		t.Error(got)
	}
}

// TestBrokerGoesAndComesBack: a broker that is fenced is gone, as if its session had expired; one that registers again is
// another node.
func TestBrokerGoesAndComesBack(t *testing.T) {
	c := newCluster(t)
	c.commit(broker(1, 11))
	first := c.nodes["/brokers/ids/1"]
	c.commit(&metadata.FenceBrokerRecord{ID: 1, Epoch: 11})
	if got := c.data("/brokers/ids/1"); got != "no node" {
		t.Error(got)
	}
	c.commit(&metadata.UnfenceBrokerRecord{ID: 1, Epoch: 11})
	if again := c.nodes["/brokers/ids/1"]; !again.Same(first.Data, first.Owner) {
		t.Error("the same registration is another node")
	}
	c.commit(broker(1, 15))
	if again := c.nodes["/brokers/ids/1"]; again.Same(first.Data, first.Owner) {
		t.Error("another registration is the same node")
	}
}

func TestReassignmentIsThereWhileItLasts(t *testing.T) {
	c := newCluster(t)
	c.commit(broker(1, 11), broker(2, 12), broker(3, 13), &metadata.TopicRecord{Name: "first", TopicID: topicID(1)}, partition(1, 0, 1), partition(1, 1, 1))
	change := metadata.PartitionChangeRecord{TopicID: topicID(1), Leader: metadata.LeaderUnchanged, LeaderRecoveryState: metadata.RecoveryUnchanged}
	begin := change
	begin.Replicas, begin.AddingReplicas, begin.RemovingReplicas = []kafka.NodeID{2, 3, 1}, []kafka.NodeID{2, 3}, []kafka.NodeID{1}
	c.commit(&begin)
	if got, want := c.data(reassignPath), `{"version":1,"partitions":[{"topic":"first","partition":0,"replicas":[2,3]}]}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := c.data("/brokers/topics/first"), `{"version":1,"partitions":{"0":[2,3,1],"1":[1]}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	end := change
	end.Replicas, end.AddingReplicas, end.RemovingReplicas = []kafka.NodeID{2, 3}, []kafka.NodeID{}, []kafka.NodeID{}
	c.commit(&end)
	if got := c.data(reassignPath); got != "no node" {
		t.Error(got)
	}
	if got, want := c.data("/brokers/topics/first"), `{"version":1,"partitions":{"0":[2,3],"1":[1]}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	c.commit(&begin)
	c.commit(&metadata.RemoveTopicRecord{TopicID: topicID(1)})
	if got := c.data(reassignPath); got != "no node" {
		t.Error("the reassignment of a topic that is gone:", got)
	}
}

// TestControllerMoves: another controller rewrites its own two nodes and no partition's state.
func TestControllerMoves(t *testing.T) {
	c := newCluster(t)
	c.commit(&metadata.TopicRecord{Name: "first", TopicID: topicID(1)}, partition(1, 0, 1))
	before := c.nodes["/controller"]
	d := metadata.NewDelta(c.image)
	image := d.Image(c.image.Offset+1, 7)
	changes := c.views.Changes(d, Source{Image: image, Controller: 2, NowMs: testTime + 1})
	var paths []string
	for _, change := range changes {
		paths = append(paths, change.Path)
	}
	if want := []string{"/controller", "/controller_epoch"}; !slices.Equal(paths, want) {
		t.Fatalf("got %v, want %v", paths, want)
	}
	if changes[0].Same(before.Data, before.Owner) || string(changes[1].Data) != "7" {
		t.Errorf("%+v", changes)
	}
	for _, v := range c.views.All(Source{Image: image, Controller: 2, NowMs: testTime + 2}) {
		if old, ok := c.nodes[v.Path]; strings.HasSuffix(v.Path, "/state") && (!ok || !v.Same(old.Data, old.Owner)) {
			t.Errorf("%s is written again: %s", v.Path, v.Data)
		}
	}
	if changes := c.views.Changes(metadata.NewDelta(image), Source{Image: image, Controller: kafka.NoNode}); len(changes) != 2 || !changes[0].Gone {
		t.Errorf("nobody is known to be the controller: %+v", changes)
	}
}

func TestOwnTopicHasNoView(t *testing.T) {
	c := newCluster(t)
	c.commit(&metadata.TopicRecord{Name: Topic, TopicID: topicID(1)}, partition(1, 0, 1), setting(metadata.ConfigTopic, Topic, "segment.bytes", "1048576"))
	c.commit(setting(metadata.ConfigTopic, Topic, "segment.bytes", "2097152"))
	for _, v := range c.views.All(c.source()) {
		c.put(v)
	}
	for path := range c.nodes {
		if strings.Contains(path, Topic) {
			t.Error(path)
		}
	}
}

// TestChangesGiveWhatAllGives: whatever happens, writing the changes one delta at a time leads to the nodes of the image.
func TestChangesGiveWhatAllGives(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			c := newCluster(t)
			h := &history{cluster: c, random: rand.New(rand.NewPCG(seed, 1)), topics: map[string]byte{}}
			for range 60 {
				var records []metadata.Record
				h.next = metadata.NewDelta(c.image)
				for range 1 + h.random.IntN(4) {
					records = append(records, h.step()...)
				}
				c.commit(records...)
				all := NewViews(c.views.clusterID).All(c.source())
				seen := map[string]bool{}
				for _, v := range all {
					seen[v.Path] = true
					got, ok := c.nodes[v.Path]
					if !ok || !v.Same(got.Data, got.Owner) {
						t.Fatalf("%s:\n got %s\nwant %s\nafter %+v", v.Path, c.data(v.Path), v.Data, records)
					}
				}
				for path := range c.nodes {
					if !seen[path] {
						t.Fatalf("%s should be gone after %+v", path, records)
					}
				}
			}
		})
	}
}

// history makes up records that a controller could have written.
type history struct {
	*cluster
	random *rand.Rand
	topics map[string]byte // last byte of the id
	ids    byte
	epochs int64
	next   *metadata.Delta // of the records so far
}

func (h *history) step() []metadata.Record {
	r := h.random
	name := fmt.Sprintf("topic-%d", r.IntN(4))
	id, there := h.topics[name]
	node := kafka.NodeID(r.IntN(3))
	value := fmt.Sprint(r.IntN(3))
	var records []metadata.Record
	switch r.IntN(10) {
	case 0:
		h.epochs++
		records = append(records, broker(node, h.epochs, metadata.Endpoint{Name: "PLAINTEXT", Host: "h", Port: 1}))
	case 1:
		if b, ok := h.next.Image(0, 0).Cluster.Broker(node); ok {
			records = append(records, &metadata.BrokerRegistrationChangeRecord{BrokerID: node, BrokerEpoch: b.Epoch, Fenced: []int8{metadata.Fence, metadata.Unfence}[r.IntN(2)]})
		}
	case 2, 3:
		if there {
			records = append(records, &metadata.RemoveTopicRecord{TopicID: topicID(id)})
			delete(h.topics, name)
		} else {
			h.ids++
			h.topics[name] = h.ids
			records = append(records, &metadata.TopicRecord{Name: name, TopicID: topicID(h.ids)}, partition(h.ids, 0, 1, 2))
		}
	case 4, 5:
		if there {
			change := &metadata.PartitionChangeRecord{TopicID: topicID(id), Leader: kafka.NodeID(r.IntN(3)), LeaderRecoveryState: metadata.RecoveryUnchanged}
			if r.IntN(2) == 0 {
				change.Replicas, change.AddingReplicas, change.RemovingReplicas = []kafka.NodeID{2, 1}, []kafka.NodeID{2}, []kafka.NodeID{1}
			} else if r.IntN(2) == 0 {
				change.Replicas, change.AddingReplicas, change.RemovingReplicas = []kafka.NodeID{2}, []kafka.NodeID{}, []kafka.NodeID{}
			}
			records = append(records, change)
		}
	case 6:
		if there {
			topic, _ := h.next.Image(0, 0).Topics.ByID(topicID(id))
			records = append(records, partition(id, int32(topic.Partitions.Len()), 1, 2))
		}
	case 7:
		c := setting(metadata.ConfigBroker, []string{"", "1", "2"}[r.IntN(3)], "log.cleaner.threads", value)
		if there && r.IntN(2) == 0 {
			c = setting(metadata.ConfigTopic, name, "retention.ms", value)
		}
		if r.IntN(3) == 0 {
			c.Value = nil
		}
		records = append(records, c)
	case 8:
		entity := []metadata.QuotaEntityPart{{EntityType: "user", EntityName: &value}}
		if r.IntN(2) == 0 {
			entity = append(entity, metadata.QuotaEntityPart{EntityType: "client-id"})
		}
		records = append(records, &metadata.ClientQuotaRecord{Entity: entity, Key: "producer_byte_rate", Value: float64(r.IntN(9)), Remove: r.IntN(2) == 0})
	case 9:
		acl := kafka.UUID{byte(r.IntN(3))}
		if r.IntN(2) == 0 {
			records = append(records, &metadata.RemoveAccessControlEntryRecord{ID: acl})
		} else {
			records = append(records, &metadata.AccessControlEntryRecord{ID: acl, ResourceType: int8(2 + r.IntN(4)), ResourceName: value, PatternType: 3, Principal: "User:A", Host: "*", Operation: 3, PermissionType: 3})
		}
	}
	for _, record := range records {
		if err := h.next.Replay(record); err != nil {
			h.t.Fatal(err)
		}
	}
	return records
}

// TestChangesCostWhatChanged: one partition of many moves, and nothing else is listed.
func TestChangesCostWhatChanged(t *testing.T) {
	c := newCluster(t)
	var records []metadata.Record
	for i := range byte(200) {
		records = append(records, &metadata.TopicRecord{Name: fmt.Sprintf("t%d", i), TopicID: topicID(i + 1)})
		for p := range int32(5) {
			records = append(records, partition(i+1, p, 1, 2))
		}
	}
	c.commit(records...)
	changes := c.commit(&metadata.PartitionChangeRecord{TopicID: topicID(7), PartitionID: 3, Leader: 2, LeaderRecoveryState: metadata.RecoveryUnchanged})
	if len(changes) != 2 || changes[1].Path != "/brokers/topics/t6/partitions/3/state" {
		t.Errorf("%+v", changes)
	}
}

func TestComputed(t *testing.T) {
	for path, want := range map[string]bool{
		"/": false, "/consumers": true, "/consumers/g": false, "/consumers/g/offsets/t/0": false, "/brokers": true, "/brokers/ids/1": true,
		"/brokersx": false, "/config": true, "/config/changes": true, "/config/changes/config_change_0000000000": false,
		"/config/topics/t": true, "/admin/x": true, "/kafka-acl-changes/acl_changes_": true, "/kafka-acl-extended": true,
		"/mine": false, "/zookeeper/quota": false, "/controller": true, "/controllers": false,
	} {
		if got := Computed(path); got != want {
			t.Errorf("Computed(%q) = %v", path, got)
		}
	}
}
