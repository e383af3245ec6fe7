package replica

import "moldau/internal/kafka"

// count is everything that the high watermark depends on.
type count struct {
	current   kafka.Offset   // the high watermark so far
	leaderEnd kafka.Offset   // what the leader contributes: its synced end, or its log end when it does not flush before ack
	followers []kafka.Offset // log ends reported by the other members of the ISR and by those that are joining it
	isr       int            // members of the ISR, the leader included
	minISR    int            // min(min.insync.replicas, replicas)
}

// watermark returns the high watermark: the offset below which every member of the ISR has every record. It never falls
// within a leader epoch, and does not move while the ISR is smaller than it must be (KIP-966): records that too few have
// do not become visible.
func watermark(c count) kafka.Offset {
	if c.isr < c.minISR {
		return c.current
	}
	end := c.leaderEnd
	for _, f := range c.followers {
		end = min(end, f)
	}
	return max(c.current, end)
}
