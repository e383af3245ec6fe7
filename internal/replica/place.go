package replica

import (
	"cmp"
	"slices"
	"strings"

	"moldau/internal/kafka"
	"moldau/internal/storage"
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
		if t.gone || a.finished || a.log == nil || a.log.Dir().ID() == t.dir || p.isDisplaced(t, a.log) {
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

// tellPlace notes where a partition lies, if the metadata do not know. Only reconcile calls it.
func (s *Set) tellPlace(p *Partition) {
	t, a := p.target.Load(), p.acting.Load()
	displaced := !t.gone && a.log != nil && p.isDisplaced(t, a.log)
	if displaced && !p.displaced {
		s.o.Logger.Error("replica lies in another directory than the metadata say, and that one is not here any more; put its records back "+
			"under the directory id that the metadata know, or let the replica be made anew by removing its folder",
			"partition", p.tp.String(), "directory", a.log.Dir().Path(), "metadataDirectoryID", t.dir)
	}
	p.displaced = displaced
	if displaced || t.gone || a.log == nil || a.log.Dir().ID() == t.dir {
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

// isDisplaced tells whether a replica must not say where it lies. One whose directory is gone is taken for one that begins anew, and
// loses its seat among those that can be elected: if it has its records, and is relied on, it must not say what would be taken for
// that. One that nobody relies on has nothing to lose: it may have been made on a new disk in an earlier run, which ended before
// the controller heard of it. The controller lets it into the in-sync set only when it has said where it lies.
// One that has left, in this run, a directory that failed afterwards has brought its records along, and the controller knows from
// the heartbeats of this run that it was so.
func (p *Partition) isDisplaced(t *target, log *storage.Log) bool {
	return t.relied && !log.Made() && !p.moved.Load() && log.Dir().ID() != t.dir && !p.set.mayBeIn(t.dir)
}

// mayBeIn tells whether a replica here can be in the directory that the metadata name: it is one of this node's, or no
// directory at all.
func (s *Set) mayBeIn(id kafka.DirID) bool {
	if id == kafka.DirUnassigned || id == kafka.DirMigrating {
		return true
	}
	return slices.ContainsFunc(s.o.Store.Directories(), func(d *storage.Directory) bool { return d.ID() == id && d.Online() })
}
