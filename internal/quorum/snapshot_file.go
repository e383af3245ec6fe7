package quorum

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"strconv"
	"strings"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

const (
	snapshotSuffix = ".checkpoint"
	partSuffix     = snapshotSuffix + ".part"    // being written
	deletedSuffix  = snapshotSuffix + ".deleted" // Apache Kafka's, on its way out

	// snapshotBatchBytes is where a batch of a snapshot is closed. Apache Kafka reads up to 8 MiB.
	snapshotBatchBytes = 256 << 10
)

// String returns "<offset>-<epoch>" as file names have it: twenty and ten digits.
func (id SnapshotID) String() string { return fmt.Sprintf("%020d-%010d", id.EndOffset, id.Epoch) }

func (id SnapshotID) file() string { return id.String() + snapshotSuffix }

// parseSnapshotName is the inverse of SnapshotID.file.
func parseSnapshotName(name string) (SnapshotID, bool) {
	stem, ok := strings.CutSuffix(name, snapshotSuffix)
	if !ok || len(stem) != 31 || stem[20] != '-' {
		return SnapshotID{}, false
	}
	end, errEnd := strconv.ParseInt(stem[:20], 10, 64)
	epoch, errEpoch := strconv.ParseInt(stem[21:], 10, 32)
	return SnapshotID{EndOffset: end, Epoch: kafka.Epoch(epoch)}, errEnd == nil && errEpoch == nil && end >= 0 && epoch >= 0
}

// snapshot is what the quorum knows of a snapshot file.
type snapshot struct {
	id        SnapshotID
	index     uint64 // of the last raft entry that it covers
	timestamp int64  // of the last record that it covers, in ms
	voters    votersAt
	sizeBytes int64
}

// writeSnapshotFile writes and publishes a snapshot, durably. All timestamps in it are s.timestamp, so that the same state
// makes the same bytes on every node. It returns the size.
func writeSnapshotFile(fsys vfs.FS, dir string, s snapshot, emit func(record func([]byte) error) error) (int64, error) {
	header := batch.SnapshotHeader{LastContainedLogTimestamp: s.timestamp, Tags: []batch.Tag{indexTag(s.index)}}
	w := snapshotWriter{id: s.id, timestamp: s.timestamp}
	return w.write(fsys, filepath.Join(dir, s.id.String()), []controlRecord{
		{batch.ControlSnapshotHeader, header.AppendTo(nil)}, kraftVersionRecord(), votersRecord(s.voters.voters),
	}, emit)
}

type snapshotWriter struct {
	file      vfs.File
	id        SnapshotID
	timestamp int64
	position  int64        // in the file
	next      kafka.Offset // of the next record; a snapshot counts its own from 0
	open      *batch.Builder
}

// write writes a file, of whose path stem is what comes before the suffix, and publishes it, durably. It returns the size.
func (w *snapshotWriter) write(fsys vfs.FS, stem string, head []controlRecord, emit func(record func([]byte) error) error) (int64, error) {
	part := stem + partSuffix
	var err error
	if w.file, err = fsys.Open(part, vfs.Create|vfs.Truncate); err != nil {
		return 0, err
	}
	err = w.fill(head, emit)
	if err == nil {
		err = w.file.Sync()
	}
	if err = errors.Join(err, w.file.Close()); err != nil {
		return 0, errors.Join(err, fsys.Remove(part))
	}
	return w.position, publish(fsys, part, stem+snapshotSuffix)
}

func (w *snapshotWriter) fill(head []controlRecord, emit func(record func([]byte) error) error) error {
	if err := w.control(head...); err != nil {
		return err
	}
	if err := emit(w.record); err != nil {
		return err
	}
	if err := w.flush(); err != nil {
		return err
	}
	footer := batch.SnapshotFooter{}
	return w.control(controlRecord{batch.ControlSnapshotFooter, footer.AppendTo(nil)})
}

func (w *snapshotWriter) options() batch.BuildOptions {
	return batch.BuildOptions{BaseOffset: w.next, LeaderEpoch: w.id.Epoch}
}

func (w *snapshotWriter) control(records ...controlRecord) error {
	return w.append(controlBatch(w.options(), w.timestamp, records...))
}

func (w *snapshotWriter) record(value []byte) error {
	if w.open == nil {
		w.open = batch.NewBuilder(w.options())
	}
	w.open.Add(batch.Record{Timestamp: w.timestamp, Value: value})
	if w.open.Size() >= snapshotBatchBytes {
		return w.flush()
	}
	return nil
}

func (w *snapshotWriter) flush() error {
	if w.open == nil {
		return nil
	}
	b := w.open.Build()
	w.open = nil
	return w.append(b)
}

func (w *snapshotWriter) append(b batch.Batch) error {
	n, err := w.file.WriteAt(b, w.position)
	w.position += int64(n)
	w.next = b.NextOffset()
	return err
}

// readSnapshotHeader reads what the first batch of a snapshot file tells. A snapshot that Apache Kafka wrote has no index
// and may have no voters: the index then is one more than its end offset, which for the snapshot 0-0 is what we give it.
func readSnapshotHeader(fsys vfs.FS, path string, id SnapshotID) (s snapshot, err error) {
	s = snapshot{id: id, index: uint64(id.EndOffset) + 1}
	err = openSnapshot(fsys, path, func(f vfs.File, size int64) error {
		s.sizeBytes = size
		for b, err := range fileBatches(f, size) {
			if err != nil {
				return err
			}
			return s.readHeader(b)
		}
		return errors.New("is empty")
	})
	return s, err
}

func (s *snapshot) readHeader(b batch.Batch) error {
	if !b.Control() {
		return errors.New("does not begin with a control batch")
	}
	found := false
	err := eachControl(b, func(kind batch.ControlType, value []byte) error {
		switch kind {
		case batch.ControlSnapshotHeader:
			var header batch.SnapshotHeader
			if err := header.ReadFrom(value); err != nil {
				return err
			}
			found = true
			s.timestamp = header.LastContainedLogTimestamp
			if index, ok := taggedIndex(header.Tags); ok {
				s.index = index
			}
		case batch.ControlKRaftVoters:
			voters, _, err := parseVoters(value)
			s.voters = votersAt{index: s.index, voters: voters, inLog: s.id.EndOffset > 0}
			return err
		}
		return nil
	})
	if err == nil && !found {
		err = errors.New("does not begin with a snapshot header")
	}
	s.voters.index = s.index
	return err
}

// readWholeSnapshot reads a snapshot file that came from elsewhere, to the end, and returns what its first batch tells. One that
// this program could not have written is refused: it has no index, or nobody may vote.
func readWholeSnapshot(fsys vfs.FS, path string, id SnapshotID) (snapshot, error) {
	s, err := readSnapshotHeader(fsys, path, id)
	if err != nil {
		return s, err
	}
	if len(s.voters.voters) == 0 || s.index == 0 || s.index > maxIndex {
		return s, fmt.Errorf("snapshot %s: covers %d entries and has %d voters", path, s.index, len(s.voters.voters))
	}
	for _, err := range snapshotRecords(fsys, path) {
		if err != nil {
			return s, err
		}
	}
	return s, nil
}

// snapshotRecords yields the values of a snapshot's records, header and footer left out. A file without a footer is damaged.
// A value is valid until the next one.
func snapshotRecords(fsys vfs.FS, path string) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		stop := errors.New("stop")
		err := openSnapshot(fsys, path, func(f vfs.File, size int64) error {
			complete := false
			for b, err := range fileBatches(f, size) {
				if err != nil {
					return err
				}
				if b.Control() {
					err = eachControl(b, func(kind batch.ControlType, _ []byte) error {
						complete = complete || kind == batch.ControlSnapshotFooter
						return nil
					})
				} else {
					err = b.Each(func(r batch.Record) error {
						if !yield(r.Value, nil) {
							return stop
						}
						return nil
					})
				}
				if err != nil {
					return err
				}
			}
			if !complete {
				return errors.New("ends without a footer")
			}
			return nil
		})
		if err != nil && !errors.Is(err, stop) {
			yield(nil, err)
		}
	}
}

// openSnapshot calls use with the open file and adds the path to its error.
func openSnapshot(fsys vfs.FS, path string, use func(f vfs.File, size int64) error) (err error) {
	f, err := fsys.Open(path, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Size()
	if err != nil {
		return err
	}
	if err := use(f, size); err != nil {
		return fmt.Errorf("snapshot %s: %w", path, err)
	}
	return nil
}

// fileBatches yields the batches of a file one after the other, checked against their CRC. A batch is valid until the next.
func fileBatches(f io.ReaderAt, size int64) iter.Seq2[batch.Batch, error] {
	return func(yield func(batch.Batch, error) bool) {
		var buf []byte
		var head [batch.PeekSize]byte
		for at := int64(0); at < size; {
			b, err := readBatchAt(f, size, at, head[:], &buf)
			if err != nil {
				yield(nil, fmt.Errorf("at byte %d: %w", at, err))
				return
			}
			if !yield(b, nil) {
				return
			}
			at += int64(b.Size())
		}
	}
}

func readBatchAt(f io.ReaderAt, size, at int64, head []byte, buf *[]byte) (batch.Batch, error) {
	if size-at < int64(len(head)) {
		return nil, batch.ErrShort
	}
	if err := readFull(f, head, at); err != nil {
		return nil, err
	}
	n, _, _, err := batch.PeekHeader(head)
	if err != nil {
		return nil, err
	}
	if int64(n) > size-at {
		return nil, batch.ErrShort // before memory is made for it: a length is not to be believed
	}
	if cap(*buf) < n {
		*buf = make([]byte, n)
	}
	if err := readFull(f, (*buf)[:n], at); err != nil {
		return nil, err
	}
	b, _, err := batch.Next((*buf)[:n])
	if err != nil {
		return nil, err
	}
	return b, b.VerifyCRC()
}

func readFull(f io.ReaderAt, p []byte, at int64) error {
	n, err := f.ReadAt(p, at)
	if n == len(p) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return err
}
