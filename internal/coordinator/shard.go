package coordinator

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/replica"
	"moldau/internal/xsync"
)

// Machine is the state of one shard. Its methods are called in turns only.
type Machine interface {
	// Replay applies one record: of the past when the shard is loaded, or one that has just been appended. An error means
	// that the record cannot be understood; at loading it is logged and the record left out.
	Replay(Record) error
	// Loaded is called once, when all records have been replayed and before the first turn.
	Loaded(*Turn)
	// Unloaded is called once, as the last turn: every Promise that the machine still holds is to be kept.
	Unloaded(*Turn)
	// Mark is a record that changes nothing when it is replayed, here or by Apache Kafka.
	Mark() Record
}

// Record is one record of a shard. Key and value must not be kept: they may point into a larger buffer.
type Record struct {
	Key    []byte
	Value  []byte       // nil: what the key stands for is gone
	Offset kafka.Offset // where it is in the log; set by the runtime
}

// shard is one partition's machine on this node, for one leader epoch.
type shard struct {
	r         *Runtime
	partition int32
	epoch     kafka.Epoch
	loaded    chan struct{} // closed when the loading has ended, one way or another
	busy      atomic.Bool   // with a job or a timer: others of its wait, those of other shards do not
	dropped   atomic.Bool   // the leader epoch has ended; whoever reads the log need not go on

	mu       xsync.Mutex // held for a turn
	log      *replica.Partition
	machine  Machine
	state    state
	end      kafka.Offset    // the log's, where the next record goes
	appended time.Duration   // when the last record was about to be, by Elapsed; -never: none was by this shard
	waiter   *replica.Waiter // for end; nil if none was needed yet
	awaiting kafka.Offset    // what waiter waits for
}

// state is how far a shard is.
type state int8

const (
	loading state = iota
	active
	broken // could not be loaded
	over   // the leader epoch has ended, or the node stops
)

// refusalLocked is why the shard takes no turns; nil if it does.
func (s *shard) refusalLocked() error {
	switch s.state {
	case loading:
		return kerr.CoordinatorLoadInProgress
	case active:
		return nil
	}
	return kerr.NotCoordinator
}

// Turn is one step of a machine. It must not be kept.
type Turn struct {
	s    *shard
	now  int64
	kept []promise
}

// NowMs is the wall time of the turn, in ms.
func (t *Turn) NowMs() int64 { return t.now }

// Partition is the shard's.
func (t *Turn) Partition() int32 { return t.s.partition }

// LogEnd is the offset that the next record gets, if it can be appended.
func (t *Turn) LogEnd() kafka.Offset { return t.s.end }

// takeLocked runs one turn and settles what it promised.
func (s *shard) takeLocked(f func(*Turn)) {
	t := Turn{s: s, now: s.r.o.Now().UnixMilli()}
	f(&t)
	if len(t.kept) == 0 {
		return
	}
	err := s.markLocked(&t)
	commit, lost := s.commitLocked()
	if commit != nil {
		replica.Hurry(commit)
	}
	if err == nil {
		err = lost
	}
	for _, p := range t.kept {
		p.keep(commit, err)
	}
}

// markLocked appends a mark where what the log ends with is so old that its commit says little: another node may have been elected
// since, and this one has not heard of it, because it was paused or is cut off. Then nobody commits the mark, and so the
// answers of this turn, reads among them, do not leave.
func (s *shard) markLocked(t *Turn) error {
	if s.state != active || s.r.o.Lease == 0 || s.r.o.Elapsed()-s.appended <= s.r.o.Lease || !s.log.Contested() {
		return nil
	}
	return Fault(t.Append(s.machine.Mark()))
}

// commitLocked is what answers of this moment have to wait for: that the log, as it is, is committed.
func (s *shard) commitLocked() (*replica.Waiter, error) {
	if s.state == over {
		return nil, nil
	}
	if s.waiter != nil && s.awaiting == s.end {
		return s.waiter, nil
	}
	w, err := s.log.AwaitCommitted(s.end, s.epoch)
	if err != nil {
		return nil, Fault(err)
	}
	s.waiter, s.awaiting = w, s.end
	return w, nil
}

// Append writes records and replays them. They become one batch, or several if they do not fit in one that the topic
// takes; then an error may leave the first of them in place.
//
// Errors: MESSAGE_TOO_LARGE for a single record, and what the replica says. Give clients Fault of them.
func (t *Turn) Append(records ...Record) error {
	s := t.s
	limit := s.log.Config().MaxMessageBytes
	for len(records) > 0 {
		b := batch.NewBuilder(batch.BuildOptions{Codec: s.r.o.Codec})
		n := 0
		for _, r := range records {
			if n > 0 && b.Size()+len(r.Key)+len(r.Value)+recordOverhead > limit {
				break
			}
			b.Add(batch.Record{Timestamp: t.now, Key: r.Key, Value: r.Value})
			n++
		}
		if n == 1 && b.Size() > limit {
			return fmt.Errorf("record of %d bytes for %s, which takes %d: %w", b.Size(), s.log.TopicPartition(), limit, kerr.MessageTooLarge)
		}
		if err := s.append(b.Build()); err != nil {
			return err
		}
		first := s.end - kafka.Offset(n)
		for i, r := range records[:n] {
			r.Offset = first + kafka.Offset(i)
			if err := s.machine.Replay(r); err != nil {
				// Whoever loads this log will say the same, so it must not go unheard.
				s.r.o.Logger.Error("the coordinator does not understand its own record", "partition", s.log.TopicPartition().String(), "error", err)
			}
		}
		records = records[n:]
	}
	return nil
}

// recordOverhead is more than a record takes beside its key and value.
const recordOverhead = 32

func (s *shard) append(b []byte) error {
	before := s.r.o.Elapsed()
	appended, waiter, err := s.log.Append(b, replica.AppendOptions{Acks: kafka.AcksAll, LeaderEpoch: s.epoch})
	if err != nil {
		if errors.Is(err, kerr.NotLeaderForPartition) || errors.Is(err, kerr.FencedLeaderEpoch) {
			// The records may be in the log although they do not count. What this shard knows is no longer what the log says.
			s.state = broken
		}
		return err
	}
	s.end, s.appended = appended.Last+1, before
	s.waiter, s.awaiting = waiter, s.end
	return nil
}
