package node

import (
	"fmt"
	"iter"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/quorum"
	"moldau/internal/xsync"
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
	s.n.controller.Lead(epoch)
	if s.n.uplink != nil {
		s.n.uplink.Hurry()
	}
}

// Resign ends that.
func (s *stream) Resign(kafka.Epoch) { s.n.controller.Resign() }

// gate keeps the broker's parts from acting on history: while the log is replayed a topic may come and go many times, and
// only the outcome matters. It opens when the image has reached this broker's registration, and passes everything on from
// then on.
type gate struct {
	subscribers []metadata.Subscriber
	prepare     func(*metadata.Image) error // called once, with the image that the gate opens with
	fail        func(error)
	id          kafka.NodeID
	unfenced    chan struct{} // closed when the image first says that clients may come to this broker

	mu    xsync.Mutex     // held while prepare works on the disk
	image *metadata.Image // the newest
	from  int64           // the offset to be reached; -1: not known yet
	open  bool
}

func newGate(id kafka.NodeID, prepare func(*metadata.Image) error, fail func(error)) *gate {
	return &gate{id: id, prepare: prepare, fail: fail, unfenced: make(chan struct{}), image: metadata.EmptyImage(), from: -1}
}

// Apply passes a change on, once the gate is open.
func (g *gate) Apply(delta *metadata.Delta, image *metadata.Image) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.image = image
	if g.open {
		g.pass(delta)
		return
	}
	g.openLocked()
}

// OpenAt opens the gate as soon as the image has reached an offset.
func (g *gate) OpenAt(offset int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.from < 0 {
		g.from = offset
	}
	g.openLocked()
}

// openLocked hands everything there is to the subscribers as one change.
func (g *gate) openLocked() {
	if g.open || g.from < 0 || g.image.Offset < g.from {
		return
	}
	if err := g.prepare(g.image); err != nil {
		g.fail(err)
		return
	}
	g.open = true
	g.pass(metadata.Between(metadata.EmptyImage(), g.image))
}

func (g *gate) pass(delta *metadata.Delta) {
	for _, s := range g.subscribers {
		s.Apply(delta, g.image)
	}
	if b, ok := g.image.Cluster.Broker(g.id); ok && !b.Fenced {
		select {
		case <-g.unfenced:
		default:
			close(g.unfenced)
		}
	}
}

// prepare puts folders of topics that were deleted while this node was down aside, before anything is opened.
func (n *Node) prepare(image *metadata.Image) error {
	if err := n.replicas.SetAsideStrays(image); err != nil {
		return fmt.Errorf("set aside folders of deleted topics: %w", err)
	}
	return nil
}
