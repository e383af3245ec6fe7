package replica

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/quota"
	"moldau/internal/vfs"
)

var (
	modelSeed  = flag.Uint64("model-seed", 0, "seed of TestReplicationModel; 0: several")
	modelSeeds = flag.Uint64("model-seeds", 12, "how many seeds TestReplicationModel tries")
)

// TestReplicationModel lets three replicas live through random appends, fetches, late answers, crashes, power cuts, slow
// disks, zombies and elections by a small controller, and checks after each step what replication promises: logs agree below the
// watermark and never change there, what was acked is in the log of every later leader, and the watermark of a leader
// epoch does not fall.
func TestReplicationModel(t *testing.T) {
	seeds := []uint64{*modelSeed}
	if *modelSeed == 0 {
		seeds = nil
		for seed := range *modelSeeds {
			seeds = append(seeds, seed+1)
		}
	}
	acked, elections, moved := 0, kafka.Epoch(0), 0
	for _, seed := range seeds {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			m := newModel(t, seed)
			defer m.stop()
			for range 400 {
				m.step()
				m.quiet()
				m.check()
			}
			m.heal()
			t.Logf("%d committed, %d acked, %d elections", len(m.committed), len(m.acked), m.leaderEpoch)
			acked, elections, moved = acked+len(m.acked), elections+m.leaderEpoch, moved+m.moved
		})
	}
	if *modelSeed == 0 && (acked < 100 || elections < 50 || moved < 10) {
		t.Errorf("%d records acked, %d elections, %d moves: the model does too little", acked, elections, moved)
	}
}

// model is a cluster with a controller. Every node learns what the controller publishes at a time of its own.
type model struct {
	*cluster
	rng     *rand.Rand
	value   int
	trace   []string
	moved   int // replicas that came to another directory
	late    []lateAnswer
	pending []pendingAck
	wishes  []Wish // on their way to the controller

	// The controller's view.
	leader         kafka.NodeID
	leaderEpoch    kafka.Epoch
	isr            []kafka.NodeID
	partitionEpoch int32
	fenced         map[kafka.NodeID]bool

	committed map[kafka.Offset]entry
	acked     map[kafka.Offset]string
	watermark map[kafka.NodeID]seenWatermark
}

type lateAnswer struct {
	follower kafka.NodeID
	answer
}

type pendingAck struct {
	leader kafka.NodeID
	waiter *Waiter
	first  kafka.Offset
	values []string
}

// seenWatermark is a node's watermark under a role.
type seenWatermark struct {
	role  *acting
	value kafka.Offset
}

func newModel(t *testing.T, seed uint64) *model {
	m := &model{
		cluster: newCluster(t, true, 1, 2, 3), rng: rand.New(rand.NewPCG(seed, 7)), leader: 1, isr: []kafka.NodeID{1, 2, 3},
		fenced: map[kafka.NodeID]bool{}, committed: map[kafka.Offset]entry{}, acked: map[kafka.Offset]string{},
		watermark: map[kafka.NodeID]seenWatermark{},
	}
	for _, node := range m.nodes {
		node.rate.SetRate(0) // moves wait to be told
	}
	minISR := strconv.Itoa(1 + m.rng.IntN(2))
	m.elect(nil, 0, 1, []kafka.NodeID{1, 2, 3}, m.isr, nil, minISR)
	return m
}

func (m *model) note(format string, args ...any) {
	m.trace = append(m.trace, fmt.Sprintf(format, args...))
}

func (m *model) fatal(format string, args ...any) {
	m.t.Helper()
	m.t.Fatalf("%s\n%s", fmt.Sprintf(format, args...), strings.Join(m.trace, "\n"))
}

func (m *model) some() kafka.NodeID { return kafka.NodeID(1 + m.rng.IntN(3)) }

// step lets one thing go wrong or not, and some others take their course.
func (m *model) step() {
	for range m.rng.IntN(3) {
		m.course(m.some())
	}
	id := m.some()
	node := m.nodes[id]
	switch n := m.rng.IntN(100); {
	case n < 30:
		if m.leader != kafka.NoNode && m.rng.IntN(3) > 0 {
			id = m.leader
		}
		m.append(id)
	case n < 40 && len(m.late) > 0:
		i := m.rng.IntN(len(m.late))
		a := m.late[i]
		m.late = slices.Delete(m.late, i, i+1)
		if m.nodes[a.follower].up {
			err := m.take(a.follower, a.answer)
			m.note("late answer to %d: %v", a.follower, err)
		}
	case n < 42:
		m.down(id)
	case n < 55 && !node.up:
		m.back(id)
	case n < 58 && node.up && len(m.isr) > 1: // the controller believes that a node is gone
		m.fence(id)
	case n < 75 && node.up && m.fenced[id]:
		m.unfence(id)
	case n < 78 && node.up:
		node.held = true
		node.gate.Close()
		m.note("%d syncs slowly", id)
	case n < 85 && node.held:
		node.held = false
		node.gate.Open()
	case n >= 88 && node.up:
		m.move(id)
	case n < 88:
		m.pass(20 * time.Second)
		if node.up {
			node.set.DropLagging(30 * time.Second)
		}
	}
}

// course is what happens all the time: fetches, metadata and wishes arrive.
func (m *model) course(id kafka.NodeID) {
	switch m.rng.IntN(4) {
	case 0, 1:
		m.fetch(id)
	case 2:
		if m.nodes[id].up {
			m.nodes[id].catchUp(m.image)
			m.note("%d learns", id)
		}
	case 3:
		m.hear()
	}
}

// move has a replica begin, go on with or end a move to its node's other directory.
func (m *model) move(id kafka.NodeID) {
	node := m.nodes[id]
	p := node.partition()
	a := p.acting.Load()
	if a.log == nil || a.diskErr != nil {
		return
	}
	future := p.future.Load()
	switch n := m.rng.IntN(4); {
	case future == nil:
		to := node.store.Directories()[0]
		if a.log.Dir() == to {
			to = node.store.Directories()[1]
		}
		err := <-node.set.Move(tp, to)
		m.note("%d moves to %s: %v", id, to.Path(), err)
		if err != nil {
			m.fatal("move: %v", err)
		}
	case n == 0 && !node.held: // it waits for a sync that is under way
		if err := <-node.set.Move(tp, a.log.Dir()); err != nil || p.future.Load() != nil {
			m.fatal("end the move: %v", err)
		}
		m.note("%d stays in %s", id, a.log.Dir().Path())
	case n < 3 && !node.held: // the sync at its end would wait
		node.rate.SetRate(quota.Unlimited)
		node.set.copy(p)
		for p.future.Load() == future {
			node.settle(tp)
		}
		node.settle(tp) // the job that has ended it
		node.rate.SetRate(0)
		if now := p.Dir(); now != future.Dir() {
			m.fatal("the move has ended in %s, want %s", now.Path(), future.Dir().Path())
		}
		m.moved++
		m.note("%d has moved to %s, log end %d", id, p.Dir().Path(), p.LogEnd())
	default:
		done := make(chan error)
		node.store.Run(tp, func() {
			p.role.RLock()
			defer p.role.RUnlock()
			_, err := p.copyPiece(future)
			done <- err
		})
		if err := <-done; err != nil && p.future.Load() == future {
			m.fatal("copy: %v", err)
		}
		m.note("%d copies up to %d", id, future.LogEnd())
	}
}

func (m *model) append(id kafka.NodeID) {
	node := m.nodes[id]
	if !node.up {
		return
	}
	b := batch.NewBuilder(batch.BuildOptions{LeaderEpoch: kafka.NoEpoch})
	var values []string
	for i := range 1 + m.rng.IntN(3) {
		m.value++
		values = append(values, strconv.Itoa(m.value))
		b.Add(batch.Record{Offset: int64(i), Timestamp: 1000, Value: []byte(values[i])})
	}
	o := AppendOptions{Acks: kafka.AcksAll, LeaderEpoch: kafka.NoEpoch}
	if m.rng.IntN(3) == 0 {
		o.Acks = kafka.AcksLeader
	}
	a, w, err := node.partition().Append(b.Build(), o)
	if err != nil {
		return
	}
	m.note("append to %d: %d %v acks=%d", id, a.First, values, o.Acks)
	if o.Acks == kafka.AcksAll {
		m.pending = append(m.pending, pendingAck{id, w, a.First, values})
	}
}

func (m *model) fetch(id kafka.NodeID) {
	if !m.nodes[id].up {
		return
	}
	a, err := m.ask(id)
	if err != nil {
		return
	}
	if m.rng.IntN(8) == 0 {
		m.late = append(m.late, lateAnswer{id, a})
		return
	}
	err = m.take(id, a)
	m.note("fetch of %d from %d at %d: diverging %v, error %v", id, a.at.Leader, a.at.From, a.read.Diverging, err)
}

func (m *model) down(id kafka.NodeID) {
	if !m.nodes[id].up {
		return
	}
	power := m.rng.IntN(2) == 0
	m.settleAcks()
	m.pending = slices.DeleteFunc(m.pending, func(p pendingAck) bool { return p.leader == id }) // it acks nobody any more
	m.crash(id, power)
	delete(m.watermark, id)
	m.note("%d down, power %v", id, power)
	if m.rng.IntN(2) == 0 {
		m.fence(id)
	}
}

// back brings a node up again: a new incarnation, fenced until it has caught up with the metadata.
func (m *model) back(id kafka.NodeID) {
	node := m.nodes[id]
	node.up, node.image = true, metadata.EmptyImage()
	node.epoch++
	node.gate = &vfs.Gate{}
	node.start()
	m.fenced[id] = true
	m.register(id)
	m.fence(id)
	node.catchUp(m.image)
	m.note("%d back with broker epoch %d", id, node.epoch)
	m.unfence(id)
}

func (m *model) register(id kafka.NodeID) {
	m.publish([]kafka.NodeID{}, &metadata.RegisterBrokerRecord{BrokerID: id, BrokerEpoch: m.nodes[id].epoch, Fenced: m.fenced[id]})
}

// fence takes a node out of the in-sync set, unless it is the last there, and out of leadership.
func (m *model) fence(id kafka.NodeID) {
	m.fenced[id] = true
	m.register(id)
	if len(m.isr) > 1 {
		m.isr = slices.DeleteFunc(slices.Clone(m.isr), func(member kafka.NodeID) bool { return member == id })
	}
	m.choose()
}

func (m *model) unfence(id kafka.NodeID) {
	delete(m.fenced, id)
	m.register(id)
	m.choose()
}

// choose elects a leader from the in-sync set if there is none, or none that is alive.
func (m *model) choose() {
	leader := m.leader
	if leader == kafka.NoNode || m.fenced[leader] || !slices.Contains(m.isr, leader) {
		leader = kafka.NoNode
		for _, member := range m.isr {
			if !m.fenced[member] {
				leader = member
			}
		}
	}
	m.decide(leader)
}

func (m *model) decide(leader kafka.NodeID) {
	if leader != m.leader {
		m.leader = leader
		m.leaderEpoch++
	}
	m.partitionEpoch++
	m.publish([]kafka.NodeID{}, &metadata.PartitionRecord{
		TopicID: topicID("t"), Replicas: []kafka.NodeID{1, 2, 3}, ISR: m.isr, Leader: m.leader, LeaderEpoch: m.leaderEpoch,
		PartitionEpoch: m.partitionEpoch, Directories: make([]kafka.DirID, 3),
	})
	m.note("controller: leader %d epoch %d isr %v", m.leader, m.leaderEpoch, m.isr)
}

// hear has the controller decide on a wish. Its answer may be lost, and then the wish comes again.
func (m *model) hear() {
	for _, id := range m.ids() {
		if !m.nodes[id].up {
			continue
		}
		m.wishes = append(m.wishes, m.nodes[id].set.TakeWishes(100)...)
	}
	if len(m.wishes) == 0 {
		return
	}
	w := m.wishes[0]
	lost := m.rng.IntN(4) == 0
	if !lost {
		m.wishes = m.wishes[1:]
	}
	switch {
	case w.LeaderEpoch != m.leaderEpoch || w.PartitionEpoch != m.partitionEpoch:
		m.note("controller: wish %v is too late", w.ISR)
	case !m.eligible(w):
		m.note("controller: wish %v refused", w.ISR)
		if node := m.nodes[m.leader]; node.up && !lost {
			node.partition().WishFailed(w)
		}
	default:
		m.isr = w.ISR
		m.decide(m.leader)
	}
}

func (m *model) eligible(w Wish) bool {
	for i, member := range w.ISR {
		if m.fenced[member] || w.Epochs[i] != m.nodes[member].epoch {
			return false
		}
	}
	return true
}

// settleAcks notes what has been acked.
func (m *model) settleAcks() {
	still := m.pending[:0]
	for _, p := range m.pending {
		if p.waiter != nil {
			select {
			case <-p.waiter.Done():
			default:
				still = append(still, p)
				continue
			}
			if p.waiter.Err() != nil {
				continue
			}
		}
		for i, value := range p.values {
			m.acked[p.first+int64(i)] = value
		}
	}
	m.pending = still
}

func (m *model) check() {
	m.t.Helper()
	m.settleAcks()
	for _, id := range m.ids() {
		node := m.nodes[id]
		if !node.up {
			continue
		}
		p := node.partition()
		role, highWatermark := p.acting.Load(), p.HighWatermark()
		if old := m.watermark[id]; old.role == role && role.leading && highWatermark < old.value {
			m.fatal("the watermark of %d fell from %d to %d in epoch %d", id, old.value, highWatermark, role.epoch)
		}
		m.watermark[id] = seenWatermark{role, highWatermark}
		if highWatermark > p.LogEnd() {
			m.fatal("the watermark of %d is %d, its log ends at %d", id, highWatermark, p.LogEnd())
		}
		history := node.history()
		for _, e := range history {
			if e.offset >= highWatermark {
				break
			}
			if old, known := m.committed[e.offset]; known && old != e {
				m.fatal("node %d has %v committed, and %v was there", id, e, old)
			}
			m.committed[e.offset] = e
		}
		if id != m.leader || role.epoch != m.leaderEpoch || !role.leading {
			continue
		}
		for offset, value := range m.acked {
			if offset >= int64(len(history)) || history[offset].value != value {
				m.fatal("%s was acked at %d and is not in the log of leader %d", value, offset, id)
			}
		}
	}
}

// heal brings everybody back, and checks that the replicas then come to the same log and all of them into the in-sync set.
func (m *model) heal() {
	for _, id := range m.ids() {
		node := m.nodes[id]
		if !node.up {
			m.back(id)
		}
		if node.held {
			node.held = false
			node.gate.Open()
		}
	}
	for _, id := range m.ids() {
		if m.fenced[id] {
			m.unfence(id)
		}
	}
	for range 30 {
		for _, id := range m.ids() {
			m.nodes[id].catchUp(m.image)
			m.fetch(id)
		}
		m.quiet()
		m.hear()
	}
	m.late = nil
	m.check()
	want := m.nodes[m.leader].history()
	for _, id := range m.ids() {
		if got := m.nodes[id].history(); !slices.Equal(got, want) || m.nodes[id].partition().HighWatermark() != int64(len(want)) {
			m.fatal("in the end node %d has %v with watermark %d, the leader %v", id, got, m.nodes[id].partition().HighWatermark(), want)
		}
	}
	if len(m.isr) != 3 {
		m.fatal("in the end the in-sync set is %v", m.isr)
	}
}
