package replica

import "moldau/internal/kafka"

// Contested reports whether another replica may be elected, and commit records, that this one does not hear of. It may not if it is alone in
// the in-sync set, as far as anybody knows. Nor does it count while too few are in sync, since nothing is committed then.
func (p *Partition) Contested() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.target.Load()
	return len(p.maximalISRLocked(t)) > 1 && len(t.isr) >= t.minISR
}

// AwaitCommitted returns a Waiter for the high watermark to reach offset, nil if it has, under a leader epoch that must
// be the one in force. It is what a coordinator's answers wait for. Errors as Append's.
func (p *Partition) AwaitCommitted(offset kafka.Offset, epoch kafka.Epoch) (*Waiter, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a, err := p.leading(epoch)
	if err != nil {
		return nil, err
	}
	if p.highWatermark.Load() >= offset {
		return nil, nil
	}
	return p.forWatermark.add(offset).onDisk(a.log), nil
}
