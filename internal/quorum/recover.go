package quorum

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	pb "go.etcd.io/raft/v3/raftpb"

	"moldau/internal/batch"
	"moldau/internal/commitlog"
	"moldau/internal/kafka"
)

// openStore recovers the log, or forms a new one with the given voters. anew says that the node has its directory id since just
// now: nobody counts on what it was before.
func openStore(o Options, formed []Voter, anew bool) (*store, error) {
	s := &store{fs: o.FS, dir: filepath.Join(o.Dir, folderName()), logger: o.Logger}
	if err := s.makeFolder(o.Dir); err != nil {
		return nil, err
	}
	firstSegment, pending, err := s.listSnapshots()
	if err != nil {
		return nil, err
	}
	if pending != nil {
		return s, s.resumeInstall(o, *pending, firstSegment, anew)
	}
	if len(s.snapshots) == 0 {
		if firstSegment > 0 {
			return nil, fmt.Errorf("%s: the log begins at offset %d, but there is no snapshot of what came before; "+
				"restore the .checkpoint file", s.dir, firstSegment)
		}
		if o.Used && !anew && len(formed) == 0 {
			return nil, fmt.Errorf("%s has no log: %w", s.dir, errLost)
		}
		if err := s.form(formed, o.Now().UnixMilli()); err != nil {
			return nil, err
		}
	}
	if err := s.dropSnapshotsBefore(firstSegment); err != nil {
		return nil, err
	}
	// What a snapshot covers was committed, so it was synced.
	if err := s.openLog(o, s.newestSnapshot().id.EndOffset, s.snapshots[0].id.EndOffset); err != nil {
		return nil, err
	}
	if err := s.recover(o, s.newestSnapshot(), anew); err != nil {
		s.log.Abandon()
		return nil, err
	}
	return s, nil
}

func (s *store) openLog(o Options, recoveryPoint, logStart kafka.Offset) error {
	log, _, err := commitlog.Open(commitlog.Options{
		FS: o.FS, Dir: s.dir, TP: kafka.TopicPartition{Topic: TopicName}, Config: logConfig(o), Files: commitlog.NewFiles(o.FS, 64),
		Now: o.Now, Logger: o.Logger, RecoveryPoint: recoveryPoint, LogStart: logStart,
	})
	if err != nil {
		return fmt.Errorf("open the metadata log: %w", err)
	}
	s.log = log
	return nil
}

// resumeInstall opens a log that a crash left while a leader's snapshot took its place.
func (s *store) resumeInstall(o Options, pending snapshot, firstSegment kafka.Offset, anew bool) error {
	start := max(firstSegment, 0)
	if err := s.openLog(o, start, start); err != nil {
		return err
	}
	err := s.finishInstall(pending)
	if err == nil {
		err = s.recover(o, pending, anew)
	}
	if err != nil {
		s.log.Abandon()
	}
	return err
}

// minSegmentBytes is the smallest segment that Apache Kafka allows for the metadata log.
const minSegmentBytes = 8 << 20

// logConfig makes a log that deletes nothing but what lies below its start. Segments below it go at once: a reader's Region
// keeps its file. Only whole segments can go, so one is not much larger than what lies between two snapshots.
func logConfig(o Options) commitlog.Config {
	c := commitlog.DefaultConfig()
	c.SegmentBytes = int(min(int64(o.SegmentBytes), max(o.SnapshotMaxBytes, minSegmentBytes)))
	c.SegmentMs = o.SegmentMs
	c.RetentionMs, c.RetentionBytes, c.FileDeleteDelayMs = -1, -1, 0
	c.MaxMessageBytes = MaxBatchBytes
	return c
}

func (s *store) makeFolder(parent string) error {
	_, err := s.fs.Stat(s.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err != nil {
		if err := s.fs.MkdirAll(s.dir); err != nil {
			return err
		}
	}
	// Also when the folder was there: a crash may have come between making it and this sync.
	if err := s.fs.SyncDir(parent); err != nil {
		return err
	}
	topic := kafka.TopicID{15: 1} // Uuid.METADATA_TOPIC_ID
	id, err := commitlog.ReadPartitionMetadata(s.fs, s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return commitlog.WritePartitionMetadata(s.fs, s.dir, topic)
	}
	if err == nil && id != topic {
		return fmt.Errorf("%s belongs to topic id %v, not to the metadata topic %v", s.dir, id, topic)
	}
	return err
}

// listSnapshots fills s.snapshots, removes what a crash left half done, and returns the base offset of the first segment, -1
// if there is none, and a snapshot that was to take the place of all this.
func (s *store) listSnapshots() (firstSegment kafka.Offset, pending *snapshot, err error) {
	entries, err := s.fs.List(s.dir)
	if err != nil {
		return -1, nil, err
	}
	firstSegment = -1
	for _, e := range entries {
		switch {
		case strings.HasSuffix(e.Name, partSuffix), strings.HasSuffix(e.Name, deletedSuffix), strings.HasSuffix(e.Name, tmpSuffix):
			if err := s.fs.Remove(filepath.Join(s.dir, e.Name)); err != nil {
				return -1, nil, err
			}
		case strings.HasSuffix(e.Name, snapshotSuffix), strings.HasSuffix(e.Name, installSuffix):
			name, installing := strings.CutSuffix(e.Name, installSuffix)
			if installing {
				name += snapshotSuffix
			}
			id, ok := parseSnapshotName(name)
			if !ok {
				continue
			}
			found, err := readSnapshotHeader(s.fs, filepath.Join(s.dir, e.Name), id)
			if err != nil {
				return -1, nil, err
			}
			if installing {
				pending = &found
				continue
			}
			s.snapshots = append(s.snapshots, found)
		case strings.HasSuffix(e.Name, ".log"):
			base, err := strconv.ParseInt(strings.TrimSuffix(e.Name, ".log"), 10, 64)
			if err == nil && (firstSegment < 0 || base < firstSegment) {
				firstSegment = base
			}
		}
	}
	slices.SortFunc(s.snapshots, func(a, b snapshot) int {
		return cmp.Or(cmp.Compare(a.id.EndOffset, b.id.EndOffset), cmp.Compare(a.id.Epoch, b.id.Epoch))
	})
	return firstSegment, pending, nil
}

// form makes a new log: the snapshot 0-0 holds the first voter set. One of several voters has a quorum-state before that, so
// that a log without one is one that has lost it.
func (s *store) form(voters []Voter, timestamp int64) error {
	_, ok, err := readState(s.fs, s.dir)
	if err != nil {
		return err
	}
	if len(voters) > 1 && !ok {
		if err := writeState(s.fs, s.dir, 0, kafka.NoNode, nil); err != nil {
			return fmt.Errorf("form the metadata log: %w", err)
		}
	}
	first := snapshot{index: 1, timestamp: timestamp, voters: votersAt{index: 1, voters: voters}}
	size, err := writeSnapshotFile(s.fs, s.dir, first, func(func([]byte) error) error { return nil })
	if err != nil {
		return fmt.Errorf("form the metadata log: %w", err)
	}
	first.sizeBytes = size
	s.snapshots = []snapshot{first}
	return nil
}

// dropSnapshotsBefore removes snapshots after which the log has a gap. The newest must not be one of them.
func (s *store) dropSnapshotsBefore(firstSegment kafka.Offset) error {
	for firstSegment > s.snapshots[0].id.EndOffset {
		if len(s.snapshots) == 1 {
			return fmt.Errorf("%s: the log begins at offset %d, but the newest snapshot ends at %d; restore the missing files",
				s.dir, firstSegment, s.snapshots[0].id.EndOffset)
		}
		if err := s.fs.Remove(filepath.Join(s.dir, s.snapshots[0].id.file())); err != nil {
			return err
		}
		s.snapshots = s.snapshots[1:]
	}
	return nil
}

// recover brings positions, term, vote and commit index back.
func (s *store) recover(o Options, newest snapshot, anew bool) error {
	if s.log.LogEnd() < newest.id.EndOffset {
		// The snapshot came from a leader, and the crash before the log was cut to it.
		if err := s.log.TruncateFullyAt(newest.id.EndOffset); err != nil {
			return err
		}
	}
	if err := s.scan(newest); err != nil {
		return fmt.Errorf("scan the metadata log from offset %d: %w", newest.id.EndOffset, err)
	}
	state, ok, err := readState(s.fs, s.dir)
	if err != nil {
		return err
	}
	commit, err := readCommit(s.fs, s.dir)
	if err != nil {
		return err
	}
	last := s.lastIndex()
	votes, several := false, false
	for _, set := range append([][]Voter{newest.voters.voters}, s.sets...) {
		_, mine := find(set, Voter{ID: o.NodeID, DirID: o.DirID})
		votes, several = votes || mine, several || len(set) > 1
	}
	// Others may count on a node that its log does not name: the voter set that does may be lost with the rest, or on its way.
	counted := !anew && (votes && several || !votes && o.CanVote && max(last, commit) > 1)
	if !ok && counted {
		return fmt.Errorf("%s has no %s, so whom this node voted for is not known: %w", s.dir, stateFile, errLost)
	}
	var epoch kafka.Epoch
	var vote uint64
	if ok {
		epoch = max(state.LeaderEpoch, 0)
		if vote, err = votedFor(state, o); err != nil {
			return err
		}
	}
	if logged := s.positions[len(s.positions)-1].epoch; logged > epoch {
		// Lost, or older than the log. A sole voter cannot have voted for anybody else in that term.
		epoch, vote = logged, 0
	}
	commit = max(commit, newest.index)
	switch {
	case commit <= last:
	case counted:
		return fmt.Errorf("%s: the log ends with raft index %d, but entries up to %d were committed: %w", s.dir, last, commit, errLost)
	case votes:
		return fmt.Errorf("%s: the log ends with raft index %d, but entries up to %d were committed; "+
			"the disk has lost metadata, and nothing here can bring it back", s.dir, last, commit)
	default:
		// It promised nothing to anybody, and the leader has what is missing. The next start must not miss it again.
		commit = newest.index
		if err := writeCommit(s.fs, s.dir, commit); err != nil {
			return fmt.Errorf("store the commit index: %w", err)
		}
	}
	if !ok {
		// Raft tells only what changes, and a voter must have one when it starts the next time.
		if err := writeState(s.fs, s.dir, epoch, kafka.NoNode, nil); err != nil {
			return fmt.Errorf("store term and vote: %w", err)
		}
	}
	s.sets = nil
	s.stored = &pb.HardState{Term: new(uint64(epoch)), Vote: new(vote), Commit: new(commit)}
	s.initialConf = confState(newest.voters.voters, o.DirID)
	return nil
}

// votedFor returns the raft id of whom this node voted for, 0 for nobody.
func votedFor(state quorumState, o Options) (uint64, error) {
	switch {
	case state.VotedID < 0:
		return 0, nil
	case state.DataVersion == 0 && state.VotedID == o.NodeID:
		return raftID(o.DirID), nil // a version that has no directory ids
	}
	dir, err := kafka.ParseUUID(state.VotedDirID)
	if err != nil {
		return 0, fmt.Errorf("%s: votedDirectoryId: %w", stateFile, err)
	}
	return raftID(dir), nil
}

// scan fills positions with what follows the snapshot.
func (s *store) scan(from snapshot) error {
	s.first = from.index
	s.positions = []position{{end: from.id.EndOffset, timestamp: from.timestamp, epoch: from.id.Epoch}}
	return s.eachBatch(from.id.EndOffset, s.log.LogEnd(), func(b batch.Batch) error {
		last := s.positions[len(s.positions)-1]
		if b.BaseOffset() != last.end || b.LeaderEpoch() < last.epoch {
			return fmt.Errorf("batch at offset %d of epoch %d follows offset %d of epoch %d", b.BaseOffset(), b.LeaderEpoch(), last.end, last.epoch)
		}
		s.positions = append(s.positions, positionOf(b))
		if !b.Control() {
			return nil
		}
		if err := s.keepVoters(b); err != nil {
			return err
		}
		return checkIndex(b, s.lastIndex())
	})
}

// keepVoters notes a voter set that the log states after the snapshot, committed or not.
func (s *store) keepVoters(b batch.Batch) error {
	return eachControl(b, func(kind batch.ControlType, value []byte) error {
		if kind != batch.ControlKRaftVoters {
			return nil
		}
		voters, _, err := parseVoters(value)
		s.sets = append(s.sets, voters)
		return err
	})
}
