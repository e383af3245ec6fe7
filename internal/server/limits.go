package server

import (
	"time"

	"moldau/internal/xsync"
)

// ConnectionLimits bound how many connections there are and how fast new ones come. 0: no limit.
type ConnectionLimits struct {
	Max            int            // max.connections, over all listeners
	PerSecond      int            // max.connection.creation.rate, over all listeners
	PerIP          int            // max.connections.per.ip
	PerIPOverrides map[string]int // max.connections.per.ip.overrides, by address; 0: none at all
	// Own are the limits of single listeners beside these, by name (listener.name.NAME.…).
	Own map[string]OwnLimits
}

// OwnLimits are the limits of one listener. 0: no limit.
type OwnLimits struct{ Max, PerSecond int }

func (l OwnLimits) asLimits() ConnectionLimits {
	return ConnectionLimits{Max: l.Max, PerSecond: l.PerSecond}
}

// rushTime is how long new connections may be saved up: after as much quiet, so many come at once as are allowed in it.
const rushTime = time.Second

// connectionQuota counts connections, all and by address, and spreads new ones over time.
type connectionQuota struct {
	room chan struct{} // signalled, with one slot, when a connection has left or the limits are others

	mu     xsync.Mutex
	limits ConnectionLimits // without Own
	total  int
	byIP   map[string]int
	paid   time.Time // when the connections that have come would have come at an even rate
}

func newQuota(l ConnectionLimits) *connectionQuota {
	return &connectionQuota{limits: l, room: make(chan struct{}, 1), byIP: make(map[string]int)}
}

// set changes the limits. Connections that are over them stay.
func (q *connectionQuota) set(l ConnectionLimits) {
	q.mu.Lock()
	q.limits = l
	q.mu.Unlock()
	q.signal()
}

// waitForRoom returns true when one more connection is within the limit; false when stopping is closed first. Several
// accept loops may pass at once and so overshoot by one each.
func (q *connectionQuota) waitForRoom(stopping <-chan struct{}) bool {
	for {
		q.mu.Lock()
		room := q.limits.Max <= 0 || q.total < q.limits.Max
		more := q.limits.Max <= 0 || q.total+1 < q.limits.Max
		q.mu.Unlock()
		if room {
			if more {
				q.signal() // another accept loop may be waiting for the same signal
			}
			return true
		}
		select {
		case <-q.room:
		case <-stopping:
			return false
		}
	}
}

func (q *connectionQuota) signal() {
	select {
	case q.room <- struct{}{}:
	default:
	}
}

// early is how long the next connection has to wait for the sake of the rate.
func (q *connectionQuota) early(now time.Time) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.limits.PerSecond <= 0 || q.paid.Before(now) {
		return 0
	}
	return min(q.paid.Sub(now), 2*rushTime) - rushTime // a clock that was set back must not shut the door
}

// enter counts a connection from ip; false if that address has its share already.
func (q *connectionQuota) enter(ip string, now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.limits.PerSecond > 0 { // one that is turned away has cost its turn too
		if q.paid.Before(now) {
			q.paid = now
		}
		q.paid = q.paid.Add(time.Second / time.Duration(q.limits.PerSecond))
	}
	limit := q.limits.PerIP
	if n, ok := q.limits.PerIPOverrides[ip]; ok {
		limit = n
		if n <= 0 {
			return false
		}
	}
	if limit > 0 && q.byIP[ip] >= limit {
		return false
	}
	q.byIP[ip]++
	q.total++
	return true
}

// leave uncounts a connection that enter has counted.
func (q *connectionQuota) leave(ip string) {
	q.mu.Lock()
	q.total--
	if q.byIP[ip]--; q.byIP[ip] <= 0 {
		delete(q.byIP, ip)
	}
	q.mu.Unlock()
	q.signal()
}
