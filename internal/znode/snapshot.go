package znode

import (
	"maps"
	"slices"
	"time"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// snapshot is the writing of the whole state anew, so that older records can be deleted. It goes on in small turns while
// the tree changes: a transaction between two parts names all that it changes in full, so that replaying both from the
// snapshot's beginning gives the tree as it is, although a node may come before its parent.
type snapshot struct {
	since int // bytes of transactions since the last one began
	size  int // bytes of the last one

	active bool
	from   kafka.Offset // of its beginning
	left   []string     // paths whose nodes and all below are still to be written; the last is next
	timer  coordinator.Timer
}

// partBytes is how much of the tree is written in one turn, about.
const partBytes = 256 << 10

// partPause is between two parts, so that clients have their turns.
const partPause = time.Millisecond

// considerSnapshot begins a snapshot when the log is several times what the tree needs.
func (s *shard) considerSnapshot(t *coordinator.Turn) {
	snap := &s.snapshot
	if snap.active || snap.since < max(s.c.o.SnapshotBytes, 2*snap.size) {
		return
	}
	from := t.LogEnd()
	b := appendHeader(nil, header{zxid: s.zxid, timeMs: t.NowMs(), metadata: int64(s.mirror.shown), sessions: s.lastSession})
	for _, ses := range s.sortedSessions() {
		b = appendEntry(b, entry{kind: entrySession, session: ses.sessionRecord})
	}
	if err := t.Append(newRecord(kindSnapshotBegin, b)); err != nil {
		s.abandonSnapshot(err)
		return
	}
	snap.active, snap.from, snap.left = true, from, []string{"/"}
	t.After(&snap.timer, partPause, s.writePart)
}

// writePart writes the next nodes.
func (s *shard) writePart(t *coordinator.Turn) {
	defer s.flush(t)
	snap := &s.snapshot
	kind, b := byte(kindSnapshotPart), appendHeader(nil, header{timeMs: t.NowMs(), metadata: noMetadataOffset})
	for len(b) < partBytes {
		path, more := snap.next()
		if !more {
			kind = kindSnapshotEnd
			break
		}
		n := s.tree.nodes[path]
		if n == nil {
			continue // deleted since, as the log tells
		}
		b = appendEntry(b, entry{kind: entryCreate, path: path, stat: n.stat, acl: n.acl, data: n.data, view: n.view})
		for _, name := range slices.Backward(slices.Sorted(maps.Keys(n.children))) {
			snap.left = append(snap.left, below(path, name))
		}
	}
	if err := t.Append(newRecord(kind, b)); err != nil {
		s.abandonSnapshot(err)
		return
	}
	if kind == kindSnapshotPart {
		t.After(&snap.timer, partPause, s.writePart)
		return
	}
	snap.active, snap.left = false, nil
	t.Trim(snap.from)
	s.c.meters.snapshots.Inc()
}

func (snap *snapshot) next() (path string, ok bool) {
	last := len(snap.left) - 1
	if last < 0 {
		return "", false
	}
	path, snap.left = snap.left[last], snap.left[:last]
	return path, true
}

// abandonSnapshot leaves it to a later one. Nothing is deleted.
func (s *shard) abandonSnapshot(err error) {
	s.snapshot.active, s.snapshot.left, s.snapshot.since = false, nil, 0
	s.c.o.Logger.Warn("a snapshot of the ZooKeeper tree cannot be written; the next will be", "error", err)
}
