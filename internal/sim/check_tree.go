package sim

import (
	"maps"
	"slices"
	"time"
)

// treeHistory is what clients were told of the ZooKeeper tree. Transactions are numbered by their zxid, so that each answer says
// of which moment it is: one of a leader that has been replaced and does not know may be old, but not untrue.
type treeHistory struct {
	floor    int64          // the highest zxid of an acked write
	writes   map[int64]bool // zxids of acked writes
	facts    map[string][]treeFact
	sessions map[int64]*treeSession
	freed    map[int64]bool // czxids of nodes that their owner has asked to delete
	silences []silence
}

func newTreeHistory() treeHistory {
	return treeHistory{writes: make(map[int64]bool), facts: make(map[string][]treeFact), sessions: make(map[int64]*treeSession), freed: make(map[int64]bool)}
}

// treeFact is how a node was after the transaction zxid and all before it.
type treeFact struct {
	zxid int64
	at   time.Time // when that was told
	who  string    // was told it

	there bool
	treeStat
	data    string // "": it was not told
	changed bool   // by this very transaction the node went away
}

// treeKnown is what was known when a request was sent.
type treeKnown struct {
	asked time.Time
	floor int64
}

func (h *History) knownOfTree() treeKnown {
	h.mu.Lock()
	defer h.mu.Unlock()
	return treeKnown{time.Now(), h.tree.floor}
}

// answered draws from an answer what follows from any: zxids grow, and the session was alive when the request came. Of several
// nodes only a write shows that: who has been replaced as the leader does not know it at once, and still answers what it can read.
func (h *History) answered(known treeKnown, session int64, kind int32, zxid int64, good bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answers++
	wrote := good && (kind == opCreate2 || kind == opSetData || kind == opDelete)
	switch {
	case wrote && zxid <= known.floor:
		h.faultLocked(oneTree, "a write has zxid %d, and %d was acked before it was asked for", zxid, known.floor)
	case wrote && h.tree.writes[zxid]:
		h.faultLocked(oneTree, "two writes have zxid %d", zxid)
	case !h.fleet && zxid < known.floor:
		h.faultLocked(oneTree, "an answer has zxid %d, and %d was acked before it was asked for", zxid, known.floor)
	}
	if wrote {
		h.tree.floor = max(h.tree.floor, zxid)
		h.tree.writes[zxid] = true
	}
	if s := h.tree.sessions[session]; s != nil && (wrote || !h.fleet) && kind != opClose {
		s.heard = known.asked
	}
}

// told records what somebody was told of a node.
func (h *History) told(path string, f treeFact) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f.at = time.Now()
	h.tree.facts[path] = append(h.tree.facts[path], f)
	if f.data != "" && !h.attempts[f.data] {
		h.faultLocked(oneTree, "%s holds %q, which nobody has written", path, f.data)
	}
}

// owner is whose a node is, as it was told last.
func (h *History) owner(path string) (czxid, session int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	facts := h.tree.facts[path]
	last := facts[len(facts)-1]
	return last.czxid, last.owner
}

// checkTreeLocked: of each node there is one story that agrees with all that was told. So whatever was acked is there.
func (h *History) checkTreeLocked() {
	for _, path := range slices.Sorted(maps.Keys(h.tree.facts)) {
		facts := h.tree.facts[path]
		slices.SortStableFunc(facts, func(a, b treeFact) int { return int(a.zxid - b.zxid) })
		for i, f := range facts {
			if f.there && (f.czxid > f.mzxid || f.mzxid > f.zxid) {
				h.faultLocked(oneTree, "%s at zxid %d is of %d, and of %d", path, f.zxid, f.czxid, f.mzxid)
			}
			if i > 0 {
				if why := contradicts(facts[i-1], f); why != "" {
					h.faultLocked(oneTree, "%s %s: %s was told %+v, %s was told %+v", path, why, facts[i-1].who, facts[i-1], f.who, f)
				}
			}
		}
		h.checkSessionsLocked(path, facts)
		h.checkWatchesLocked(path, facts)
	}
}

// contradicts tells why a node cannot have been so, and later otherwise; "" if it can.
func contradicts(before, after treeFact) string {
	same := before.there == after.there && before.treeStat == after.treeStat
	switch {
	case same && before.data != "" && after.data != "" && before.data != after.data:
		return "holds something else without having been written"
	case same:
		return ""
	case before.zxid == after.zxid:
		return "is two things at once"
	case !after.there && before.owner == 0:
		return "was acked and is gone"
	case !after.there:
		return ""
	case after.mzxid <= before.zxid:
		return "was otherwise after it was last written"
	case after.czxid != before.czxid && after.czxid <= before.zxid: // of one that was not there it is 0
		return "was otherwise after it was made"
	case after.czxid == before.czxid && after.version <= before.version:
		return "has been written, and its version has not grown"
	}
	return ""
}
