package znode

import (
	"cmp"
	"maps"
	"slices"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// shard is the tree and its sessions: the state of the one partition of Topic.
type shard struct {
	c           *Coordinator
	tree        tree
	sessions    map[int64]*session
	lastSession int64 // the highest id that a session has got
	zxid        int64 // of the last transaction
	mirror      mirror
	snapshot    snapshot

	// Not stored.
	clients  map[uint64]*Client
	watches  watches
	speaking []*Client         // have been told something in this turn
	quotas   map[string]*quota // by the part of the tree; nil until all of it is here
	asking   *Client           // whose request the turn is for; it looks itself for what it was told
}

var _ coordinator.Machine = (*shard)(nil)

func newShard(c *Coordinator) *shard {
	return &shard{
		c: c, tree: newTree(), sessions: map[int64]*session{}, clients: map[uint64]*Client{},
		watches: watches{data: watchTable{}, child: watchTable{}}, mirror: newMirror(c.o.ClusterID),
	}
}

// Replay applies one record.
func (s *shard) Replay(r coordinator.Record) error {
	kind, h, entries, err := readRecord(r)
	if err != nil {
		return err
	}
	switch kind {
	case kindTransaction:
		s.zxid = int64(r.Offset) + 1
		s.mirror.shown = max(s.mirror.shown, kafka.Offset(h.metadata))
		s.snapshot.since += len(r.Value)
	case kindSnapshotBegin:
		s.zxid = max(s.zxid, h.zxid)
		s.lastSession = max(s.lastSession, h.sessions)
		s.mirror.shown = max(s.mirror.shown, kafka.Offset(h.metadata))
		s.snapshot.since, s.snapshot.size = 0, 0
	}
	if kind != kindTransaction {
		s.snapshot.size += len(r.Value)
	}
	for _, e := range entries {
		s.apply(e, kind == kindTransaction)
	}
	return nil
}

// Mark is a transaction of nothing.
func (s *shard) Mark() coordinator.Record {
	return newRecord(kindTransaction, appendHeader(nil, header{metadata: noMetadataOffset}))
}

// apply makes one step of a record. A snapshot's are no news: whoever is here knows them.
func (s *shard) apply(e entry, news bool) {
	accountable := news && s.accountable(e)
	var before Amount
	if accountable {
		before = s.tree.own(e.path)
	}
	switch e.kind {
	case entryCreate:
		s.tree.put(e.path, &node{stat: e.stat, acl: e.acl, data: e.data, view: e.view})
		if ses := s.sessions[e.stat.owner]; ses != nil {
			ses.ephemerals[e.path] = struct{}{}
		}
	case entryData:
		n := *s.tree.get(e.path)
		n.stat, n.data = e.stat, e.data
		s.tree.put(e.path, &n)
	case entryACL:
		n := s.tree.get(e.path)
		n.stat, n.acl = e.stat, e.acl
	case entryChild:
		s.tree.get(e.path).stat = e.stat
	case entryDelete:
		if n := s.tree.nodes[e.path]; n != nil {
			if ses := s.sessions[n.owner]; ses != nil {
				delete(ses.ephemerals, e.path)
			}
			s.tree.remove(e.path)
		}
	case entryView:
		s.tree.get(e.path).view = e.view
	case entrySession:
		s.applySession(e.session)
	case entrySessionEnd:
		delete(s.sessions, e.session.id)
	}
	if accountable {
		s.account(e, before)
	}
	if news {
		s.announce(e)
	}
}

func (s *shard) applySession(r sessionRecord) {
	s.lastSession = max(s.lastSession, r.id)
	if ses := s.sessions[r.id]; ses != nil {
		ses.sessionRecord = r
		return
	}
	s.sessions[r.id] = &session{sessionRecord: r, ephemerals: map[string]struct{}{}}
}

// announce fires the watches of a step.
func (s *shard) announce(e entry) {
	switch e.kind {
	case entryCreate:
		s.fire(NodeCreated, e.path)
	case entryData:
		s.fire(NodeDataChanged, e.path)
	case entryDelete:
		s.fire(NodeDeleted, e.path)
	case entryChild:
		s.fire(NodeChildrenChanged, e.path)
	}
}

// Loaded gives every session its whole timeout, and waits for the metadata to be as new as the views are. The timeout runs from when
// no earlier leader can tell a client any more that it lives: one that has not heard of its fall may do so for its lease.
func (s *shard) Loaded(t *coordinator.Turn) {
	defer s.flush(t)
	s.findQuotas()
	for _, ses := range s.sortedSessions() {
		s.expect(t, ses, s.c.o.Runtime.Elapsed()+s.c.o.Runtime.Lease)
	}
	s.show(t, nil, s.c.o.Image())
}

// Unloaded cuts every connection: the clients look for the node that has the tree now.
func (s *shard) Unloaded(t *coordinator.Turn) {
	for _, c := range s.sortedClients() {
		c.cut()
		c.session = nil
	}
	s.c.serves(s, false)
}

func (s *shard) sortedSessions() []*session {
	return slices.SortedFunc(maps.Values(s.sessions), func(a, b *session) int { return cmp.Compare(a.id, b.id) })
}

func (s *shard) sortedClients() []*Client {
	return slices.SortedFunc(maps.Values(s.clients), func(a, b *Client) int { return cmp.Compare(a.id, b.id) })
}
