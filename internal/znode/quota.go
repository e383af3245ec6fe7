package znode

import (
	"fmt"
	"strconv"
	"strings"
)

// The nodes by which clients give a part of the tree a quota and see what it holds (Quotas in ZooKeeper). The part's own path stands
// between QuotaRoot and the names.
const (
	QuotaRoot   = "/zookeeper/quota"
	QuotaLimits = "zookeeper_limits"
	QuotaStats  = "zookeeper_stats"
)

// Amount is what a node of a quota says: so many nodes with so many bytes of data; -1, in a limit: any (StatsTrack).
type Amount struct {
	Nodes int
	Bytes int64
}

func (a Amount) String() string { return fmt.Sprintf("count=%d,bytes=%d", a.Nodes, a.Bytes) }

// ParseAmount reads what String writes.
func ParseAmount(text string) (Amount, error) {
	nodes, bytes, ok := strings.Cut(text, ",")
	n, err := strconv.ParseInt(strings.TrimPrefix(nodes, "count="), 10, 32)
	b, err2 := strconv.ParseInt(strings.TrimPrefix(bytes, "bytes="), 10, 64)
	if !ok || err != nil || err2 != nil {
		return Amount{}, fmt.Errorf("invalid string %s", text) // as ZooKeeper says it
	}
	return Amount{int(n), b}, nil
}

// quota is what a part of the tree should hold at most, and what it holds. Whoever exceeds it is not stopped: the log tells.
type quota struct{ most, holds Amount }

// quotaOf takes a path below QuotaRoot apart: the part of the tree that it is about, and which of the nodes it is.
func quotaOf(path string) (part, name string, ok bool) {
	rest, ok := strings.CutPrefix(path, QuotaRoot)
	at := strings.LastIndexByte(rest, '/')
	if !ok || at <= 0 { // one of the whole tree counts nothing, as in ZooKeeper
		return "", "", false
	}
	return rest[:at], rest[at+1:], true
}

// findQuotas counts what every part with a quota holds.
func (s *shard) findQuotas() {
	s.quotas = map[string]*quota{}
	for path, n := range s.tree.nodes {
		if part, name, ok := quotaOf(path); ok && name == QuotaLimits {
			s.setQuota(part, n.data)
		}
	}
}

// setQuota begins to count what a part holds. Limits that cannot be read limit nothing.
func (s *shard) setQuota(part string, limits []byte) {
	most, err := ParseAmount(string(limits))
	if err != nil {
		most = Amount{-1, -1}
	}
	q := &quota{most: most, holds: s.tree.holds(part)}
	s.quotas[part] = q
	s.showQuota(part, q)
}

// holds counts a node and all below it.
func (t *tree) holds(path string) (a Amount) {
	n := t.nodes[path]
	if n == nil {
		return Amount{}
	}
	a = Amount{1, int64(len(n.data))}
	for name := range n.children {
		child := t.holds(below(path, name))
		a.Nodes += child.Nodes
		a.Bytes += child.Bytes
	}
	return a
}

// showQuota lets clients see what a part holds. That is no transaction: it follows from those that there are.
func (s *shard) showQuota(part string, q *quota) {
	path := below(QuotaRoot+part, QuotaStats)
	if old := s.tree.nodes[path]; old != nil {
		n := *old
		n.data = []byte(q.holds.String())
		s.tree.put(path, &n)
	}
}

// accountable reports whether a step may change what a part with a quota holds, or its quota.
func (s *shard) accountable(e entry) bool {
	switch e.kind {
	case entryCreate, entryData, entryDelete: // before all of the tree is here, nothing is counted
		return s.quotas != nil && (len(s.quotas) > 0 || strings.HasPrefix(e.path, QuotaRoot))
	}
	return false
}

// own is a node without what is below it.
func (t *tree) own(path string) Amount {
	if n := t.nodes[path]; n != nil {
		return Amount{1, int64(len(n.data))}
	}
	return Amount{}
}

// account follows a step that has been made. before is what there was of its node.
func (s *shard) account(e entry, before Amount) {
	if part, name, ok := quotaOf(e.path); ok {
		switch {
		case name == QuotaLimits && e.kind == entryDelete:
			delete(s.quotas, part)
		case name == QuotaLimits:
			s.setQuota(part, e.data)
		case name == QuotaStats && s.quotas[part] != nil:
			s.showQuota(part, s.quotas[part])
		}
		return
	}
	after := s.tree.own(e.path)
	nodes, bytes := after.Nodes-before.Nodes, after.Bytes-before.Bytes
	for part := e.path; part != "/"; part, _ = split(part) {
		q := s.quotas[part]
		if q == nil {
			continue
		}
		q.holds.Nodes += nodes
		q.holds.Bytes += bytes
		s.showQuota(part, q)
		if nodes > 0 && q.most.Nodes >= 0 && q.holds.Nodes > q.most.Nodes || bytes > 0 && q.most.Bytes >= 0 && q.holds.Bytes > q.most.Bytes {
			s.c.o.Logger.Warn("a quota of the ZooKeeper tree is exceeded", "path", part, "holds", q.holds.String(), "limit", q.most.String())
		}
		return
	}
}
