package replica

import (
	"cmp"
	"slices"
	"strings"

	"moldau/internal/kafka"
)

// Placement says in which directory of this node a replica lies. The controller has to know, so that it can do something
// about the replicas of a directory that fails (KIP-858).
type Placement struct {
	TP      kafka.TopicPartition
	TopicID kafka.TopicID
	Dir     kafka.DirID
}

// Placed delivers a value when Placements may have something new.
func (s *Set) Placed() <-chan struct{} { return s.placed }

// Placements returns the replicas of which the metadata say that they lie elsewhere, or do not say where, in order. They are
// returned until the metadata agree.
func (s *Set) Placements() []Placement {
	s.placing.Lock()
	defer s.placing.Unlock()
	var all []Placement
	for p := range s.unplaced {
		t, a := p.target.Load(), p.acting.Load()
		if t.gone || a.finished || a.log == nil || a.log.Dir().ID() == t.dir {
			delete(s.unplaced, p)
			continue
		}
		all = append(all, Placement{TP: p.tp, TopicID: p.id, Dir: a.log.Dir().ID()})
	}
	slices.SortFunc(all, func(a, b Placement) int {
		return cmp.Or(strings.Compare(a.TP.Topic, b.TP.Topic), cmp.Compare(a.TP.Partition, b.TP.Partition))
	})
	return all
}

// tellPlace notes where a partition lies, if the metadata do not know.
func (s *Set) tellPlace(p *Partition) {
	t, a := p.target.Load(), p.acting.Load()
	if t.gone || a.log == nil || a.log.Dir().ID() == t.dir {
		return
	}
	s.placing.Lock()
	s.unplaced[p] = struct{}{}
	s.placing.Unlock()
	select {
	case s.placed <- struct{}{}:
	default:
	}
}
