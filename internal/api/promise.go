package api

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/server"
)

// kept is a coordinator's promise, whatever it is of.
type kept interface {
	Given() <-chan struct{}
	Committed() <-chan struct{}
}

// ready reports whether what was promised can be told.
func ready(p kept) bool {
	select {
	case <-p.Given():
	default:
		return false
	}
	committed := p.Committed()
	if committed == nil {
		return true
	}
	select {
	case <-committed:
		return true
	default:
		return false
	}
}

// after is the reply that answer makes when all promises are kept and what they tell is committed. It is ready at once
// if they are. Where a member waits for others it waits as long as they do, but for the commit no longer than is set.
func (a *API) after(r *server.Request, answer func() kmsg.Response, promises ...kept) server.Reply {
	for _, p := range promises {
		if !ready(p) {
			return server.Reply{Wait: func() server.Response {
				a.await(r, promises)
				return r.Response(answer())
			}}
		}
	}
	return r.Answer(answer())
}

// await returns when all promises can be told, or there is no sense in waiting any longer. Its selects only wait: told
// looks at what has come.
func (a *API) await(r *server.Request, promises []kept) {
	for _, p := range promises {
		select {
		case <-p.Given():
		case <-r.Closing():
			return
		case <-r.Context().Done():
			return
		}
	}
	timer := time.NewTimer(a.o.Groups.CommitTimeout())
	defer timer.Stop()
	for _, p := range promises {
		committed := p.Committed()
		if committed == nil {
			continue
		}
		select {
		case <-committed:
		case <-timer.C:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// outcome is what a promise comes to: COORDINATOR_NOT_AVAILABLE, after which clients ask again, if it could not be told.
func outcome[T any](p *coordinator.Promise[T]) (T, error) {
	if !ready(p) {
		var none T
		return none, kerr.CoordinatorNotAvailable
	}
	return p.Answer()
}
