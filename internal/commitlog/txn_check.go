package commitlog

import (
	"slices"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

// txnsBelong tells whether the transaction index of a segment is that of its batches. It looks once, at files that an
// earlier run has left: that one is missing does not show otherwise.
func (l *Log) txnsBelong(v *view, sealed bool) (bool, error) {
	if v.txnsBad.Load() {
		return false, nil
	}
	if v.cold.Load() == 0 || v.txnsChecked.Load() {
		return true, nil
	}
	x := newIndexCheck(v.base)
	if err := l.readTxns(v, sealed, x); err != nil {
		return false, err
	}
	w := l.files.window()
	defer l.files.release(w)
	err := v.walk(w, 0, func(h batch.Batch, pos, size int64) (bool, error) {
		if !h.Control() {
			x.passTxn(h)
			return true, nil
		}
		whole, err := v.load(pos, size)
		if err == nil {
			x.passTxn(whole)
		}
		return true, err
	})
	if err != nil {
		return false, err
	}
	belongs := x.txns.fault == "" && len(x.txns.left) == 0
	v.txnsChecked.Store(belongs)
	return belongs, nil
}

// retxn writes the transaction index of a segment anew, and returns how many entries it has. The transactions that
// began before the segment are known from the newest snapshot before it, or from the records since.
func (l *Log) retxn(v *view) (entries int, err error) {
	kept := l.producers
	defer func() { l.producers = kept }()
	from, err := l.snapshotAtOrBefore(v.base)
	if err != nil {
		return 0, err
	}
	var content []byte
	w := l.files.window()
	defer l.files.release(w)
	views := append(slices.Clone(l.sealed), l.active.view)
	for i := range views {
		s := &views[i]
		if s.next <= from || s.base > v.base {
			continue
		}
		err := s.walk(w, 0, func(h batch.Batch, pos, size int64) (bool, error) {
			if h.ProducerID() < 0 || h.BaseOffset() < from {
				return true, nil
			}
			m, err := s.endMarker(h, pos, size)
			if err != nil {
				return false, err
			}
			if t, aborts := l.producers.aborts(h, m); aborts && s.base == v.base {
				content = append(content, t.encode()...)
			}
			l.producers.apply(h, m, 0)
			return true, nil
		})
		if err != nil {
			return 0, err
		}
	}
	path := v.txns.name()
	if len(content) == 0 {
		if err := l.fs.Remove(path); err != nil && !notExist(err) {
			return 0, err
		}
		return 0, nil
	}
	return len(content) / txnWidth, vfs.WriteFileAtomic(l.fs, path, content)
}

// endMarker reads the transaction marker in a batch at pos, of which h is the header: nil if it holds none, or one that cannot be read
// any more, which recovery passes over, too.
func (v *view) endMarker(h batch.Batch, pos, size int64) (*marker, error) {
	if !h.Control() {
		return nil, nil
	}
	whole, err := v.load(pos, size)
	if err != nil {
		return nil, err
	}
	m, err := endMarker(whole)
	if err != nil {
		return nil, nil
	}
	return m, nil
}

// snapshotAtOrBefore sets the producers' state to that of a snapshot on disk, and returns its offset; empty, and the log's
// first, without one.
func (l *Log) snapshotAtOrBefore(offset kafka.Offset) (kafka.Offset, error) {
	for i := len(l.snapshots) - 1; i >= 0; i-- {
		if l.snapshots[i] > offset {
			continue
		}
		content, err := vfs.ReadFile(l.fs, l.snapshotPath(l.snapshots[i]))
		if err != nil && !notExist(err) {
			return 0, err
		}
		if ps, bad := parseSnapshot(content, 0); err == nil && bad == nil {
			l.producers = ps
			return l.snapshots[i], nil
		}
	}
	l.producers = producers{}
	return min(offset, l.firstBaseLocked()), nil
}
