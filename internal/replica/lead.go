package replica

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/kafka"
)

// leadPatience is more than metadata that were committed take to reach every node, and less than clients wait before they try again.
const leadPatience = 250 * time.Millisecond

// Patience is how long one request waits for all its partitions to be led here. The zero value is all of it.
type Patience struct {
	// Begins, unless it is nil, is called once, before the first wait: for the request to hurry all its partitions, which are
	// then ready together.
	Begins func()

	timer *time.Timer // nil until something had to be waited for
	spent bool
}

// End gives back what it holds.
func (c *Patience) End() {
	if c.timer != nil {
		c.timer.Stop()
	}
}

// AwaitLead waits for this replica to lead where that is likely to be a matter of moments: the metadata say so and the role is not in
// force yet; or somebody speaks to it as the leader although it has never been, and so knows more than the metadata here.
// A leader that gives up a partition names the next one (KIP-951), and the client is there at once. It returns
// when the replica leads, there is no sense in waiting, or patience has run out. Then nobody here waits until the metadata give the
// node something to lead: a producer has more requests under way, and if one of them waited for the role after an earlier one was
// refused, its sequence numbers would be out of order.
func (p *Partition) AwaitLead(ctx context.Context, patience *Patience) {
	if patience.spent || p.set.waitedInVain.Load() || !p.mayLeadSoon() {
		return
	}
	watch := NewWatch()
	p.Attach(watch, 0, Follower)
	defer p.Detach(watch)
	if patience.timer == nil {
		patience.timer = time.NewTimer(leadPatience)
		if patience.Begins != nil {
			patience.Begins()
		}
	}
	for p.mayLeadSoon() {
		select {
		case <-watch.C():
			watch.Take(nil)
		case <-patience.timer.C:
			patience.spent = true
			p.set.waitedInVain.Store(true)
			return
		case <-ctx.Done():
			return
		}
	}
}

// mayLeadSoon tells whether this replica does not lead, but may before long.
func (p *Partition) mayLeadSoon() bool {
	_, err := p.leading(kafka.NoEpoch)
	if !errors.Is(err, kerr.NotLeaderForPartition) {
		return false
	}
	return p.target.Load().leader == p.set.o.NodeID || !p.led.Load()
}
