package sim

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// named records that a producer got an id: nobody else ever has it.
func (h *History) named(producer string, id int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if other, taken := h.owners[id]; taken {
		h.faultLocked(onceInOrder, "producer id %d was given to %s and to %s", id, other, producer)
	}
	h.owners[id] = producer
	h.ordered[producer] = true
}

// checkIDs: after the last fault each node gives a producer an id, one that nobody has.
func (c *client) checkIDs(ctx context.Context) {
	for _, address := range c.seeds {
		var id int64
		given := c.insist(ctx, "get a producer id", func() error {
			ctx, cancel := context.WithTimeout(ctx, attempt)
			defer cancel()
			req := kmsg.NewInitProducerIDRequest()
			req.Version = 4
			resp, err := c.ask(ctx, address, &req)
			if err != nil {
				return err
			}
			answer := resp.(*kmsg.InitProducerIDResponse)
			id = answer.ProducerID
			return kerr.ErrorForCode(answer.ErrorCode)
		})
		if !given {
			c.history.fault(inTime, "%s gives no producer id %v after the last fault", address, patience)
			return
		}
		c.history.named(fmt.Sprintf("a producer that asks %s", address), id)
	}
}

// forgotten records that a partition did not know how far an idempotent producer had come. Only lost records excuse that.
func (h *History) forgotten(producer string, p Partition, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.losses == 0 && h.gone[p.id] == alive {
		h.faultLocked(onceInOrder, "%v lost track of %s: %v", p, producer, err)
	}
}

// checkOnceLocked: a record is in a log once, however often its producer had to send it.
func (h *History) checkOnceLocked(p Partition, t *told, r record) {
	if other, again := t.where[r.value]; again && other != r.offset {
		h.faultLocked(onceInOrder, "%v holds %.30s at offset %d and at offset %d", p, r.value, other, r.offset)
	}
	t.where[r.value] = r.offset
}

// checkProducersLocked: the records of an idempotent producer are in the order in which it sent them.
func (h *History) checkProducersLocked(p Partition, t *told) {
	last := make(map[string]int)
	for _, r := range t.final {
		told, _, _ := strings.Cut(r.value, padding)
		name, text, _ := strings.Cut(told, "-")
		number, err := strconv.Atoi(text)
		if err != nil || !h.ordered[name] {
			continue
		}
		if before, some := last[name]; some && number <= before {
			h.faultLocked(onceInOrder, "%v offset %d holds %.30s behind number %d", p, r.offset, r.value, before)
		}
		last[name] = number
	}
}
