package quorum

import (
	"crypto/rand"
	"encoding/binary"
	"time"
)

// Raft counts time in ticks: twenty are controller.quorum.election.timeout.ms. A follower stands for election after ten to
// nineteen without a word from the leader, which speaks at least every third one.
const (
	electionTicks  = 10
	heartbeatTicks = 3
	// leaderlessTicks is after how long a voter asks around whether the others have gone on without it.
	leaderlessTicks = 3 * electionTicks
)

// clock is the timer for raft's ticks. It stands still while there is nobody to wait for. Its phase is random, so that no two
// nodes act at the same instant, and each tick is a little longer than the last or shorter: one that was taken late begins its
// next with whatever else began when the loop was free again, and must not meet that later.
type clock struct {
	length time.Duration
	timer  *time.Timer // nil while it stands still
	due    bool        // a tick has come and was not taken
	ticks  int         // taken so far
}

// run makes the clock go, or stand still.
func (c *clock) run(on bool) {
	switch {
	case on && c.timer == nil:
		c.timer = time.NewTimer(part(c.length))
	case !on && c.timer != nil:
		c.timer.Stop()
		c.timer, c.due = nil, false
	}
}

// part is a random part of a time.
func part(d time.Duration) time.Duration {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return time.Duration(binary.BigEndian.Uint64(b[:]) % uint64(max(d, 1)))
}

// C delivers when a tick is due; nil while the clock stands still.
func (c *clock) C() <-chan time.Time {
	if c.timer == nil {
		return nil
	}
	return c.timer.C
}

// take reports whether a tick was due, and starts the next one.
func (c *clock) take() bool {
	select {
	case <-c.C():
		c.due = true
	default:
	}
	if !c.due {
		return false
	}
	c.due = false
	c.ticks++
	c.timer.Reset(c.length - part(c.length/64))
	return true
}
