package commitlog

import (
	"math"
	"time"

	"moldau/internal/kafka"
)

// Compactable tells what Compact would find.
type Compactable struct {
	FirstDirty, End        kafka.Offset // it would bring [FirstDirty, End) in
	CleanBytes, DirtyBytes int64        // of segments below FirstDirty, and of those that begin or go on in the range
	Overdue                bool         // a record has waited for longer than max.compaction.lag.ms
}

// Ratio is the part of the log that compaction has not seen, as min.cleanable.dirty.ratio is compared with it; 0 if there
// is nothing to do.
func (c Compactable) Ratio() float64 {
	if c.DirtyBytes == 0 {
		return 0
	}
	return float64(c.DirtyBytes) / float64(c.CleanBytes+c.DirtyBytes)
}

// Compactable looks at which segments can be compacted now. A firstDirty that lies outside of the log counts as the log
// start. Excluded are the active segment, everything from the last stable offset on, segments with records younger
// than min.compaction.lag.ms, and what is not below the recovery point that the next Open is given: behind that a missing record means
// a lost one, and it has to lie between two batches.
// Mirrors LogCleanerManager.cleanableOffsets.
func (l *Log) Compactable(firstDirty kafka.Offset, now time.Time) (found Compactable, err error) {
	l.mu.Lock()
	cfg, recoveryPoint := l.cfg(), min(l.recoveryPoint, l.stored)
	l.mu.Unlock()
	limit := min(recoveryPoint, l.deletionBound.Load())
	if stable := l.LastStable(); stable >= 0 {
		limit = min(limit, stable)
	}
	err = l.lookup(func(b *Bounds, w *window) error {
		found, err = l.compactable(b, w, cfg, firstDirty, limit, now.UnixMilli())
		return err
	})
	return found, err
}

func (l *Log) compactable(b *Bounds, w *window, cfg *Config, firstDirty, limit kafka.Offset, nowMs int64) (Compactable, error) {
	if firstDirty < b.LogStart || firstDirty > b.LogEnd {
		firstDirty = b.LogStart
	}
	c := Compactable{FirstDirty: firstDirty, End: firstDirty}
	for i := range b.sealed {
		v := &b.sealed[i]
		if v.next > limit {
			break
		}
		if v.next <= firstDirty {
			c.CleanBytes += v.size
			continue
		}
		if cfg.MinCompactionLagMs > 0 {
			newest, err := l.newestMs(v, w, true)
			if err != nil {
				return c, err
			}
			if newest > nowMs-cfg.MinCompactionLagMs {
				break
			}
		}
		if cfg.MaxCompactionLagMs < math.MaxInt64 && !c.Overdue {
			first, err := v.firstTimestamp(w)
			if err != nil {
				return c, err
			}
			c.Overdue = first > 0 && first < nowMs-max(0, cfg.MaxCompactionLagMs)
		}
		c.DirtyBytes += v.size
		c.End = v.next
	}
	return c, nil
}
