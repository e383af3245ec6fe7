package node

import (
	"fmt"
	"iter"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/quorum"
)

// stream turns what the quorum commits into metadata, and its leadership into the controller's. The quorum calls it from
// one goroutine.
type stream struct{ n *Node }

var _ quorum.Listener = (*stream)(nil)

// Snapshot replaces the image by the snapshot's.
func (s *stream) Snapshot(id quorum.SnapshotID, _ int64, records iter.Seq2[[]byte, error]) error {
	var decoded []metadata.Record
	for bytes, err := range records {
		if err != nil {
			return fmt.Errorf("read metadata snapshot %d-%d: %w", id.EndOffset, id.Epoch, err)
		}
		r, err := metadata.Decode(bytes)
		if err != nil {
			return fmt.Errorf("metadata snapshot %d-%d: %w", id.EndOffset, id.Epoch, err)
		}
		decoded = append(decoded, r)
	}
	return s.n.loader.Snapshot(id.EndOffset-1, id.Epoch, decoded)
}

// Commit applies one committed batch.
func (s *stream) Commit(base kafka.Offset, epoch kafka.Epoch, _ int64, records [][]byte) error {
	decoded := make([]metadata.Record, len(records))
	for i, bytes := range records {
		r, err := metadata.Decode(bytes)
		if err != nil {
			return fmt.Errorf("metadata record at offset %d: %w", base+int64(i), err)
		}
		decoded[i] = r
	}
	return s.n.loader.Commit(base+int64(len(records))-1, epoch, decoded)
}

// Lead makes the controller of this node the active one. Everything that was committed before has been applied, so the
// image is what the cluster is: the moment to begin acting on it.
func (s *stream) Lead(epoch kafka.Epoch) {
	if err := s.n.catchUp(); err != nil {
		s.n.fail(err)
		return
	}
	s.n.controller.Lead(epoch)
	s.n.uplink.Hurry()
}

// Resign ends that.
func (s *stream) Resign(kafka.Epoch) { s.n.controller.Resign() }

// gate keeps subscribers from acting on history: while the log is replayed a topic may come and go many times, and only
// the outcome matters. Once open it passes everything on.
type gate struct {
	subscribers []metadata.Subscriber
	open        bool
}

// Apply passes a change on, once the gate is open.
func (g *gate) Apply(delta *metadata.Delta, image *metadata.Image) {
	if !g.open {
		return
	}
	for _, s := range g.subscribers {
		s.Apply(delta, image)
	}
}

// Open hands everything there is to the subscribers as one change.
func (g *gate) Open(image *metadata.Image) {
	g.open = true
	g.Apply(metadata.Between(metadata.EmptyImage(), image), image)
}

// catchUp opens the gate, the first time only. Folders of topics that were deleted while this node was down are set aside
// before anything is opened.
func (n *Node) catchUp() error {
	if n.gate.open {
		return nil
	}
	image := n.loader.Image()
	if err := n.replicas.SetAsideStrays(image); err != nil {
		return fmt.Errorf("set aside folders of deleted topics: %w", err)
	}
	n.gate.Open(image)
	return nil
}
