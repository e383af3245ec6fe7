package quorum

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	pb "go.etcd.io/raft/v3/raftpb"

	"go.etcd.io/raft/v3"

	"moldau/internal/invariant"
	"moldau/internal/peer"
	"moldau/internal/vfs"
)

// A follower that is too far behind for entries gets a snapshot. What travels with raft's message is its name. The file is
// fetched as an observer would, to a .part; once it is whole raft is told, and when raft wants it, it takes the log's place.

// installSuffix marks a whole snapshot of a leader for which the log has not been emptied yet. On open that is done first.
const installSuffix = snapshotSuffix + ".installing"

// takeSnapshotMessage gets a MsgSnap ready for raft. It is false when raft must not see it, at least not now.
func (q *Quorum) takeSnapshotMessage(ctx context.Context, a arrival, status raft.BasicStatus) bool {
	m := a.message
	id, ok := parseSnapshotName(string(m.GetSnapshot().GetData()) + snapshotSuffix)
	if !ok || m.GetTerm() < status.HardState.GetTerm() {
		return false
	}
	if a.snapshot != nil {
		q.dropDownload(a.snapshot.id)
		q.downloaded = a.snapshot
	}
	q.mu.Lock()
	superfluous := id.EndOffset <= q.highWatermark
	q.mu.Unlock()
	switch d := q.downloaded; {
	case superfluous:
		// Raft answers with what it has committed.
		m.Snapshot.Metadata = &pb.SnapshotMetadata{Index: new(uint64(1)), Term: new(uint64(0)), ConfState: pb.EnsureConfState(nil)}
		return true
	case d != nil && d.id == id:
		m.Snapshot.Metadata = &pb.SnapshotMetadata{Index: new(d.index), Term: new(uint64(id.Epoch)), ConfState: confState(d.voters.voters, q.self.DirID)}
		return true
	}
	q.startDownload(ctx, a, id)
	return false
}

// dropDownload forgets a file that was fetched for nothing, unless it is the one that is wanted.
func (q *Quorum) dropDownload(wanted SnapshotID) {
	if q.downloaded != nil && q.downloaded.id != wanted {
		// What stays is removed by the next start.
		_ = q.store.fs.Remove(filepath.Join(q.store.dir, q.downloaded.id.String()+partSuffix))
		q.downloaded = nil
	}
}

// startDownload fetches the snapshot that a message names, unless a snapshot is being fetched, and then hands the message in
// again.
func (q *Quorum) startDownload(ctx context.Context, a arrival, id SnapshotID) {
	address, ok := q.address(a.from)
	if !ok || !q.beginDownload() {
		return
	}
	q.dropDownload(id)
	q.goroutines.Go(func() {
		s, err := func() (*snapshot, error) {
			defer q.endDownload()
			conn, err := q.dial(ctx, address)
			if err != nil {
				return nil, err
			}
			defer conn.Close()
			return q.download(ctx, conn, id, int32(a.message.GetTerm()))
		}()
		if err != nil {
			q.o.Logger.Warn("cannot fetch a metadata snapshot", "snapshot", id.String(), "leader", a.from.ID, "err", err)
			return
		}
		a.snapshot = s
		if err := q.enqueue(a); err != nil {
			q.o.Logger.Debug("a metadata snapshot came too late", "snapshot", id.String(), "err", err)
		}
	})
}

func (q *Quorum) beginDownload() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.downloading || q.stopped {
		return false
	}
	q.downloading = true
	return true
}

func (q *Quorum) endDownload() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.downloading = false
}

// download fetches a snapshot file from the leader of an epoch, and looks at all of it.
func (q *Quorum) download(ctx context.Context, conn *peer.Conn, id SnapshotID, epoch int32) (*snapshot, error) {
	path := filepath.Join(q.store.dir, id.String()+partSuffix)
	f, err := q.store.fs.Open(path, vfs.Create|vfs.Truncate)
	if err != nil {
		return nil, err
	}
	err = q.fetchFile(ctx, conn, f, id, epoch)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		var s snapshot
		if s, err = readWholeSnapshot(q.store.fs, path, id); err == nil {
			return &s, nil
		}
	}
	return nil, errors.Join(err, q.store.fs.Remove(path))
}

// maxSnapshotBytes bounds what another node can make this one fetch. The snapshot of a million partitions has 200 MB.
const maxSnapshotBytes = 4 << 30

func (q *Quorum) fetchFile(ctx context.Context, conn *peer.Conn, f vfs.File, id SnapshotID, epoch int32) error {
	usage, err := q.store.fs.Usage(q.store.dir)
	if err != nil {
		return err
	}
	most := min(maxSnapshotBytes, usage.Free/2) // the log and what else is on the disk go on
	for position, size := int64(0), int64(-1); ; {
		chunk, err := q.fetchChunk(ctx, conn, id, epoch, position)
		if err != nil {
			return err
		}
		if size < 0 {
			size = chunk.Size
		}
		if err := checkChunk(chunk, position, size, most); err != nil {
			return err
		}
		if _, err := f.WriteAt(chunk.Bytes, position); err != nil {
			return err
		}
		if position += int64(len(chunk.Bytes)); position == chunk.Size {
			return nil
		}
	}
}

// checkChunk refuses a piece that is none of a file of that size, or of one that is too large.
func checkChunk(chunk SnapshotChunk, position, size, most int64) error {
	switch n := int64(len(chunk.Bytes)); {
	case chunk.Size != size:
		return fmt.Errorf("a file of %d bytes became one of %d", size, chunk.Size)
	case size > most:
		return fmt.Errorf("a file of %d bytes, and at most %d are taken", size, most)
	case n == 0 || n > size-position:
		return fmt.Errorf("%d bytes at %d of a file of %d", n, position, size)
	}
	return nil
}

// install puts the snapshot that was fetched in the place of the log and of the Listener's state. After an error that says that the
// disk is full it goes on when called again.
func (q *Quorum) install(s *pb.Snapshot) error {
	d := q.downloaded
	invariant.Check(d != nil && d.index == s.GetMetadata().GetIndex(), "raft took a snapshot up to entry %d that was not fetched", s.GetMetadata().GetIndex())
	q.mu.Lock()
	q.installing = true // the Listener's goroutine reads the log no more
	q.mu.Unlock()
	if err := q.store.install(*d); err != nil {
		return fmt.Errorf("install metadata snapshot %v: %w", d.id, err)
	}
	q.downloaded = nil
	q.conf = confState(d.voters.voters, q.self.DirID).GetVoters()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.installing, q.replaced = false, true
	q.highWatermark, q.commit = d.id.EndOffset, d.index
	q.members = members{sets: []votersAt{d.voters}}
	q.sinceSnapshot = 0
	q.snapshotEra++
	q.forgetStrangersLocked()
	q.followLocked()
	q.changeLocked()
	signal(q.applyWake)
	signal(q.errandWake)
	q.o.Logger.Info("metadata snapshot installed", "snapshot", d.id.String(), "bytes", d.sizeBytes)
	return nil
}

func (s *store) install(d snapshot) error {
	mark := filepath.Join(s.dir, d.id.String()+installSuffix)
	marked, err := vfs.Exists(s.fs, mark) // by a try for which there was no space
	if err != nil {
		return err
	}
	if !marked {
		if err := publish(s.fs, filepath.Join(s.dir, d.id.String()+partSuffix), mark); err != nil {
			return err
		}
	}
	return s.finishInstall(d)
}

// finishInstall empties the log and makes the snapshot the only one. It is the second half of install, and what open does when
// a crash came between the halves: the log and the snapshots before it may have gaps to each other only while the mark is there.
func (s *store) finishInstall(d snapshot) error {
	if err := s.log.TruncateFullyAt(d.id.EndOffset); err != nil {
		return err
	}
	s.mu.Lock()
	old := s.snapshots
	s.snapshots = []snapshot{d}
	s.first, s.positions = d.index, []position{{end: d.id.EndOffset, timestamp: d.timestamp, epoch: d.id.Epoch}}
	s.mu.Unlock()
	s.tail, s.tailBytes = nil, 0
	for _, o := range old {
		if o.id == d.id {
			continue
		}
		if err := s.fs.Remove(filepath.Join(s.dir, o.id.file())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return publish(s.fs, filepath.Join(s.dir, d.id.String()+installSuffix), filepath.Join(s.dir, d.id.file()))
}

// addSnapshot makes a written snapshot the newest, and forgets the positions before the second newest: the entries between
// stay readable for voters that are a little behind. It is false when a newer one was installed meanwhile.
func (s *store) addSnapshot(added snapshot) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.snapshots[len(s.snapshots)-1].id.EndOffset >= added.id.EndOffset {
		return false
	}
	s.snapshots = append(slices.Clip(s.snapshots), added)
	s.forgetPositionsLocked(s.snapshots[len(s.snapshots)-2].index)
	return true
}
