package storage

import (
	"cmp"
	"errors"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// ScrubOptions is how logs are read in the background to find what a disk has changed unseen.
type ScrubOptions struct {
	BytesPerSecond int64         // all directories together (log.scrub.bytes.per.second); 0 = nothing is read
	Interval       time.Duration // from the end of one pass to the next (log.scrub.interval.ms); 1 day
}

// scrubber reads all logs, those of a directory one after the other, over and over. It repairs nothing: damaged index files are made anew by
// retention, and damaged records are a matter for a person, or for another copy.
type scrubber struct {
	s     *Store
	o     ScrubOptions
	pacer pacer

	bytes, errors, indexes prometheus.Counter
	damaged                *prometheus.GaugeVec
}

// firstScrub is how long after the start the first pass begins, at the latest.
const firstScrub = time.Minute

// scrubPause is how many bytes are read between two waits.
const scrubPause = 64 << 10

func newScrubber(s *Store) *scrubber {
	o := s.o.Scrub
	o.Interval = cmp.Or(o.Interval, 24*time.Hour)
	m := s.o.Metrics
	return &scrubber{
		s: s, o: o, pacer: pacer{now: s.o.Now, perSecond: float64(o.BytesPerSecond), changed: make(chan struct{})},
		bytes:   m.Counter("moldau_log_scrubbed_bytes_total", "Bytes of records that were read in the background and compared with their CRCs."),
		errors:  m.Counter("moldau_log_scrub_errors_total", "Logs that could not be read to their end in the background."),
		indexes: m.Counter("moldau_log_damaged_indexes_total", "Segments whose index files did not belong to their log and are made anew."),
		damaged: m.GaugeVec("moldau_log_damaged_stretches", "Stretches of a partition's log that cannot be read.", "topic", "partition"),
	}
}

// run looks at the logs of one directory.
func (c *scrubber) run(d *Directory, stop <-chan struct{}) {
	if c.o.BytesPerSecond <= 0 {
		return
	}
	next := newAlarm()
	next.set(phase(min(c.o.Interval, firstScrub)))
	defer next.stop()
	for {
		select {
		case <-stop:
		case <-next.c():
			next.ring()
		}
		if received(stop) {
			return
		}
		if next.due() {
			for _, l := range d.logs() {
				if received(stop) {
					return
				}
				c.scrub(l, stop)
			}
		}
		next.set(phase(c.o.Interval))
	}
}

// scrub reads one log.
func (c *scrubber) scrub(l *Log, stop <-chan struct{}) {
	l.use.RLock()
	defer l.use.RUnlock()
	if l.gone.Load() || l.leaving.Load() || !l.dir.Online() {
		return
	}
	unpaid := 0
	done, err := l.Log.Scrub(func(bytes int) error {
		if unpaid += bytes; unpaid < scrubPause {
			return nil
		}
		bytes, unpaid = unpaid, 0
		return c.pacer.wait(bytes, stop, l.leaves)
	})
	c.bytes.Add(float64(done.Bytes))
	c.indexes.Add(float64(done.Indexes))
	all := l.Damage()
	if len(done.Damage) > 0 {
		first := done.Damage[0]
		l.dir.logger.Error("records are damaged on the disk and cannot be read", "partition", l.tp.String(), "stretches", len(all),
			"segment", first.Segment, "position", first.Position, "firstOffset", first.From, "nextReadable", first.To)
	}
	c.tell(l, len(all))
	if err != nil && !errors.Is(err, errCleanerStopped) && !errors.Is(err, errLogLeaves) {
		c.errors.Inc()
		l.dir.logger.Error("log cannot be read to its end", "partition", l.tp.String(), "error", err)
	}
}

// leave forgets a log that is about to be deleted.
func (c *scrubber) leave(l *Log) { c.tell(l, 0) }

// tell counts a partition that is damaged, and forgets one that is not any more.
func (c *scrubber) tell(l *Log, stretches int) {
	labels := []string{l.tp.Topic, strconv.Itoa(int(l.tp.Partition))}
	if stretches == 0 {
		c.damaged.DeleteLabelValues(labels...)
		return
	}
	c.damaged.WithLabelValues(labels...).Set(float64(stretches))
}
