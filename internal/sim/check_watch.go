package sim

// silence is a time in which a watch did not fire: a client that had set it was told of all up to a transaction, and not that the
// node had changed.
type silence struct {
	who, path    string
	since, until int64
}

func (h *History) silent(who, path string, since, until int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if until > since {
		h.tree.silences = append(h.tree.silences, silence{who, path, since, until})
	}
}

// checkWatchesLocked: a watch fires before its client is told of anything that came with the change or after it. That it fires once,
// and for a change, is seen as events come.
func (h *History) checkWatchesLocked(path string, facts []treeFact) {
	for _, s := range h.tree.silences {
		if s.path != path {
			continue
		}
		for _, f := range facts {
			change := f.mzxid
			if f.changed {
				change = f.zxid
			}
			if change > s.since && change <= s.until {
				h.faultLocked(watchesFire, "%s has watched %s since %d, which changed by %d, and was told of %d before it was told of that", s.who, path, s.since, change, s.until)
				break
			}
		}
	}
}
