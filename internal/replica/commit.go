package replica

import "moldau/internal/kafka"

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
