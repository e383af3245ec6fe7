package replica

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/commitlog"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/metrics"
	"moldau/internal/quota"
	"moldau/internal/storage"
	"moldau/internal/xsync"
)

// Options is what a Set needs to know.
type Options struct {
	NodeID         kafka.NodeID
	Store          *storage.Store
	FlushBeforeAck bool // the high watermark counts what is synced, not what is written
	Now            func() time.Time
	Logger         *slog.Logger
	Metrics        *metrics.Set
	// LogConfig turns what is set for a topic into its log's configuration.
	LogConfig func(topic string, overrides map[string]string) commitlog.Config
	MoveRate  *quota.Bucket // bytes per second that are copied between directories; nil: any number
	MoveCount int           // partitions that are copied at a time; 0: as many as there are directories
	// MinInSync turns it into min.insync.replicas. nil: 1.
	MinInSync func(topic string, overrides map[string]string) int
}

// Set is all partitions that have a replica on this node.
type Set struct {
	o      Options
	image  atomic.Pointer[metadata.Image]
	begun  bool // the first Apply, of all that was here before, is over; by Apply only
	onRole func(*Partition)
	movers movers

	waitedInVain atomic.Bool // by AwaitLead, since the metadata last gave this node a partition to lead

	wished  chan struct{} // capacity 1: wishes is not empty
	wishing xsync.Mutex   // taken while Partition.mu is held, never the other way round
	wishes  []Wish        // oldest first; one of a partition, and those that its metadata have overtaken

	placed   chan struct{} // capacity 1
	placing  xsync.Mutex   // taken alone
	unplaced map[*Partition]struct{}

	mu     xsync.RWMutex // taken alone
	byName map[string]*topic
	byID   map[kafka.TopicID]*topic
}

// topic is the partitions of one topic that are here.
type topic struct {
	name       string
	id         kafka.TopicID
	partitions map[int32]*Partition // guarded by Set.mu
}

// NewSet returns a Set without partitions. Apply brings them.
func NewSet(o Options) *Set {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Metrics = cmp.Or(o.Metrics, metrics.NewSet())
	if o.MinInSync == nil {
		o.MinInSync = func(string, map[string]string) int { return 1 }
	}
	s := &Set{o: o, wished: make(chan struct{}, 1), placed: make(chan struct{}, 1), unplaced: map[*Partition]struct{}{}, byName: map[string]*topic{}, byID: map[kafka.TopicID]*topic{}}
	s.image.Store(metadata.EmptyImage())
	s.movers = movers{rate: o.MoveRate, most: cmp.Or(o.MoveCount, len(o.Store.Directories())), wanted: map[kafka.TopicPartition]*storage.Directory{}}
	if s.movers.rate == nil {
		s.movers.rate = quota.NewBucket(quota.Unlimited, o.Now)
	}
	s.declareMetrics()
	o.Store.OnSpace(s.openAgain)
	return s
}

// Wished delivers a value when TakeWishes may have something new.
func (s *Set) Wished() <-chan struct{} { return s.wished }

// TakeWishes returns the changes of in-sync sets that leaders here ask for and nobody has taken yet, at most so many, the oldest
// first.
func (s *Set) TakeWishes(most int) []Wish {
	s.wishing.Lock()
	defer s.wishing.Unlock()
	n := min(most, len(s.wishes))
	taken := s.wishes[:n:n]
	if s.wishes = s.wishes[n:]; len(s.wishes) == 0 {
		s.wishes = nil
	}
	return taken
}

// wish hands a wish over.
func (s *Set) wish(w Wish) {
	s.wishing.Lock()
	s.wishes = append(s.wishes, w)
	s.wishing.Unlock()
	select {
	case s.wished <- struct{}{}:
	default:
	}
}

// OnRole sets the function that is told of every partition whose role here has begun or ended, or whose disk has failed. It
// is called with no lock held, one call at a time for a partition in most cases, and must not wait: it asks the partition
// what it is now. Set it before the first Apply.
func (s *Set) OnRole(f func(*Partition)) { s.onRole = f }

func (s *Set) tellRole(p *Partition) {
	if s.onRole != nil {
		s.onRole(p)
	}
}

// Partition returns a partition by name. Errors: UNKNOWN_TOPIC_OR_PARTITION, or NOT_LEADER_OR_FOLLOWER when it lies on
// other nodes only.
func (s *Set) Partition(tp kafka.TopicPartition) (*Partition, error) {
	s.mu.RLock()
	var p *Partition
	if t := s.byName[tp.Topic]; t != nil {
		p = t.partitions[tp.Partition]
	}
	s.mu.RUnlock()
	if p != nil {
		return p, nil
	}
	if _, _, exists := s.image.Load().Topics.Partition(tp); exists {
		return nil, fmt.Errorf("%s has no replica on node %d: %w", tp, s.o.NodeID, kerr.NotLeaderForPartition)
	}
	return nil, fmt.Errorf("%s does not exist: %w", tp, kerr.UnknownTopicOrPartition)
}

// ByID returns a partition by topic id. Errors: UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER.
func (s *Set) ByID(id kafka.TopicID, partition int32) (*Partition, error) {
	s.mu.RLock()
	var p *Partition
	if t := s.byID[id]; t != nil {
		p = t.partitions[partition]
	}
	s.mu.RUnlock()
	if p != nil {
		return p, nil
	}
	t, exists := s.image.Load().Topics.ByID(id)
	if !exists {
		return nil, fmt.Errorf("no topic has the id %s: %w", id, kerr.UnknownTopicID)
	}
	return s.Partition(kafka.TopicPartition{Topic: t.Name, Partition: partition})
}

// Partitions returns all partitions that are here, by topic and partition.
func (s *Set) Partitions() []*Partition {
	all := s.unordered()
	slices.SortFunc(all, func(a, b *Partition) int {
		return cmp.Or(strings.Compare(a.tp.Topic, b.tp.Topic), cmp.Compare(a.tp.Partition, b.tp.Partition))
	})
	return all
}

// unordered returns them in any order, for those who only count.
func (s *Set) unordered() []*Partition {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var all []*Partition
	for _, t := range s.byName {
		for _, p := range t.partitions {
			all = append(all, p)
		}
	}
	return all
}

// DropLagging makes every leader here ask for followers to be taken out of the in-sync set that have not caught up for
// lagMax. Call it about every half lagMax.
func (s *Set) DropLagging(lagMax time.Duration) {
	now := s.o.Now()
	for _, p := range s.Partitions() {
		p.dropLagging(now, lagMax)
	}
}

// SetAsideStrays puts folders away that belong to no topic of the image, or have no replica here. Call it before the first
// Apply, which opens folders, with an image that is complete.
func (s *Set) SetAsideStrays(image *metadata.Image) error {
	return s.o.Store.Strays(func(tp kafka.TopicPartition, id kafka.TopicID) bool {
		topic, reg, ok := image.Topics.Partition(tp)
		return ok && slices.Contains(reg.Replicas, s.o.NodeID) && (id.IsZero() || topic.ID == id)
	})
}

// Heard notes a fetch of a follower's session, whatever it reads: what is level with its leader is so still. A fetch of an
// incarnation that is not the registered one says nothing.
func (s *Set) Heard(session *Watch, follower kafka.NodeID, epoch int64) {
	if s.incarnation(follower, epoch) == nil {
		session.fetched.Store(s.o.Now().UnixNano())
	}
}

// incarnation checks that a broker is registered with this epoch.
func (s *Set) incarnation(id kafka.NodeID, epoch int64) error {
	if known := s.brokerEpoch(id); known != epoch || known < 0 {
		return fmt.Errorf("broker %d has epoch %d, the request %d: %w", id, known, epoch, kerr.NotLeaderForPartition)
	}
	return nil
}

// brokerEpoch is the epoch of a broker's registration, -1 if there is none.
func (s *Set) brokerEpoch(id kafka.NodeID) int64 {
	if b, ok := s.image.Load().Cluster.Broker(id); ok {
		return b.Epoch
	}
	return -1
}

// alive tells whether a broker is registered and not fenced.
func (s *Set) alive(id kafka.NodeID) bool {
	b, ok := s.image.Load().Cluster.Broker(id)
	return ok && !b.Fenced
}

func (s *Set) declareMetrics() {
	count := func(which func(p *Partition) bool) func() float64 {
		return func() float64 {
			n := 0
			for _, p := range s.unordered() {
				if which(p) {
					n++
				}
			}
			return float64(n)
		}
	}
	leads := func(p *Partition) bool { _, err := p.leading(kafka.NoEpoch); return err == nil }
	m := s.o.Metrics
	m.GaugeFunc("moldau_partitions_led", "Partitions that this node leads.", count(leads))
	m.GaugeFunc("moldau_partitions_under_replicated", "Partitions led here whose in-sync set lacks a replica.", count(func(p *Partition) bool {
		t := p.target.Load()
		return leads(p) && len(t.isr) < len(t.replicas)
	}))
	m.GaugeFunc("moldau_partitions_under_min_isr", "Partitions led here that refuse acks=all for want of replicas in sync.", count(func(p *Partition) bool {
		t := p.target.Load()
		return leads(p) && len(t.isr) < t.minISR
	}))
	m.GaugeFunc("moldau_partitions_offline", "Partitions here that have no leader or whose disk failed.", count(func(p *Partition) bool {
		return p.target.Load().leader == kafka.NoNode || p.acting.Load().diskErr != nil
	}))
}
