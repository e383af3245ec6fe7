package quorum

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	pb "go.etcd.io/raft/v3/raftpb"

	"moldau/internal/invariant"
	"moldau/internal/kafka"
)

// maxInflightBytes bounds what is proposed and not yet delivered.
const maxInflightBytes = 16 << 20

// proposal is an entry on its way to raft: a batch, or a voter change.
type proposal struct {
	data   []byte
	change *pb.ConfChangeV2
}

// waiting is a proposal that somebody waits for.
type waiting struct {
	last  kafka.Offset
	bytes int
	since time.Time
	done  chan<- error // capacity one
}

// Propose appends the records as one batch, if this node leads epoch. lastOffset is where the last of them will be. done
// receives exactly one value: nil when they are committed and the Listener has had them, else why that is not known.
func (q *Quorum) Propose(epoch kafka.Epoch, records [][]byte) (lastOffset kafka.Offset, done <-chan error, err error) {
	invariant.Check(len(records) > 0, "a proposal without records")
	now := q.o.Now()
	b := dataBatch(records, now.UnixMilli())
	if len(b) > MaxBatchBytes {
		return -1, nil, fmt.Errorf("%d metadata records take %d bytes, but one change may take %d: %w",
			len(records), len(b), MaxBatchBytes, kerr.MessageTooLarge)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.err != nil:
		return -1, nil, q.err
	case q.stopped:
		return -1, nil, ErrStopped
	case !q.leading || q.epoch != epoch:
		return -1, nil, ErrNotLeader
	case q.inflightBytes+len(b) > maxInflightBytes:
		return -1, nil, ErrBusy
	}
	q.next += int64(len(records))
	c := make(chan error, 1)
	q.queue = append(q.queue, proposal{data: b})
	q.inflight = append(q.inflight, waiting{last: q.next - 1, bytes: len(b), since: now, done: c})
	q.inflightBytes += len(b)
	signal(q.wake)
	return q.next - 1, c, nil
}

// releaseLocked tells waiters how their proposals ended.
func (q *Quorum) releaseLocked(waiters []waiting, err error) {
	for _, w := range waiters {
		if err == nil {
			q.metrics.commit(q.o.Now().Sub(w.since))
		}
		w.done <- err
		q.inflightBytes -= w.bytes
	}
}
