package quota

import (
	"math"
	"time"

	"moldau/internal/xsync"
)

// Unlimited is the rate of a Bucket that holds nobody up, as Kafka writes it.
const Unlimited = math.MaxInt64

// longestPause bounds every pause.
const longestPause = time.Second

// Bucket lets through so many units a second.
type Bucket struct {
	now func() time.Time

	mu    xsync.Mutex
	rate  int64     // units per second; Unlimited: no limit, 0: nothing
	level float64   // units that may be used; below zero: debt
	at    time.Time // of level
}

// NewBucket returns a Bucket with a second's worth in it.
func NewBucket(rate int64, now func() time.Time) *Bucket {
	return &Bucket{now: now, rate: rate, level: float64(rate), at: now()}
}

// SetRate changes the rate from now on. A debt stays one.
func (b *Bucket) SetRate(rate int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fillLocked()
	if b.rate == Unlimited || b.rate == 0 {
		b.level = float64(rate)
	}
	b.rate = rate
	b.level = min(b.level, float64(rate))
}

// Use takes n units, on credit if there are not so many.
func (b *Bucket) Use(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rate != Unlimited {
		b.fillLocked()
		b.level -= float64(n)
	}
}

// Pause returns how long to wait before more is used; 0: not at all.
func (b *Bucket) Pause() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch b.rate {
	case Unlimited:
		return 0
	case 0:
		return longestPause
	}
	b.fillLocked()
	if b.level >= 0 {
		return 0
	}
	seconds := -b.level / float64(b.rate)
	return min(time.Duration(seconds*float64(time.Second))+1, longestPause)
}

// fillLocked adds what time has brought. A clock that goes back brings nothing.
func (b *Bucket) fillLocked() {
	now := b.now()
	if passed := now.Sub(b.at); passed > 0 {
		b.level = min(b.level+passed.Seconds()*float64(b.rate), float64(b.rate))
	}
	b.at = now
}
