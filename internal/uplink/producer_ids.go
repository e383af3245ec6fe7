package uplink

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/xsync"
)

// ids is the block of producer ids in hand: [next, end).
type ids struct {
	mu        xsync.Mutex // held while a block is asked for: the others wait for the same block
	next, end int64
}

// ProducerID returns an id that no producer of this cluster has had (RPCProducerIdManager; KIP-730). It asks the
// controller for a block of ids when the last one is used up, and fails with the controller's error if that fails.
func (u *Uplink) ProducerID(ctx context.Context) (int64, error) {
	u.ids.mu.Lock()
	defer u.ids.mu.Unlock()
	if u.ids.next == u.ids.end {
		req := kmsg.NewAllocateProducerIDsRequest()
		req.BrokerID = u.o.NodeID
		req.BrokerEpoch = u.Epoch()
		resp, err := send[*kmsg.AllocateProducerIDsResponse](ctx, u, &req)
		if err == nil {
			err = kerr.ErrorForCode(resp.ErrorCode)
		}
		if err != nil {
			return -1, fmt.Errorf("get a block of producer ids: %w", err)
		}
		if resp.ProducerIDLen <= 0 {
			return -1, fmt.Errorf("get a block of producer ids: the controller gave %d of them", resp.ProducerIDLen)
		}
		u.ids.next, u.ids.end = resp.ProducerIDStart, resp.ProducerIDStart+int64(resp.ProducerIDLen)
	}
	id := u.ids.next
	u.ids.next++
	return id, nil
}
