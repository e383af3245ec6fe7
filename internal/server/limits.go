package server

import "moldau/internal/xsync"

// connectionQuota counts connections, all and by address.
type connectionQuota struct {
	max       int
	perIP     int
	overrides map[string]int

	room chan struct{} // signalled, with one slot, when a connection has left

	mu    xsync.Mutex
	total int
	byIP  map[string]int
}

func (q *connectionQuota) init(l Limits) {
	q.max, q.perIP, q.overrides = l.MaxConnections, l.MaxPerIP, l.PerIPOverrides
	q.room = make(chan struct{}, 1)
	q.byIP = make(map[string]int)
}

// waitForRoom returns true when one more connection is within the limit; false when stopping is closed first. Several
// accept loops may pass at once and so overshoot by one each.
func (q *connectionQuota) waitForRoom(stopping <-chan struct{}) bool {
	for {
		q.mu.Lock()
		room := q.max <= 0 || q.total < q.max
		more := q.max <= 0 || q.total+1 < q.max
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

// enter counts a connection from ip; false if that address has its share already.
func (q *connectionQuota) enter(ip string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	limit := q.perIP
	if n, ok := q.overrides[ip]; ok {
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
