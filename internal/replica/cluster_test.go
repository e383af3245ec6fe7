package replica

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/batch"
	"moldau/internal/commitlog"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/vfs"
)

// cluster is several nodes with a replica of t-0 each, whose metadata and fetches a test does by hand. A fetch here is
// what package fetcher does with an answer, without network.
type cluster struct {
	t     testing.TB
	rng   *rand.Rand // what a power cut leaves
	nodes map[kafka.NodeID]*member
	image *metadata.Image
}

// member is one node of a cluster.
type member struct {
	*world
	up    bool
	epoch int64 // of its broker
	held  bool  // syncs wait
}

func newCluster(t testing.TB, flush bool, ids ...kafka.NodeID) *cluster {
	c := &cluster{t: t, rng: rand.New(rand.NewPCG(1, 2)), nodes: map[kafka.NodeID]*member{}, image: metadata.EmptyImage()}
	for _, id := range ids {
		w := newNode(t, id, flush)
		w.dirs = append(w.dirs, "/other")
		w.start()
		c.nodes[id] = &member{world: w, up: true, epoch: 1}
	}
	var records []metadata.Record
	for _, id := range c.ids() {
		records = append(records, &metadata.RegisterBrokerRecord{BrokerID: id, BrokerEpoch: 1})
	}
	c.publish(nil, records...)
	return c
}

func (c *cluster) ids() []kafka.NodeID {
	var ids []kafka.NodeID
	for id := range c.nodes {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

func (c *cluster) stop() {
	for _, id := range c.ids() {
		if m := c.nodes[id]; m.up {
			m.stop(false)
		}
	}
}

// publish makes a new image and gives it to the nodes named, nil meaning all that are up.
func (c *cluster) publish(to []kafka.NodeID, records ...metadata.Record) {
	c.t.Helper()
	delta := metadata.NewDelta(c.image)
	for _, r := range records {
		if err := delta.Replay(r); err != nil {
			c.t.Fatal(err)
		}
	}
	c.image = delta.Image(c.image.Offset+1, 1)
	for _, id := range c.ids() {
		if to == nil || slices.Contains(to, id) {
			c.nodes[id].catchUp(c.image)
		}
	}
}

// catchUp brings a node to an image, whatever it has seen before.
func (m *member) catchUp(image *metadata.Image) {
	if !m.up || m.image == image {
		return
	}
	old := m.image
	m.image = image
	m.set.Apply(metadata.Between(old, image), image)
	for _, p := range m.set.Partitions() {
		m.settle(p.tp)
	}
}

// crash ends a node; power takes what was not synced.
func (c *cluster) crash(id kafka.NodeID, power bool) {
	m := c.nodes[id]
	if power {
		m.disk = m.disk.CrashClone(c.rng, 0)
		m.gate.Open()
		old := m.store
		if err := old.Stop(false); err != nil {
			c.t.Fatal(err)
		}
	} else {
		m.stop(false)
	}
	m.up, m.held = false, false
}

// restart brings a node back as a new incarnation, which the metadata tell of.
func (c *cluster) restart(id kafka.NodeID) {
	m := c.nodes[id]
	m.up, m.image = true, metadata.EmptyImage()
	m.epoch++
	m.gate = &vfs.Gate{}
	m.start()
	c.publish(nil, &metadata.RegisterBrokerRecord{BrokerID: id, BrokerEpoch: m.epoch})
}

// elect makes a node the leader.
func (c *cluster) elect(to []kafka.NodeID, epoch kafka.Epoch, leader kafka.NodeID, replicas, isr, elr []kafka.NodeID, minISR string) {
	var records []metadata.Record
	if _, ok := c.image.Topics.ByName("t"); !ok {
		records = append(records, &metadata.TopicRecord{Name: "t", TopicID: topicID("t")},
			&metadata.ConfigRecord{ResourceType: int8(metadata.ConfigTopic), ResourceName: "t", Name: "min.insync.replicas", Value: &minISR})
	}
	partitionEpoch := int32(0)
	if _, reg, ok := c.image.Topics.Partition(tp); ok {
		partitionEpoch = reg.PartitionEpoch + 1
	}
	c.publish(to, append(records, &metadata.PartitionRecord{
		TopicID: topicID("t"), Replicas: replicas, ISR: isr, EligibleLeaderReplicas: elr, Leader: leader, LeaderEpoch: epoch, PartitionEpoch: partitionEpoch,
		Directories: make([]kafka.DirID, len(replicas)),
	})...)
}

func (m *member) partition() *Partition {
	p, err := m.set.Partition(tp)
	m.must(err)
	return p
}

// answer is what a leader has answered to a fetch that asked for at.
type answer struct {
	at      Following
	read    ReadResult
	records []byte
	err     error
	end     kafka.Offset // the leader's log end and start then, for a follower that is outside
	start   kafka.Offset
}

// ask has a follower fetch from its leader.
func (c *cluster) ask(follower kafka.NodeID) (answer, error) {
	m := c.nodes[follower]
	at, w, err := m.partition().Following()
	if err != nil {
		return answer{}, err
	}
	if w != nil {
		if m.held {
			return answer{}, fmt.Errorf("what is below %d is not on disk yet", at.From)
		}
		Hurry(w)
		<-w.Done()
	}
	leader := c.nodes[at.Leader]
	if !leader.up {
		return answer{}, errors.New("the leader is down")
	}
	q, err := leader.set.Partition(tp)
	if err != nil {
		return answer{}, err
	}
	a := answer{at: at}
	a.read, a.err = q.Read(ReadOptions{
		From: at.From, MaxBytes: 1 << 20, AtLeastOne: true, Replica: follower, ReplicaEpoch: m.epoch, LogStart: at.LogStart,
		CurrentEpoch: at.Epoch, LastFetchedEpoch: at.LastEpoch,
	})
	a.start, a.end = q.LogStart(), q.LogEnd()
	if a.read.Region != nil {
		a.records, err = a.read.Region.ReadAll()
		leader.must(err)
		a.read.Region.Release()
	}
	return a, nil
}

// take does what an answer says.
func (c *cluster) take(follower kafka.NodeID, a answer) error {
	m := c.nodes[follower]
	p := m.partition()
	if now, _, err := p.Following(); err != nil || now.From != a.at.From || now.Epoch != a.at.Epoch {
		return errors.New("late: the follower has moved on")
	}
	if m.held && (errors.Is(a.err, kerr.OffsetOutOfRange) || a.read.Diverging != nil) {
		m.gate.Open() // a cut is synced on the spot
		defer m.gate.Close()
	}
	switch {
	case errors.Is(a.err, kerr.OffsetOutOfRange) && a.end < a.at.From:
		return p.Truncate(a.end, a.at.Epoch)
	case errors.Is(a.err, kerr.OffsetOutOfRange) && a.start > a.at.From:
		return p.TruncateFullyAt(a.start, a.at.Epoch)
	case a.err != nil:
		return a.err
	case a.read.Diverging != nil:
		_, err := p.TruncateDiverging(*a.read.Diverging, a.at.Epoch)
		return err
	}
	_, w, err := p.AppendFetched(a.records, a.read.HighWatermark, a.read.LogStart, a.at.Epoch)
	if w != nil && !m.held {
		Hurry(w)
		<-w.Done()
	}
	return err
}

// quiet waits until all that may be synced is.
func (c *cluster) quiet() {
	for _, id := range c.ids() {
		m := c.nodes[id]
		if !m.up || m.held {
			continue
		}
		if p, err := m.set.Partition(tp); err == nil && p.acting.Load().log != nil && p.acting.Load().diskErr == nil {
			m.must(p.syncAll())
		}
	}
}

// entry is one record of a log.
type entry struct {
	offset kafka.Offset
	epoch  kafka.Epoch
	value  string
}

// history is the log of a node.
func (m *member) history() []entry {
	var out []entry
	log := m.partition().acting.Load().log
	for from := log.LogStart(); from < log.LogEnd(); {
		r, err := log.Read(from, commitlog.ReadOptions{MaxBytes: 1 << 20, UpTo: log.LogEnd(), AtLeastOne: true})
		m.must(err)
		bytes, err := r.Region.ReadAll()
		m.must(err)
		r.Region.Release()
		for len(bytes) > 0 {
			b, rest, err := batch.Next(bytes)
			m.must(err)
			bytes = rest
			m.must(b.Each(func(record batch.Record) error {
				if record.Offset >= from {
					out = append(out, entry{record.Offset, b.LeaderEpoch(), string(record.Value)})
				}
				return nil
			}))
		}
		from = r.NextOffset
	}
	return out
}

func (c *cluster) pass(d time.Duration) {
	for _, m := range c.nodes {
		m.now.Add(d.Milliseconds())
	}
}
