package controller

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

// model is a cluster whose brokers append, replicate and fail, and whose partitions the controller's decisions rule. Each
// replica's log is the list of the records in it. What the watermark has passed is acked, and may be lost only by an
// election that is marked as unclean.
type model struct {
	*world
	elr     bool
	brokers map[kafka.NodeID]*modelBroker
	acked   map[kafka.TopicPartition][]int
	next    int // the next record, and whatever else has to be unique

	reported    []kafka.NodeID // in sync according to the leader that speaks at the moment
	reassigning bool           // the request at hand is about replicas
}

type modelBroker struct {
	up          bool // the process runs
	incarnation int
	epoch       int64
	previous    int64 // epoch that it can prove to have stopped cleanly in, -1 if it can not
	dir         int32 // where its replicas are
	spare       int32 // another one, empty
	failed      bool  // spare has failed in this incarnation
	logs        map[kafka.TopicPartition][]int
}

// dirs is what it registers with.
func (b *modelBroker) dirs() [][16]byte { return testDirs([]int32{b.dir, b.spare}) }

// offline is what its heartbeats tell.
func (b *modelBroker) offline() [][16]byte {
	if b.failed {
		return testDirs([]int32{b.spare})
	}
	return nil
}

// rise begins another incarnation: a directory that failed has been replaced.
func (b *modelBroker) rise() {
	b.incarnation++
	if b.failed {
		b.spare, b.failed = b.spare+100, false
	}
}

func newModel(t *rapid.T) *model {
	elr := rapid.Bool().Draw(t, "elr")
	m := &model{
		world: &world{image: metadata.EmptyImage(), contacts: map[kafka.NodeID]contact{}},
		elr:   elr, brokers: map[kafka.NodeID]*modelBroker{}, acked: map[kafka.TopicPartition][]int{}, next: 1,
	}
	config := Config{
		NumPartitions: 1, DefaultReplicationFactor: 1, InitialMetadataVersion: metadata.MaxMetadataVersion,
		MinInsyncReplicas:     rapid.Int32Range(1, 3).Draw(t, "minInsync"),
		UncleanLeaderElection: rapid.IntRange(0, 3).Draw(t, "unclean") == 0,
		InternalFactors:       map[string]int16{"internal": 3},
	}
	if elr {
		config.InitialFeatures = []metadata.FeatureLevelRecord{{Name: metadata.FeatureEligibleLeaderReplicas, FeatureLevel: 1}}
	}
	m.options = Options{
		NodeID: 100, ClusterID: "test", Features: testFeatures(), Config: config,
		NewID: func() kafka.UUID { m.next++; return kafka.UUID{0: 0xff, 14: byte(m.next >> 8), 15: byte(m.next)} },
	}
	m.commit(bootstrap(config))
	for id := range kafka.NodeID(5) {
		m.brokers[id] = &modelBroker{previous: -1, dir: id*10 + 1, spare: id*10 + 2, logs: map[kafka.TopicPartition][]int{}}
	}
	return m
}

// ask decides, and checks what the decision did.
func (m *model) ask(t *rapid.T, q kmsg.Request) kmsg.Response {
	before := m.image
	result, err := decide(m.state(), Request{Body: q})
	if err != nil {
		t.Fatalf("%T: %v", q, err)
	}
	again, _ := decide(m.state(), Request{Body: q})
	if fmt.Sprint(m.texts(result.Records)) != fmt.Sprint(m.texts(again.Records)) && kmsg.NameForKey(q.Key()) != "CreateTopics" {
		t.Fatalf("%T: two decisions on one state differ", q)
	}
	t.Log(kmsg.NameForKey(q.Key()), m.commit(result.Records), m.commit(result.Then))
	m.note(result.Contact)
	election, _ := q.(*kmsg.ElectLeadersRequest)
	_, m.reassigning = q.(*kmsg.AlterPartitionAssignmentsRequest)
	m.check(t, before, election != nil && election.ElectionType == 1)
	return result.Response
}

func (m *model) texts(records []metadata.Record) []string {
	var out []string
	for _, r := range records {
		out = append(out, m.text(r))
	}
	return out
}

func (m *model) note(n *contactNote) {
	s := sessions{timeout: time.Hour, post: func(lost) {}, timers: map[kafka.NodeID]*session{}, contacts: m.contacts}
	s.note(n, m.image.Offset)
	for id := range s.timers {
		s.disarm(id)
	}
}

// check compares an image with the one before.
func (m *model) check(t *rapid.T, before *metadata.Image, uncleanAsked bool) {
	for name, topic := range m.image.Topics.All() {
		for index, p := range topic.Partitions.All() {
			tp := kafka.TopicPartition{Topic: name, Partition: index}
			m.checkShape(t, tp, topic, p)
			m.checkAcked(t, tp, p)
			if old, ok := before.Topics.ByID(topic.ID); ok {
				if was, ok := old.Partitions.Get(index); ok && was != p {
					m.checkStep(t, tp, topic, was, p, uncleanAsked)
				}
			}
		}
	}
	replayed := metadata.NewDelta(metadata.EmptyImage())
	m.image.Records(func(r metadata.Record) {
		if err := replayed.Replay(r); err != nil {
			t.Fatalf("replay of the image's own record: %v", err)
		}
	})
	if replayed.Image(m.image.Offset, m.image.Epoch).Hash() != m.image.Hash() {
		t.Fatal("the image is another one after a replay")
	}
}

func distinct(ids []kafka.NodeID) bool {
	return len(slices.Compact(slices.Sorted(slices.Values(ids)))) == len(ids)
}

func (m *model) checkShape(t *rapid.T, tp kafka.TopicPartition, topic *metadata.Topic, p *metadata.PartitionRegistration) {
	fail := func(what string) { t.Fatalf("%v: %s: %+v", tp, what, p) }
	if p.Leader >= 0 {
		b, ok := m.image.Cluster.Broker(p.Leader)
		switch {
		case !slices.Contains(p.ISR, p.Leader):
			fail("the leader is not in sync")
		case !ok || !b.Active():
			fail("the leader is not in service")
		case !hasOnlineDir(b, p.Directory(p.Leader)):
			fail("the leader's directory is offline")
		}
	}
	switch {
	case len(p.Replicas) == 0 || !distinct(p.Replicas) || len(p.Directories) != len(p.Replicas):
		fail("replicas")
	case !distinct(p.ISR) || !containsAll(p.Replicas, p.ISR):
		fail("in-sync replicas that are no replicas")
	case !distinct(p.ELR) || !containsAll(p.Replicas, p.ELR) || slices.ContainsFunc(p.ELR, func(id kafka.NodeID) bool { return slices.Contains(p.ISR, id) }):
		fail("eligible replicas")
	case !containsAll(p.Replicas, p.AddingReplicas) || !containsAll(p.Replicas, p.RemovingReplicas):
		fail("reassignment of others than replicas")
	case len(except(p.Replicas, p.RemovingReplicas)) == 0 || len(except(p.Replicas, p.AddingReplicas)) == 0:
		fail("reassignment from or to nothing")
	case p.Reassigning() && containsAll(except(p.ISR, p.RemovingReplicas), except(p.Replicas, p.RemovingReplicas)):
		fail("a reassignment that is complete is not over")
	case len(p.ELR) > 0 && len(p.ISR) >= m.state().minInSync(topic, len(p.Replicas)):
		fail("eligible replicas, and yet the watermark may move without them")
	case !m.elr && len(p.ELR)+len(p.LastKnownELR) > 0:
		fail("eligible replicas without the feature")
	}
	for _, id := range p.ISR {
		if b, ok := m.image.Cluster.Broker(id); len(p.ISR) > 1 && (!ok || !b.Active()) {
			fail("somebody else than the last is in sync and not in service")
		}
	}
	if len(p.ISR) == 0 && p.Leader >= 0 {
		fail("a leader of nobody")
	}
}

func (m *model) checkStep(t *rapid.T, tp kafka.TopicPartition, topic *metadata.Topic, was, is *metadata.PartitionRegistration, uncleanAsked bool) {
	fail := func(what string) { t.Fatalf("%v: %s: from %+v to %+v", tp, what, was, is) }
	if is.LeaderEpoch < was.LeaderEpoch || is.PartitionEpoch <= was.PartitionEpoch {
		fail("epochs do not grow")
	}
	if is.Leader != was.Leader && is.LeaderEpoch == was.LeaderEpoch {
		fail("another leader in the same epoch")
	}
	if was.Reassigning() && !is.Reassigning() && !m.reassigning && tp.Topic != "internal" && !containsAll(is.ISR, is.Replicas) {
		fail("a reassignment is over before everybody is in sync")
	}
	if !containsAll(is.Replicas, was.Replicas) && is.LeaderEpoch == was.LeaderEpoch {
		fail("a replica is gone and does not hear of it")
	}
	if is.Leader == was.Leader || is.Leader < 0 {
		return
	}
	if !slices.Contains(was.ISR, is.Leader) && !slices.Contains(was.ELR, is.Leader) && !slices.Contains(m.reported, is.Leader) {
		last := m.elr && slices.Contains(was.LastKnownELR, is.Leader)
		if is.LeaderRecoveryState != metadata.LeaderRecovering {
			fail("an unclean election is not marked")
		}
		if !uncleanAsked && !last && !m.state().uncleanElection(topic.Name) {
			fail("an unclean election that nobody allowed")
		}
	}
}

// checkAcked holds what was acked against the log of whoever leads, as soon as it does.
func (m *model) checkAcked(t *rapid.T, tp kafka.TopicPartition, p *metadata.PartitionRegistration) {
	if !m.leads(p) {
		return
	}
	log, acked := m.brokers[p.Leader].logs[tp], m.acked[tp]
	same := 0
	for same < min(len(log), len(acked)) && log[same] == acked[same] {
		same++
	}
	if same < len(acked) && p.LeaderRecoveryState != metadata.LeaderRecovering {
		t.Fatalf("%v: acked records %v are lost by a clean election: the leader has %v: %+v", tp, acked, log, p)
	}
	m.acked[tp] = acked[:same:same]
}

// leads reports whether the leader of a partition runs and is who it was elected as.
func (m *model) leads(p *metadata.PartitionRegistration) bool {
	b := m.brokers[p.Leader]
	registered, ok := m.image.Cluster.Broker(p.Leader)
	return b != nil && ok && b.up && registered.Epoch == b.epoch
}

func (m *model) alive(id kafka.NodeID) bool {
	registered, ok := m.image.Cluster.Broker(id)
	return ok && m.brokers[id].up && registered.Epoch == m.brokers[id].epoch
}

// advance moves the watermark as a leader does: over what all in-sync replicas have, if there are enough of them.
func (m *model) advance(tp kafka.TopicPartition, topic *metadata.Topic, p *metadata.PartitionRegistration) {
	if !m.leads(p) || len(p.ISR) < m.state().minInSync(topic, len(p.Replicas)) {
		return
	}
	log := m.brokers[p.Leader].logs[tp]
	n := len(log)
	for _, id := range p.ISR {
		have, same := m.brokers[id].logs[tp], 0
		for same < min(len(have), len(log)) && have[same] == log[same] {
			same++
		}
		n = min(n, same)
	}
	if n > len(m.acked[tp]) {
		m.acked[tp] = slices.Clone(log[:n])
	}
}

// somePartition draws a partition; ok is false if there is none.
func (m *model) somePartition(t *rapid.T) (tp kafka.TopicPartition, topic *metadata.Topic, p *metadata.PartitionRegistration) {
	var all []kafka.TopicPartition
	for name, topic := range m.image.Topics.All() {
		for index := range topic.Partitions.All() {
			all = append(all, kafka.TopicPartition{Topic: name, Partition: index})
		}
	}
	if len(all) == 0 {
		t.Skip("no partitions")
	}
	tp = rapid.SampledFrom(all).Draw(t, "partition")
	topic, p, _ = m.image.Topics.Partition(tp)
	return tp, topic, p
}

func (m *model) someBroker(t *rapid.T) (kafka.NodeID, *modelBroker) {
	id := rapid.Int32Range(0, 4).Draw(t, "broker")
	return id, m.brokers[id]
}

func someReplicas(t *rapid.T) []kafka.NodeID {
	return rapid.SliceOfNDistinct(rapid.Int32Range(0, 4), 1, 4, rapid.ID[int32]).Draw(t, "replicas")
}

// serve is one round of a broker's life: it registers if it has to, tells where its replicas are, and sends a heartbeat.
func (m *model) serve(t *rapid.T) {
	id, b := m.someBroker(t)
	if !b.up {
		b.rise()
		q := registration(id)
		q.IncarnationID, q.LogDirs, q.PreviousBrokerEpoch = testID(b.incarnation), b.dirs(), b.previous
		r := m.ask(t, q).(*kmsg.BrokerRegistrationResponse)
		if b.up = r.ErrorCode == 0; b.up {
			b.epoch, b.previous = r.BrokerEpoch, r.BrokerEpoch
		}
		return
	}
	if !m.alive(id) {
		b.up = false // unregistered behind its back
		return
	}
	m.tell(t, id)
	q := m.beat(id)
	q.WantShutdown = rapid.IntRange(0, 5).Draw(t, "stops") == 0
	if r := m.ask(t, q).(*kmsg.BrokerHeartbeatResponse); r.ShouldShutdown {
		b.up = false
	}
}

// tell has a broker say where its replicas are.
func (m *model) tell(t *rapid.T, id kafka.NodeID) {
	dir := testDirs([]int32{m.brokers[id].dir})[0]
	for _, topic := range m.image.Topics.All() {
		for index, p := range topic.Partitions.All() {
			if slices.Contains(p.Replicas, id) && p.Directory(id) != dir {
				m.ask(t, &kmsg.AssignReplicasToDirsRequest{
					BrokerID: id, BrokerEpoch: m.brokers[id].epoch,
					Directories: []kmsg.AssignReplicasToDirsRequestDirectory{{ID: dir,
						Topics: []kmsg.AssignReplicasToDirsRequestDirectoryTopic{{TopicID: topic.ID,
							Partitions: []kmsg.AssignReplicasToDirsRequestDirectoryTopicPartition{{Partition: index}}}}}},
				})
			}
		}
	}
}

func (m *model) beat(id kafka.NodeID) *kmsg.BrokerHeartbeatRequest {
	return &kmsg.BrokerHeartbeatRequest{
		Version: 1, BrokerID: id, BrokerEpoch: m.brokers[id].epoch, CurrentMetadataOffset: m.image.Offset, OfflineLogDirs: m.brokers[id].offline(),
	}
}

// move has the replicas of a broker, of which it has told where they are, move to its other directory. The one that they leave may fail
// at once, and the controller may hear of that first. Nobody's seat is lost by it, unless an unclean election gives it up, which every step
// is checked for.
func (m *model) move(t *rapid.T) {
	id, b := m.someBroker(t)
	if !b.up || !m.alive(id) || b.failed {
		t.Skip("it cannot move")
	}
	m.tell(t, id)
	for _, tp := range m.partitions() {
		if _, p, _ := m.image.Topics.Partition(tp); slices.Contains(p.Replicas, id) && !b.dirOf(m, p, id) {
			t.Skip("the controller does not know what there is to move")
		}
	}
	eligible := func() (all []kafka.TopicPartition) {
		for _, tp := range m.partitions() {
			_, p, _ := m.image.Topics.Partition(tp)
			if slices.Contains(p.ELR, id) || slices.Equal(p.ISR, []kafka.NodeID{id}) {
				all = append(all, tp)
			}
		}
		return all
	}
	before := eligible()
	b.dir, b.spare = b.spare, b.dir
	b.failed = rapid.Bool().Draw(t, "fails")
	if rapid.Bool().Draw(t, "heardOf") {
		m.ask(t, m.beat(id))
	}
	if rapid.IntRange(0, 3).Draw(t, "another") == 0 {
		m.newController(t)
	}
	m.tell(t, id)
	after := eligible()
	for _, tp := range before {
		_, p, _ := m.image.Topics.Partition(tp)
		if !slices.Contains(after, tp) && !slices.Contains(p.ISR, id) && p.LeaderRecoveryState != metadata.LeaderRecovering {
			t.Fatalf("%v: broker %d has moved it, and is not eligible any more: %+v", tp, id, p)
		}
	}
}

// newController takes over from one that is gone with all that it knew of heartbeats.
func (m *model) newController(t *rapid.T) {
	clear(m.contacts)
	for id, b := range m.image.Cluster.Brokers() {
		if !b.Fenced {
			m.contacts[id] = contact{Live: true, MetadataOffset: -1, ShutdownOffset: -1}
		}
	}
	before := m.image
	m.commit(m.state().revive())
	m.commit(m.state().raiseInternal())
	m.check(t, before, false)
}

// die ends a process. With eligible replicas it may lose what it had not synced, and then it can not prove a clean stop; without,
// nothing is promised to those who do not sync, so there it loses nothing.
func (m *model) die(t *rapid.T) {
	id, b := m.someBroker(t)
	if !b.up {
		t.Skip("it is dead")
	}
	b.up = false
	switch kind := rapid.IntRange(0, 5).Draw(t, "how"); {
	case kind == 0: // its disk with it
		b.previous, b.dir, b.spare, b.failed, b.logs = -1, b.dir+100, b.spare+100, false, map[kafka.TopicPartition][]int{}
	case kind <= 2 && m.elr:
		b.previous = -1
		for _, tp := range m.partitions() {
			if log := b.logs[tp]; len(log) > 0 {
				b.logs[tp] = log[:rapid.IntRange(0, len(log)).Draw(t, "left")]
			}
		}
	}
	if rapid.Bool().Draw(t, "noticed") {
		m.lapse(t, id)
	}
}

func (m *model) partitions() []kafka.TopicPartition {
	var all []kafka.TopicPartition
	for name, topic := range m.image.Topics.All() {
		for index := range topic.Partitions.All() {
			all = append(all, kafka.TopicPartition{Topic: name, Partition: index})
		}
	}
	return all
}

// lapse ends a session.
func (m *model) lapse(t *rapid.T, id kafka.NodeID) {
	k := m.contacts[id]
	k.Live = false
	m.contacts[id] = k
	if r, ok := m.image.Cluster.Broker(id); ok && !r.Fenced {
		before := m.image
		m.commit(m.state().fence(r))
		m.check(t, before, false)
	}
}

func (m *model) alterPartition(t *rapid.T) {
	tp, topic, p := m.somePartition(t)
	if !m.leads(p) {
		t.Skip("nobody leads")
	}
	leader := m.brokers[p.Leader]
	part := kmsg.AlterPartitionRequestTopicPartition{Partition: tp.Partition, LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch}
	for _, id := range p.Replicas {
		in := slices.Contains(p.ISR, id)
		if id != p.Leader && in && rapid.IntRange(0, 3).Draw(t, "late") == 0 {
			in = false
		}
		if id != p.Leader && !in && m.alive(id) && slices.Equal(m.brokers[id].logs[tp], leader.logs[tp]) {
			in = rapid.Bool().Draw(t, "caughtUp")
		}
		if in || id == p.Leader {
			part.NewEpochISR = append(part.NewEpochISR, kmsg.AlterPartitionRequestTopicPartitionNewEpochISR{BrokerID: id, BrokerEpoch: m.brokers[id].epoch})
		}
	}
	m.report(t, topic, p, part)
}

// report has the leader of a partition say who is in sync.
func (m *model) report(t *rapid.T, topic *metadata.Topic, p *metadata.PartitionRegistration, part kmsg.AlterPartitionRequestTopicPartition) {
	for _, member := range part.NewEpochISR {
		m.reported = append(m.reported, member.BrokerID)
	}
	m.ask(t, &kmsg.AlterPartitionRequest{
		Version: 3, BrokerID: p.Leader, BrokerEpoch: m.brokers[p.Leader].epoch,
		Topics: []kmsg.AlterPartitionRequestTopic{{TopicID: topic.ID, Partitions: []kmsg.AlterPartitionRequestTopicPartition{part}}},
	})
	m.reported = nil
}

// replicate has a follower fetch: it takes over what its leader has, and gives up what that does not have.
func (m *model) replicate(tp kafka.TopicPartition, p *metadata.PartitionRegistration) {
	for _, id := range p.Replicas {
		if m.alive(id) && m.brokers[id].dirOf(m, p, id) {
			m.brokers[id].logs[tp] = slices.Clone(m.brokers[p.Leader].logs[tp])
		}
	}
}

// dirOf reports whether the controller knows that the replica is where it is.
func (b *modelBroker) dirOf(_ *model, p *metadata.PartitionRegistration, id kafka.NodeID) bool {
	return p.Directory(id) == testDirs([]int32{b.dir})[0]
}

func (m *model) reassign(t *rapid.T) {
	tp, _, _ := m.somePartition(t)
	part := kmsg.AlterPartitionAssignmentsRequestTopicPartition{Partition: tp.Partition}
	if rapid.IntRange(0, 3).Draw(t, "cancel") > 0 {
		part.Replicas = someReplicas(t)
	}
	m.ask(t, &kmsg.AlterPartitionAssignmentsRequest{
		Version: 1, AllowReplicationFactorChange: true,
		Topics: []kmsg.AlterPartitionAssignmentsRequestTopic{{Topic: tp.Topic, Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{part}}},
	})
}

func (m *model) createTopic(t *rapid.T) {
	name := rapid.SampledFrom([]string{"a", "b", "internal"}).Draw(t, "topic")
	topic := kmsg.CreateTopicsRequestTopic{
		Topic: name, NumPartitions: -1, ReplicationFactor: -1,
		ReplicaAssignment: []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Replicas: someReplicas(t)}},
	}
	if m.ask(t, &kmsg.CreateTopicsRequest{Version: 7, Topics: []kmsg.CreateTopicsRequestTopic{topic}}).(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode == 0 {
		m.forget(name)
	}
}

func (m *model) forget(name string) {
	tp := kafka.TopicPartition{Topic: name}
	delete(m.acked, tp)
	for _, b := range m.brokers {
		delete(b.logs, tp)
	}
}

func (m *model) alterConfig(t *rapid.T) {
	tp, _, _ := m.somePartition(t)
	name, value := minInsync, fmt.Sprint(rapid.IntRange(1, 3).Draw(t, "minInsync"))
	if rapid.Bool().Draw(t, "which") {
		name, value = uncleanElection, fmt.Sprint(rapid.IntRange(0, 3).Draw(t, "allowed") == 0)
	}
	m.ask(t, &kmsg.IncrementalAlterConfigsRequest{Version: 1, Resources: []kmsg.IncrementalAlterConfigsRequestResource{{
		ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: tp.Topic,
		Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: name, Value: &value}},
	}}})
}

// settle ends all faults: everybody comes up and fetches. Then everybody is in sync, and no reassignment is left, unless
// a partition waits for records that only an unclean election can give up.
func (m *model) settle(t *rapid.T) {
	for range 8 {
		before := m.image
		m.commit(m.state().raiseInternal()) // as a new controller does
		m.check(t, before, false)
		for id := range kafka.NodeID(5) {
			b := m.brokers[id]
			if !b.up || !m.alive(id) {
				b.up = false
				m.lapse(t, id)
				b.rise()
				q := registration(id)
				q.IncarnationID, q.LogDirs, q.PreviousBrokerEpoch = testID(b.incarnation), b.dirs(), b.previous
				b.epoch = m.ask(t, q).(*kmsg.BrokerRegistrationResponse).BrokerEpoch
				b.up, b.previous = true, b.epoch
			}
			m.ask(t, m.beat(id))
			if r, _ := m.image.Cluster.Broker(id); r.InControlledShutdown {
				m.lapse(t, id)
				b.up = false
			}
		}
		for name, topic := range m.image.Topics.All() {
			for index := range topic.Partitions.All() {
				m.settlePartition(t, kafka.TopicPartition{Topic: name, Partition: index})
			}
		}
	}
	for name, topic := range m.image.Topics.All() {
		for index, p := range topic.Partitions.All() {
			if p.Leader < 0 {
				if m.state().uncleanElection(name) {
					t.Fatalf("%s-%d has no leader although an unclean election is allowed and all are up: %+v", name, index, p)
				}
				if slices.ContainsFunc(p.ISR, func(id kafka.NodeID) bool { return m.state().dirOnline(p, id) }) ||
					len(p.ISR) == 0 && slices.ContainsFunc(p.ELR, func(id kafka.NodeID) bool { return m.state().dirOnline(p, id) }) {
					t.Fatalf("%s-%d has no leader although one that has everything is up: %+v", name, index, p)
				}
				continue
			}
			if len(p.ISR) != len(p.Replicas) || p.Reassigning() || len(p.ELR) > 0 || p.LeaderRecoveryState != metadata.LeaderRecovered {
				t.Fatalf("%s-%d did not settle: %+v", name, index, p)
			}
			if name == "internal" && len(p.Replicas) < 3 {
				t.Fatalf("an internal topic has replicas %v", p.Replicas)
			}
		}
	}
}

func (m *model) settlePartition(t *rapid.T, tp kafka.TopicPartition) {
	_, p, _ := m.image.Topics.Partition(tp)
	for _, id := range p.Replicas {
		if m.alive(id) {
			m.tell(t, id)
		}
	}
	topic, p, _ := m.image.Topics.Partition(tp)
	if !m.leads(p) {
		return
	}
	m.replicate(tp, p)
	part := kmsg.AlterPartitionRequestTopicPartition{Partition: tp.Partition, LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch}
	for _, id := range p.Replicas {
		if m.image.Cluster.Active(id) && m.alive(id) {
			part.NewEpochISR = append(part.NewEpochISR, kmsg.AlterPartitionRequestTopicPartitionNewEpochISR{BrokerID: id, BrokerEpoch: m.brokers[id].epoch})
		}
	}
	m.report(t, topic, p, part)
}

// TestModel: brokers come, go, lose disks and what they had not synced; leaders change who is in sync; replicas are
// reassigned, back and forth; settings change.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		for range 3 {
			m.serve(t)
		}
		t.Repeat(map[string]func(*rapid.T){
			"serve": m.serve, "serveMore": m.serve, "serveStillMore": m.serve,
			"die":    m.die,
			"create": m.createTopic,
			"delete": func(t *rapid.T) {
				tp, topic, _ := m.somePartition(t)
				if rapid.IntRange(0, 3).Draw(t, "really") == 0 {
					m.ask(t, &kmsg.DeleteTopicsRequest{Version: 6, Topics: []kmsg.DeleteTopicsRequestTopic{{TopicID: topic.ID}}})
					m.forget(tp.Topic)
				}
			},
			"produce": func(t *rapid.T) {
				tp, _, p := m.somePartition(t)
				if m.leads(p) {
					m.next++
					m.brokers[p.Leader].logs[tp] = append(slices.Clip(m.brokers[p.Leader].logs[tp]), m.next)
				}
			},
			"fetch": func(t *rapid.T) {
				tp, topic, p := m.somePartition(t)
				id := rapid.SampledFrom(p.Replicas).Draw(t, "follower")
				if m.leads(p) && m.alive(id) && p.LeaderRecoveryState == metadata.LeaderRecovered {
					m.brokers[id].logs[tp] = slices.Clone(m.brokers[p.Leader].logs[tp])
				}
				m.advance(tp, topic, p)
			},
			"alterPartition": m.alterPartition, "alterPartitionMore": m.alterPartition,
			"reassign": m.reassign,
			"config":   m.alterConfig,
			"elect": func(t *rapid.T) {
				m.ask(t, &kmsg.ElectLeadersRequest{Version: 2, ElectionType: int8(rapid.IntRange(0, 1).Draw(t, "type"))})
			},
			"lapse": func(t *rapid.T) { // a broker that is alive and not heard of
				id, _ := m.someBroker(t)
				m.lapse(t, id)
			},
			"balance": func(t *rapid.T) {
				before := m.image
				m.commit(m.state().preferLeaders(maxElections))
				m.check(t, before, false)
			},
			"newController": m.newController,
			"move":          m.move,
			"unregister": func(t *rapid.T) {
				id, b := m.someBroker(t)
				if !b.up && rapid.IntRange(0, 3).Draw(t, "really") == 0 {
					m.ask(t, &kmsg.UnregisterBrokerRequest{BrokerID: id})
				}
			},
		})
		m.settle(t)
	})
}
