package metadata

import (
	"fmt"
	"sync/atomic"

	"moldau/internal/invariant"
	"moldau/internal/kafka"
)

// Subscriber is told of every change of the published image. Apply must not wait for a disk or a network, and must not
// change anything that delta or image hold.
type Subscriber interface {
	Apply(delta *Delta, image *Image)
}

// Loader turns the committed metadata log into images and hands them to subscribers, in a fixed order.
type Loader struct {
	subscribers []Subscriber
	published   atomic.Pointer[Image]

	// Inside a metadata transaction (KIP-868) records are held back; the published image stays as it was at its begin.
	inTransaction bool
	held          []Record
}

// NewLoader returns a loader with the empty image. Subscribers are called in the order given.
func NewLoader(subscribers ...Subscriber) *Loader {
	l := &Loader{subscribers: subscribers}
	l.published.Store(EmptyImage())
	return l
}

// Image returns the newest published image, which subscribers may not have seen yet.
func (l *Loader) Image() *Image { return l.published.Load() }

// Commit applies the records of one committed batch, whose last record has the given offset. Records at or before the
// published image's offset are skipped, so that a replay after a snapshot may start too early.
func (l *Loader) Commit(lastOffset kafka.Offset, epoch kafka.Epoch, records []Record) error {
	base := l.Image()
	if lastOffset <= base.Offset {
		return nil
	}
	if skip := base.Offset - (lastOffset - int64(len(records))); skip > 0 {
		records = records[skip:]
	}
	delta := NewDelta(base)
	for i, r := range records {
		if err := l.replay(delta, r); err != nil {
			return fmt.Errorf("apply metadata record at offset %d: %w", lastOffset-int64(len(records)-1-i), err)
		}
	}
	l.publish(delta, delta.Image(lastOffset, epoch))
	return nil
}

func (l *Loader) replay(delta *Delta, r Record) error {
	switch r.(type) {
	case *BeginTransactionRecord:
		if l.inTransaction {
			return fmt.Errorf("a metadata transaction begins inside another")
		}
		l.inTransaction = true
		return nil
	case *AbortTransactionRecord:
		if !l.inTransaction {
			return fmt.Errorf("a metadata transaction aborts that never began")
		}
		l.inTransaction, l.held = false, nil
		return nil
	case *EndTransactionRecord:
		if !l.inTransaction {
			return fmt.Errorf("a metadata transaction ends that never began")
		}
		held := l.held
		l.inTransaction, l.held = false, nil
		for _, r := range held {
			if err := delta.Replay(r); err != nil {
				return err
			}
		}
		return nil
	}
	if l.inTransaction {
		l.held = append(l.held, r)
		return nil
	}
	return delta.Replay(r)
}

// Snapshot replaces the published image by what the records of a snapshot state. Offset is the last one that the
// snapshot contains.
func (l *Loader) Snapshot(offset kafka.Offset, epoch kafka.Epoch, records []Record) error {
	fresh := NewDelta(EmptyImage())
	for i, r := range records {
		if err := fresh.Replay(r); err != nil {
			return fmt.Errorf("apply record %d of the metadata snapshot at %d: %w", i, offset, err)
		}
	}
	base := l.Image()
	invariant.Check(offset >= base.Offset, "snapshot at %d lies before the published image at %d", offset, base.Offset)
	l.inTransaction, l.held = false, nil
	next := fresh.Image(offset, epoch)
	l.publish(Between(base, next), next)
	return nil
}

func (l *Loader) publish(delta *Delta, image *Image) {
	l.published.Store(image)
	for _, s := range l.subscribers {
		s.Apply(delta, image)
	}
}
