package znode

import (
	"maps"
	"slices"
	"time"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

// mirror is how far the tree shows the cluster.
type mirror struct {
	views   *Views
	shown   kafka.Offset // of the metadata that the log says the tree shows
	applied kafka.Offset // of those that it does show; nothing is served before that is known
	serving bool
	behind  bool // a change could not be stored: all views are to be compared
	retry   coordinator.Timer
	waiting []*order // for metadata that have not come
}

func newMirror(id string) mirror {
	return mirror{views: NewViews(id), shown: noMetadataOffset, applied: noMetadataOffset}
}

// show brings the views in line with an image. Metadata that are older than what the log says are not shown: what clients
// have seen does not go back. delta nil: what has changed is not known.
func (s *shard) show(t *coordinator.Turn, delta *metadata.Delta, image *metadata.Image) {
	m := &s.mirror
	if image.Offset < m.shown || m.serving && !m.behind && image.Offset <= m.applied {
		return
	}
	source := Source{Image: image, Controller: s.c.o.Controller(), NowMs: t.NowMs()}
	x := s.begin(t)
	x.header.metadata = int64(image.Offset)
	if delta == nil || m.behind || !m.serving || delta.Base().Offset != m.applied {
		x.showAll(m.views.All(source))
	} else {
		for _, change := range m.views.Changes(delta, source) {
			if change.Gone {
				x.unshow(change.Path)
			} else {
				x.show(change.View)
			}
		}
	}
	if err := x.commit(t); err != nil {
		s.c.o.Logger.Warn("changes of the cluster cannot be stored for ZooKeeper clients; trying again", "error", err)
		m.behind = true
		t.After(&m.retry, time.Second, func(t *coordinator.Turn) {
			s.show(t, nil, s.c.o.Image())
			s.flush(t)
		})
		return
	}
	m.behind, m.applied = false, image.Offset
	if !m.serving {
		m.serving = true
		s.c.serves(s, true)
	}
	waiting := m.waiting
	m.waiting = nil
	for _, o := range waiting {
		s.finish(t, o)
	}
}

// showAll makes the views those that are given.
func (x *transaction) showAll(views []View) {
	wanted := make(map[string]bool, len(views))
	for _, v := range views {
		wanted[v.Path] = true
	}
	var gone []string
	for path, n := range x.s.tree.nodes {
		if n.view && !wanted[path] {
			gone = append(gone, path)
		}
	}
	slices.Sort(gone)
	for _, path := range slices.Backward(gone) {
		x.unshow(path)
	}
	for _, v := range views {
		x.show(v)
	}
}

// show writes one view, if the node does not show it already.
func (x *transaction) show(v View) {
	d := x.find(v.Path)
	if d != nil && d.owner != v.Owner { // another incarnation
		x.removeAll(v.Path)
		d = nil
	}
	if d == nil {
		x.put(v.Path, v.Data, nil, v.Owner, true)
		x.next()
		return
	}
	if !v.Same(d.data, d.owner) {
		x.replace(v.Path, d, v.Data)
	}
	if !d.view { // a client made it
		d.view = true
		x.add(entry{kind: entryView, path: v.Path, view: true})
	}
	x.next()
}

// unshow takes a node out that the cluster does not give any more.
func (x *transaction) unshow(path string) {
	if d := x.find(path); d != nil && d.view {
		x.removeAll(path)
	}
}

// removeAll takes a node out, and before it all that is below, each in a transaction of its own.
func (x *transaction) removeAll(path string) {
	if n := x.s.tree.nodes[path]; n != nil {
		for _, name := range slices.Sorted(maps.Keys(n.children)) {
			if child := below(path, name); x.find(child) != nil {
				x.removeAll(child)
			}
		}
	}
	x.remove(path)
	x.next()
}
