package znode

import (
	"maps"
	"slices"

	"moldau/internal/coordinator"
)

// changes is where tools tell Kafka's brokers that settings have changed. Nobody here needs to be told, and as in Kafka the
// notes are deleted when they are old and another comes (ZkNodeChangeNotificationListener).
const (
	changes     = "/config/changes"
	changesMs   = 15 * 60 * 1000
	changesEach = 1000 // deleted at a time
)

// purge deletes old notes. What cannot be deleted now is the next time.
func (s *shard) purge(t *coordinator.Turn) {
	n := s.tree.nodes[changes]
	if n == nil {
		return
	}
	x := s.begin(t)
	for _, name := range slices.Sorted(maps.Keys(n.children)) {
		path := below(changes, name)
		if note := s.tree.nodes[path]; note.ctime < t.NowMs()-changesMs && len(note.children) == 0 && len(x.done) < changesEach {
			x.remove(path)
			x.next()
		}
	}
	if err := x.commit(t); err != nil {
		s.c.o.Logger.Warn("old notes of changed settings stay", "path", changes, "error", err)
	}
}
