package replica

import (
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/commitlog"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/storage"
)

// Apply brings the partitions of this node into line with new metadata. It never waits for a disk: it refuses what is
// over at once and leaves folders, logs and roles to the Store's workers. Call it from one goroutine.
func (s *Set) Apply(delta *metadata.Delta, image *metadata.Image) {
	before := s.image.Swap(image)
	for _, t := range delta.DeletedTopics() {
		for partition := range t.Partitions.All() {
			s.remove(t.ID, partition)
			s.movers.forget(kafka.TopicPartition{Topic: t.Name, Partition: partition})
		}
	}
	for _, change := range delta.ChangedTopics() {
		set := s.settings(image, change.After.Name)
		for _, partition := range change.Partitions {
			reg, ok := change.After.Partitions.Get(partition)
			if ok && slices.Contains(reg.Replicas, s.o.NodeID) {
				s.put(change.After, partition, reg, set)
			} else {
				s.remove(change.After.ID, partition)
			}
		}
	}
	s.applyConfigs(delta, image)
	s.welcome(delta, before, image)
	s.begun = true
}

// welcome has leaders ask again for followers whose broker has come into service: an idle partition is not fetched a second
// time, so that nothing else would remind its leader.
func (s *Set) welcome(delta *metadata.Delta, before, image *metadata.Image) {
	var back []kafka.NodeID
	for _, id := range delta.ChangedBrokers() {
		if id != s.o.NodeID && !before.Cluster.Active(id) && image.Cluster.Active(id) {
			back = append(back, id)
		}
	}
	if len(back) == 0 {
		return
	}
	for _, p := range s.Partitions() {
		p.wishToAdd(back)
	}
}

// applyConfigs gives new settings to the topics that they concern.
func (s *Set) applyConfigs(delta *metadata.Delta, image *metadata.Image) {
	all := false
	var names []string
	for _, resource := range delta.ChangedConfigs() {
		switch resource.Type {
		case metadata.ConfigTopic:
			names = append(names, resource.Name)
		case metadata.ConfigBroker:
			all = true // the defaults of every topic
		}
	}
	if all {
		names = nil
		for name := range image.Topics.All() {
			names = append(names, name)
		}
	}
	for _, name := range names {
		t, ok := image.Topics.ByName(name)
		if !ok {
			continue
		}
		set := s.settings(image, name)
		for partition, reg := range t.Partitions.All() {
			if slices.Contains(reg.Replicas, s.o.NodeID) {
				s.put(t, partition, reg, set)
			}
		}
	}
}

// settings is what a topic's configuration means for its partitions. Working it out is dear enough to do once per topic.
type settings struct {
	log    commitlog.Config
	minISR int
}

func (s *Set) settings(image *metadata.Image, topic string) settings {
	overrides := image.Configs.Topic(topic)
	return settings{log: s.o.LogConfig(topic, overrides), minISR: s.o.MinInSync(topic, overrides)}
}

// openAgain tries the partitions whose log could not be opened for lack of space.
func (s *Set) openAgain() {
	for _, p := range s.Partitions() {
		if a := p.acting.Load(); a.log == nil && a.diskErr != nil {
			s.o.Store.Run(p.tp, p.reconcile)
		}
	}
}

// put makes a partition be here as reg says.
func (s *Set) put(t *metadata.Topic, partition int32, reg *metadata.PartitionRegistration, set settings) {
	next := &target{
		leader:      reg.Leader,
		leaderEpoch: reg.LeaderEpoch,
		epoch:       reg.PartitionEpoch,
		replicas:    reg.Replicas,
		isr:         reg.ISR,
		elr:         reg.ELR,
		relied:      slices.Contains(reg.ISR, s.o.NodeID) || slices.Contains(reg.ELR, s.o.NodeID) || slices.Contains(reg.LastKnownELR, s.o.NodeID),
		dir:         reg.Directory(s.o.NodeID),
		minISR:      min(set.minISR, len(reg.Replicas)),
		config:      set.log,
	}
	p := s.place(t.Name, t.ID, partition, next)
	p.retarget(next)
	run := s.o.Store.Run
	if p.acting.Load().hasRole { // all that is left needs no disk, and should not wait until thousands of others have been opened
		run = s.o.Store.RunFirst
	}
	run(p.tp, p.reconcile)
}

// place returns the partition, made if it is not here yet.
func (s *Set) place(name string, id kafka.TopicID, partition int32, first *target) *Partition {
	s.mu.Lock()
	defer s.mu.Unlock()
	here := s.byID[id]
	if here == nil {
		here = &topic{name: name, id: id, partitions: map[int32]*Partition{}}
		s.byID[id], s.byName[name] = here, here
	}
	p := here.partitions[partition]
	if p == nil {
		p = &Partition{set: s, tp: kafka.TopicPartition{Topic: name, Partition: partition}, id: id, fresh: s.begun, opened: make(chan struct{})}
		p.target.Store(first)
		p.acting.Store(&acting{leader: kafka.NoNode})
		here.partitions[partition] = p
	}
	return p
}

// remove ends a partition here: its topic is deleted, or it has moved to other nodes.
func (s *Set) remove(id kafka.TopicID, partition int32) {
	s.mu.Lock()
	here := s.byID[id]
	var p *Partition
	if here != nil {
		p = here.partitions[partition]
		delete(here.partitions, partition)
		if len(here.partitions) == 0 {
			delete(s.byID, id)
			if s.byName[here.name] == here {
				delete(s.byName, here.name)
			}
		}
	}
	s.mu.Unlock()
	if p == nil {
		return
	}
	next := *p.target.Load()
	next.gone = true
	p.retarget(&next)
	s.o.Store.Run(p.tp, p.reconcile)
}

// retarget swaps what the metadata want and acts on what needs no disk: waiters of an epoch that is over are woken, and a
// new in-sync set counts at once.
func (p *Partition) retarget(next *target) {
	p.mu.Lock()
	old := p.target.Swap(next)
	if next.leader == p.set.o.NodeID && (old == next || old.leaderEpoch != next.leaderEpoch) { // old is next for a partition just made
		p.set.waitedInVain.Store(false)
	}
	if old.epoch != next.epoch || old.leaderEpoch != next.leaderEpoch {
		p.wish = nil // answered, or out of date
	}
	if next.gone || old.leaderEpoch != next.leaderEpoch || old.leader != next.leader {
		err := kerr.NotLeaderForPartition
		if next.gone {
			err = kerr.UnknownTopicOrPartition
		}
		chains := p.failAllLocked(fmt.Errorf("%s has moved on to leader epoch %d: %w", p.tp, next.leaderEpoch, err))
		p.mu.Unlock()
		releaseAll(chains)
		return
	}
	var chain, low *Waiter
	a, err := p.leading(kafka.NoEpoch)
	if err == nil {
		p.wishAgainLocked(a, next)
		chain = p.advanceLocked(a)
		low = p.forLowWatermark.reach(p.lowWatermarkLocked(a))
	}
	p.mu.Unlock()
	if err == nil {
		a.log.NoteChange()
	}
	release(chain)
	release(low)
}

// reconcile does what retarget left: it runs on a worker, one at a time for a partition name, and always acts on the
// newest target.
func (p *Partition) reconcile() {
	a := p.acting.Load()
	if a.finished {
		return
	}
	t := p.target.Load()
	if t.gone {
		p.leave()
		return
	}
	log := a.log
	if log == nil {
		var err error
		open := p.set.o.Store.Reopen
		if p.fresh {
			open = p.set.o.Store.Open
		}
		log, err = open(p.tp, p.id, p.set.movers.place(p.tp, t.dir), t.config)
		if err != nil {
			p.set.o.Logger.Error("partition can not be opened", "partition", p.tp.String(), "error", err)
			p.failed(err)
			p.markOpened()
			return
		}
		p.hold(log)
		p.listen(log)
		p.checkDisk(log)
	}
	log.SetConfig(t.config)
	if future := p.future.Load(); future != nil {
		future.SetConfig(t.config)
	}
	if p.set.o.FlushBeforeAck && !a.hasRole && log.SyncedEnd() < log.LogEnd() && log.Dir().Err() == nil {
		return // recovered is not yet durable: synced comes back here
	}
	began := p.begin(log)
	p.set.tellPlace(p)
	if began {
		p.set.tellRole(p)
		p.resume()
	}
}

// begin puts the role in force that the metadata want now. It returns whether that is another one than before.
func (p *Partition) begin(log *storage.Log) bool {
	p.role.Lock()
	defer p.role.Unlock()
	t, a := p.target.Load(), p.acting.Load()
	if t.gone || a.hasRole && a.log == log && a.epoch == t.leaderEpoch && a.leader == t.leader {
		return false
	}
	next := &acting{log: log, leader: t.leader, leading: t.leader == p.set.o.NodeID, epoch: t.leaderEpoch, hasRole: true}
	next.start, next.began = log.LogEnd(), p.set.o.Now()
	if next.leading {
		log.AssignEpochStart(t.leaderEpoch, next.start)
	}
	p.take(next)
	p.markOpened()
	return true
}

// hold keeps an opened log until there is a role for it.
func (p *Partition) hold(log *storage.Log) {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := *p.acting.Load()
	next.log, next.diskErr = log, nil // one of an earlier try to open it
	p.highWatermark.Store(log.StoredHighWatermark())
	p.acting.Store(&next)
}

// take puts a role in force. The caller holds role.
func (p *Partition) take(next *acting) {
	log := next.log
	p.mu.Lock()
	if next.diskErr = p.acting.Load().diskErr; next.diskErr == nil { // a directory that failed stays so
		next.diskErr = log.Dir().Err() // and whoever sees the role knows
	}
	p.progress = map[kafka.NodeID]*progress{}
	p.wish = nil
	p.acting.Store(next)
	if next.leading {
		p.led.Store(true)
	}
	chain := p.advanceLocked(next)
	p.markLocked(everyKind)
	p.mu.Unlock()
	log.NoteChange()
	release(chain)
}

// leave gives up the log.
func (p *Partition) leave() {
	defer p.set.tellRole(p)
	p.role.Lock()
	defer p.role.Unlock()
	p.mu.Lock()
	a := p.acting.Load()
	p.acting.Store(&acting{leader: kafka.NoNode, finished: true})
	chains := p.failAllLocked(fmt.Errorf("%s: %w", p.tp, kerr.UnknownTopicOrPartition))
	p.mu.Unlock()
	releaseAll(chains)
	p.markOpened()
	err := p.set.o.Store.DiscardCopies(p.tp)
	if future := p.future.Swap(nil); future != nil {
		err = errors.Join(err, p.set.o.Store.Delete(future))
	}
	if a.log != nil {
		err = errors.Join(err, p.set.o.Store.Delete(a.log))
	} else {
		err = errors.Join(err, p.set.o.Store.DeleteClosed(p.tp, p.id))
	}
	if err != nil {
		p.set.o.Logger.Error("partition's folder can not be deleted", "partition", p.tp.String(), "error", err)
	}
}

func (p *Partition) markOpened() {
	select {
	case <-p.opened:
	default:
		close(p.opened) // only the worker closes it, one job at a time
	}
}
