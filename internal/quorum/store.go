package quorum

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"moldau/internal/batch"
	"moldau/internal/commitlog"
	"moldau/internal/invariant"
	"moldau/internal/kafka"
	"moldau/internal/vfs"
	"moldau/internal/xsync"
)

// store keeps raft's entries in a Kafka log. It is raft's Storage.
//
// The loop is the only one that changes the log's end; a snapshot's writer moves the log start and reads positions.
type store struct {
	fs     vfs.FS
	dir    string // the folder __cluster_metadata-0
	logger *slog.Logger
	log    *commitlog.Log

	mu xsync.RWMutex // guards what follows; never held across disk I/O
	// positions[i] is where the entry at index first+i ends. The entry at first itself is not readable any more: it is what
	// the oldest snapshot in memory covers last.
	first     uint64
	positions []position
	snapshots []snapshot // on disk, oldest first; never empty

	// For the loop alone.
	stored      *pb.HardState // term and vote on disk
	initialConf *pb.ConfState // voters of the snapshot that this run started from
	sets        [][]Voter     // while open looks at the log: the voter sets that it states
	tail        []*pb.Entry   // the newest entries, so that raft reads what it just wrote from memory
	tailBytes   int
	readErr     error // why Entries failed; raft itself has no way to say it
}

// position is where an entry lies in the log: from the end of the one before to end.
type position struct {
	end       kafka.Offset
	timestamp int64
	epoch     kafka.Epoch
}

// maxTailBytes bounds the entries held in memory for raft.
const maxTailBytes = 4 << 20

func positionOf(b batch.Batch) position {
	return position{end: b.NextOffset(), timestamp: b.MaxTimestamp(), epoch: b.LeaderEpoch()}
}

// checkIndex compares the index that a LeaderChange carries with the counted one.
func checkIndex(b batch.Batch, index uint64) error {
	if !b.Control() {
		return nil
	}
	return eachControl(b, func(kind batch.ControlType, value []byte) error {
		var change batch.LeaderChange
		if kind != batch.ControlLeaderChange {
			return nil
		}
		if err := change.ReadFrom(value); err != nil {
			return err
		}
		if tagged, ok := taggedIndex(change.Tags); ok && tagged != index {
			return fmt.Errorf("batch at offset %d says that it is raft entry %d, but it is the %d. after the snapshot", b.BaseOffset(), tagged, index)
		}
		return nil
	})
}

// eachBatch calls f for the batches of the log in [from, to). A batch may be kept.
func (s *store) eachBatch(from, to kafka.Offset, f func(batch.Batch) error) error {
	for from < to {
		chunk, err := s.read(from, to, 1<<20)
		if err != nil {
			return err
		}
		for len(chunk) > 0 {
			var b batch.Batch
			if b, chunk, err = batch.Next(chunk); err != nil {
				return err
			}
			if err := f(b); err != nil {
				return err
			}
			from = b.NextOffset()
		}
	}
	return nil
}

// read returns whole batches from offset from on, at least one, none at or above to.
func (s *store) read(from, to kafka.Offset, maxBytes int) ([]byte, error) {
	r, err := s.log.Read(from, commitlog.ReadOptions{MaxBytes: maxBytes, UpTo: to, AtLeastOne: true})
	if err != nil {
		return nil, err
	}
	if r.Region == nil {
		return nil, fmt.Errorf("the log has nothing at offset %d, below %d", from, to)
	}
	defer r.Region.Release()
	return r.Region.ReadAll()
}

// append stores entries durably. It returns how many bytes that were.
func (s *store) append(entries []*pb.Entry) (int, error) {
	if err := s.cut(entries[0].GetIndex()); err != nil {
		return 0, err
	}
	s.mu.RLock()
	last := s.positions[len(s.positions)-1]
	s.mu.RUnlock()
	var buf []byte
	added := make([]position, 0, len(entries))
	for _, e := range entries {
		epoch, err := epochOf(e.GetTerm())
		if err != nil {
			return 0, err
		}
		start := len(buf)
		if buf, err = appendEntry(buf, e, last.timestamp); err != nil {
			return 0, err
		}
		b := batch.Batch(buf[start:])
		b.Assign(last.end, epoch)
		if err := checkIndex(b, e.GetIndex()); err != nil {
			return 0, err
		}
		last = positionOf(b)
		added = append(added, last)
	}
	start := s.log.LogEnd()
	if _, err := s.log.AppendFetched(buf); err != nil {
		if s.log.LogEnd() > start { // a part went in; all or nothing is what the positions say
			err = errors.Join(err, s.log.Truncate(start))
		}
		return 0, err
	}
	if _, err := s.log.Sync(); err != nil {
		return 0, err
	}
	s.mu.Lock()
	s.positions = append(s.positions, added...)
	s.mu.Unlock()
	s.keepTail(entries)
	return len(buf), nil
}

// cut removes the entry at index and all after it: a new leader's log has others there.
func (s *store) cut(index uint64) error {
	s.mu.RLock()
	first, last := s.first, s.first+uint64(len(s.positions))-1
	invariant.Check(first < index && index <= last+1, "raft entry %d stored where the log holds (%d, %d]", index, first, last)
	keep := index - first
	to := s.positions[keep-1].end
	s.mu.RUnlock()
	if index == last+1 {
		return nil
	}
	if err := s.log.Truncate(to); err != nil {
		return err
	}
	s.mu.Lock()
	s.positions = s.positions[:keep]
	s.mu.Unlock()
	for len(s.tail) > 0 && s.tail[len(s.tail)-1].GetIndex() >= index {
		s.tailBytes -= len(s.tail[len(s.tail)-1].GetData())
		s.tail = s.tail[:len(s.tail)-1]
	}
	return nil
}

func (s *store) keepTail(entries []*pb.Entry) {
	s.tail = append(s.tail, entries...)
	for _, e := range entries {
		s.tailBytes += len(e.GetData())
	}
	drop := 0
	for s.tailBytes > maxTailBytes || len(s.tail)-drop > maxTailBytes/1024 {
		s.tailBytes -= len(s.tail[drop].GetData())
		drop++
	}
	s.tail = slices.Delete(s.tail, 0, drop)
}

// The methods of raft.Storage. Raft calls them on the loop's goroutine.

// InitialState returns term, vote and commit index as recovered, and the voter set of the newest snapshot.
func (s *store) InitialState() (*pb.HardState, *pb.ConfState, error) {
	return s.stored, s.initialConf, nil
}

// FirstIndex returns the index of the oldest entry that Entries can read.
func (s *store) FirstIndex() (uint64, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.first + 1, nil
}

// LastIndex returns the index of the newest entry.
func (s *store) LastIndex() (uint64, error) { return s.lastIndex(), nil }

func (s *store) lastIndex() uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.first + uint64(len(s.positions)) - 1
}

// Term returns the term of the entry at index i.
func (s *store) Term(i uint64) (uint64, error) {
	p, err := s.position(i)
	return uint64(p.epoch), err
}

func (s *store) position(i uint64) (position, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if i < s.first {
		return position{}, raft.ErrCompacted
	}
	if i-s.first >= uint64(len(s.positions)) {
		return position{}, raft.ErrUnavailable
	}
	return s.positions[i-s.first], nil
}

// Entries returns the entries [lo, hi) up to about maxSize bytes, and at least one.
func (s *store) Entries(lo, hi, maxSize uint64) ([]*pb.Entry, error) {
	before, err := s.position(lo - 1)
	if err != nil {
		return nil, err
	}
	last, err := s.position(hi - 1)
	if err != nil {
		return nil, err
	}
	if len(s.tail) > 0 && lo >= s.tail[0].GetIndex() {
		from := lo - s.tail[0].GetIndex()
		return limit(s.tail[from:from+hi-lo], maxSize), nil
	}
	var entries []*pb.Entry
	chunk, err := s.read(before.end, last.end, int(min(maxSize, maxTailBytes)))
	for index := lo; err == nil && len(chunk) > 0; index++ {
		var b batch.Batch
		if b, chunk, err = batch.Next(chunk); err != nil {
			break
		}
		var e *pb.Entry
		if e, err = readEntry(b, index); err == nil {
			entries = append(entries, e)
		}
	}
	if err != nil {
		s.readErr = fmt.Errorf("read raft entries [%d, %d): %w", lo, hi, err)
		return nil, s.readErr
	}
	return limit(entries, maxSize), nil
}

// limit returns a copy of the entries that fit into maxSize, at least one.
func limit(entries []*pb.Entry, maxSize uint64) []*pb.Entry {
	size, n := uint64(0), 0
	for n < len(entries) {
		const frame = 32 // more than the other fields of an entry take
		size += uint64(len(entries[n].GetData())) + frame
		if size > maxSize && n > 0 {
			break
		}
		n++
	}
	return slices.Clone(entries[:n])
}

// Snapshot tells a slow voter which snapshot to fetch: its name, not its bytes.
func (s *store) Snapshot() (*pb.Snapshot, error) {
	newest := s.newestSnapshot()
	return &pb.Snapshot{Data: []byte(newest.id.String()), Metadata: &pb.SnapshotMetadata{
		ConfState: confState(newest.voters.voters, kafka.DirID{}), Index: new(newest.index), Term: new(uint64(newest.id.Epoch)),
	}}, nil
}
