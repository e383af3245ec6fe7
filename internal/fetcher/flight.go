package fetcher

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/peer"
	"moldau/internal/replica"
)

// newestFetch is the newest version of Fetch that a loop speaks, and oldestFetch the first that tells where logs part.
const (
	newestFetch = 17
	oldestFetch = 12
)

// flight is a connection to the leader and the request that is under way on it.
type flight struct {
	loop     *loop
	dialling chan dialled // nil: nobody dials
	conn     *peer.Conn   // nil: none
	buffer   *buffer      // of conn
	call     *peer.Call   // nil: none
	timer    *time.Timer  // ends the wait for an answer, or else a pause
	failures int          // in a row

	// asked is what a request without session has asked for; nil with a session, where followers know what they have told.
	asked map[*follower]replica.Following
}

type dialled struct {
	conn   *peer.Conn
	buffer *buffer
	err    error
}

// idle reports whether a request may be sent.
func (f *flight) idle() bool { return f.conn != nil && f.call == nil && f.timer == nil }

// connect begins to dial, if that is not so already.
func (f *flight) connect() {
	if f.conn != nil || f.dialling != nil || f.timer != nil {
		return
	}
	owner, leader := f.loop.f, f.loop.at.leader
	address, ok := owner.o.Address(leader)
	if !ok {
		f.fail(fmt.Errorf("node %d has no address that is known here: %w", leader, kerr.BrokerNotAvailable))
		return
	}
	c := make(chan dialled, 1)
	f.dialling = c
	owner.running.Go(func() {
		ctx, cancel := context.WithTimeout(owner.ctx, owner.o.Timeout)
		defer cancel()
		b := &buffer{}
		conn, err := peer.Dial(ctx, address, peer.Options{
			Buffer: b.get, Dial: owner.o.Dial, ClientID: fmt.Sprintf("broker-%d-fetcher-%d", owner.o.NodeID, f.loop.at.shard), MaxBytes: owner.o.MaxResponseBytes,
		})
		c <- dialled{conn, b, err}
		f.loop.wakeUp()
	})
}

// connected takes a connection that has been made.
func (f *flight) connected() {
	if f.dialling == nil {
		return
	}
	select {
	case d := <-f.dialling:
		f.dialling = nil
		if d.err == nil {
			if _, highest, ok := d.conn.Versions(int16(kmsg.Fetch)); !ok || highest < oldestFetch {
				d.conn.Close()
				d.err = fmt.Errorf("the leader does not serve Fetch %d: %w", oldestFetch, kerr.UnsupportedVersion)
			}
		}
		if d.err != nil {
			f.fail(d.err)
			return
		}
		f.conn, f.buffer = d.conn, d.buffer
	default:
	}
}

// send sends a request that the leader may hold for wait.
func (f *flight) send(req *kmsg.FetchRequest, wait time.Duration) {
	o := &f.loop.f.o
	req.Version = newestFetch
	req.ReplicaID, req.ReplicaState.ID, req.ReplicaState.Epoch = o.NodeID, o.NodeID, o.BrokerEpoch()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = int32(wait.Milliseconds()), o.MinBytes, o.ResponseBytes
	ctx, cancel := context.WithTimeout(f.loop.f.ctx, o.Timeout)
	defer cancel()
	call, err := f.conn.Send(ctx, req)
	if err != nil {
		f.fail(err)
		return
	}
	f.call = call
	f.timer = time.NewTimer(wait + o.Timeout)
}

func (f *flight) done() <-chan struct{} {
	if f.call == nil {
		return nil
	}
	return f.call.Done()
}

func (f *flight) rings() <-chan time.Time {
	if f.timer == nil {
		return nil
	}
	return f.timer.C
}

// rung is called when the timer has: an answer has not come in time, or a pause is over.
func (f *flight) rung() {
	f.timer = nil
	if f.call != nil {
		f.fail(fmt.Errorf("no answer for %s: %w", f.loop.f.o.Timeout, kerr.RequestTimedOut))
	}
}

func (f *flight) stopTimer() {
	if f.timer != nil {
		f.timer.Stop()
		f.timer = nil
	}
}

// collect returns the answer that has come; nil: none.
func (f *flight) collect() *kmsg.FetchResponse {
	f.connected()
	select {
	case <-f.done():
	default:
		return nil
	}
	resp, err := f.call.Wait(f.loop.f.ctx)
	f.call = nil
	f.stopTimer()
	if err == nil {
		if answer, ok := resp.(*kmsg.FetchResponse); ok {
			f.failures = 0
			return answer
		}
		err = fmt.Errorf("the leader answered with a %T", resp)
	}
	f.fail(err)
	return nil
}

// fail gives the connection up and pauses.
func (f *flight) fail(err error) {
	o := &f.loop.f.o
	pause := min(o.FirstBackoff<<min(f.failures, 20), o.Backoff)
	f.failures++
	if f.loop.f.ctx.Err() == nil && (f.failures == 1 || pause == o.Backoff) {
		f.loop.logger.Warn("cannot fetch from the leader; trying again", "pause", pause, "error", err)
	}
	f.loop.f.meters.failures.Inc()
	f.close()
	f.timer = time.NewTimer(pause)
}

// wakeUp ends a pause: the leader may be back.
func (f *flight) wakeUp() {
	if f.call == nil {
		f.stopTimer()
		f.failures = 0
	}
}

// close ends everything. Nothing of it runs afterwards, save a dialling that the Fetcher waits for.
func (f *flight) close() {
	f.stopTimer()
	if f.conn != nil {
		f.conn.Close()
	}
	if f.dialling != nil {
		select {
		case d := <-f.dialling:
			if d.conn != nil {
				d.conn.Close()
			}
		case <-f.loop.f.ctx.Done():
			if d := <-f.dialling; d.conn != nil { // its context has ended too
				d.conn.Close()
			}
		}
		f.dialling = nil
	}
	f.conn, f.call, f.asked = nil, nil, nil
	if f == &f.loop.main {
		f.loop.restart()
	}
}
