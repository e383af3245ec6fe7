package api

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/replica"
	"moldau/internal/server"
)

// waits is what one answer waits for: each partition's waiter, and what to do with its outcome, which may add another.
type waits []wait

type wait struct {
	waiter *replica.Waiter
	then   func(error)
}

func (w *waits) add(waiter *replica.Waiter, then func(error)) {
	*w = append(*w, wait{waiter, then})
}

// reply is ready at once if there is nothing to wait for; else when everything has come or timeout is over, and then
// REQUEST_TIMED_OUT stands for what has not come.
func (w *waits) reply(r *server.Request, timeout time.Duration, resp kmsg.Response) server.Reply {
	if len(*w) == 0 {
		return r.Answer(resp)
	}
	waiters := make([]*replica.Waiter, len(*w))
	for i, each := range *w {
		waiters[i] = each.waiter
	}
	replica.Hurry(waiters...)
	// The time runs from now, not from when earlier answers have gone out.
	timer := time.NewTimer(max(timeout, 0))
	return server.Reply{Wait: func() server.Response {
		defer timer.Stop()
		over := false
		await := func(waiter *replica.Waiter) {
			if over {
				return
			}
			select {
			case <-waiter.Done():
			case <-timer.C:
				over = true
			case <-r.Context().Done():
				over = true
			}
		}
		// The last first: logs are synced in about the order of their appends, so that this is woken once and finds the
		// others done.
		for _, each := range slices.Backward(*w) {
			await(each.waiter)
		}
		for i := 0; i < len(*w); i++ {
			each := (*w)[i]
			await(each.waiter)
			// What has come is told, even if time is up: the select above picks at random when both are true.
			select {
			case <-each.waiter.Done():
				each.then(each.waiter.Err())
			default:
				each.then(kerr.RequestTimedOut)
			}
		}
		return r.Response(resp)
	}}
}
