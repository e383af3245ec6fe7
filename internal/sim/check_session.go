package sim

import (
	"maps"
	"slices"
	"time"
)

// treeSession is what is known of a session.
type treeSession struct {
	timeout time.Duration
	heard   time.Time // when the last request was sent that it was alive for
	leaves  time.Time // when its client asked for its end; zero: never
	over    int64     // after this transaction it is over; 0: nobody knows
}

func (h *History) sessionBegan(session int64, timeout time.Duration, asked time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.tree.sessions[session] != nil {
		h.faultLocked(sessionsLast, "session %x was given out twice", session)
	}
	h.tree.sessions[session] = &treeSession{timeout: timeout, heard: asked}
}

func (h *History) sessionLeaves(session int64, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tree.sessions[session].leaves = at
}

// sessionOver records that a session is over after a transaction, or was before.
func (h *History) sessionOver(session, zxid int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tree.sessions[session].over = zxid
}

// released records that the owner of a node asks for its end.
func (h *History) released(czxid int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tree.freed[czxid] = true
}

// checkSessionsLocked: what belongs to a session is there for as long as that lasts, which is its timeout at least after its client
// was heard, and not longer. So a partition has one owner at a time: who has not heard for its timeout that it owns it, does not.
func (h *History) checkSessionsLocked(path string, facts []treeFact) {
	owners := make(map[int64]int64) // by czxid
	for _, f := range facts {
		if f.owner == 0 {
			continue
		}
		owners[f.czxid] = f.owner
		if s := h.tree.sessions[f.owner]; s != nil && s.over != 0 && f.zxid >= s.over {
			h.faultLocked(sessionsLast, "%s is there at zxid %d, and its session %x is over since %d", path, f.zxid, f.owner, s.over)
		}
	}
	for _, czxid := range slices.Sorted(maps.Keys(owners)) {
		s := h.tree.sessions[owners[czxid]]
		if s == nil || h.tree.freed[czxid] {
			continue
		}
		for _, f := range facts {
			if f.zxid < czxid || f.czxid == czxid || !s.leaves.IsZero() && !f.at.Before(s.leaves) {
				continue
			}
			if lasts := s.heard.Add(s.timeout); f.at.Before(lasts) {
				h.faultLocked(sessionsLast, "%s of session %x, made by %d, is gone at %d, %v before the session can end", path, owners[czxid], czxid, f.zxid, lasts.Sub(f.at))
				break
			}
		}
	}
}
