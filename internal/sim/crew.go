package sim

import (
	"context"
	"sync"
	"testing/synctest"
	"time"
)

// crew is the clients of a run. Each has a context of its own, because a context cancels its children in the order of a
// map.
type crew struct {
	running sync.WaitGroup
	cancel  []context.CancelFunc
}

// start lets one client work until it is dismissed.
func (c *crew) start(work func(ctx context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = append(c.cancel, cancel)
	c.running.Go(func() { work(ctx) })
}

// dismiss ends the clients, one after the other; false if they do not go.
func (c *crew) dismiss(w *World) bool {
	for _, cancel := range c.cancel {
		cancel()
		synctest.Wait() // what one does about it comes before the next one knows
	}
	gone := make(chan struct{})
	go func() { c.running.Wait(); close(gone) }()
	return w.Within(time.Minute, closed(gone))
}
