package storage

import (
	"time"

	"moldau/internal/xsync"
)

// pacer spreads reads and writes over time, so that they stay below a rate.
type pacer struct {
	now func() time.Time

	mu        xsync.Mutex
	perSecond float64       // bytes
	free      time.Time     // when all that was let pass so far is paid for
	changed   chan struct{} // closed when perSecond is another
}

// set changes the rate. Whoever waits need not any longer: what a low rate asks for may take an hour.
func (p *pacer) set(perSecond float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.perSecond, p.free = perSecond, p.now()
	close(p.changed)
	p.changed = make(chan struct{})
}

// wait returns when the bytes may be counted as done: after the time that the rate asks for, of which it forgives no more
// than has passed since the last call. The error says that stop or leaves was closed.
func (p *pacer) wait(bytes int, stop, leaves <-chan struct{}) error {
	p.mu.Lock()
	now := p.now()
	if p.free.Before(now) {
		p.free = now
	}
	p.free = p.free.Add(p.costLocked(bytes))
	left, changed := p.free.Sub(now), p.changed
	p.mu.Unlock()
	if left > 0 {
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
		case <-changed:
		case <-stop:
		case <-leaves:
		}
		timer.Stop()
	}
	switch {
	case received(stop):
		return errCleanerStopped
	case received(leaves):
		return errLogLeaves
	}
	return nil
}

// costLocked is how long so many bytes take.
func (p *pacer) costLocked(bytes int) time.Duration {
	const most = time.Hour // a rate of nothing must not overflow
	return time.Duration(min(float64(most), float64(bytes)/p.perSecond*float64(time.Second)))
}
