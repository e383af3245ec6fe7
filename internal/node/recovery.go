package node

import (
	"context"
	"sync/atomic"
	"time"

	"moldau/internal/metadata"
	"moldau/internal/replica"
)

// tellEvery is how often the log says how far the start is.
const tellEvery = 2 * time.Second

// first is the partitions that were here when the node began to act on its metadata. Partitions that are made later are
// nobody's recovery: a large topic must not take the node out of service.
type first struct {
	replicas *replica.Set
	known    chan struct{} // closed when partitions is set
	at       atomic.Pointer[[]*replica.Partition]
	through  atomic.Bool // all of them have been open at one time
}

func newFirst(replicas *replica.Set) *first {
	return &first{replicas: replicas, known: make(chan struct{})}
}

// Apply takes down which partitions there are, at the first change. It comes after the Set's.
func (f *first) Apply(*metadata.Delta, *metadata.Image) {
	if f.at.Load() == nil {
		here := f.replicas.Partitions()
		f.at.Store(&here)
		close(f.known)
	}
}

// opened counts those that still are here, and those of them whose log is open; 0 and 0 when all have been, on a mere
// controller, and before anybody knows.
func (f *first) opened() (done, all int) {
	if f == nil || f.through.Load() || f.at.Load() == nil {
		return 0, 0
	}
	for _, p := range *f.at.Load() {
		if now, err := f.replicas.Partition(p.TopicPartition()); err != nil || now != p {
			continue // deleted since; its log may never be opened
		}
		all++
		select {
		case <-p.Opened():
			done++
		default:
		}
	}
	if done == all {
		f.through.Store(true)
	}
	return done, all
}

// tell writes to the log how far the opening is, as long as it goes on.
func (f *first) tell(ctx context.Context, o Options) {
	select {
	case <-f.known:
	case <-ctx.Done():
		return
	}
	began := o.Now()
	again := time.NewTicker(tellEvery)
	defer again.Stop()
	for _, p := range *f.at.Load() {
		for open := false; !open; {
			select {
			case <-p.Opened():
				open = true
			case <-again.C:
				done, all := f.opened()
				o.Logger.Info("recovering: partitions are being opened", "open", done, "of", all)
			case <-ctx.Done():
				return
			}
		}
	}
	if n := len(*f.at.Load()); n > 0 {
		o.Logger.Info("all partitions of the start are open", "partitions", n, "took", o.Now().Sub(began).Round(time.Millisecond))
	}
}
