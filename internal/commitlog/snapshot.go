package commitlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"slices"

	"moldau/internal/invariant"
	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

// A producer snapshot: version 1, CRC-32C of all after it, number of entries, then per producer id, epoch, last sequence,
// last offset, offset delta, timestamp, coordinator epoch and the first offset of its open transaction. Mirrors
// ProducerStateManager and ProducerSnapshot.json.
const (
	snapshotVersion    = 1
	snapshotHeader     = 2 + 4 + 4
	snapshotEntryBytes = 8 + 2 + 4 + 8 + 4 + 8 + 4 + 8
)

func (ps *producers) encode() []byte {
	be := binary.BigEndian
	b := make([]byte, 6, snapshotHeader+len(ps.byID)*snapshotEntryBytes)
	be.PutUint16(b, snapshotVersion)
	b = be.AppendUint32(b, uint32(len(ps.byID)))
	for _, p := range ps.sorted() {
		last, _ := p.last()
		b = be.AppendUint64(b, uint64(p.id))
		b = be.AppendUint16(b, uint16(p.epoch))
		b = be.AppendUint32(b, uint32(last.lastSequence))
		b = be.AppendUint64(b, uint64(last.lastOffset))
		b = be.AppendUint32(b, uint32(last.offsetDelta))
		b = be.AppendUint64(b, uint64(p.lastTimestamp))
		b = be.AppendUint32(b, uint32(p.coordinatorEpoch))
		b = be.AppendUint64(b, uint64(p.txnStart))
	}
	be.PutUint32(b[2:], crc32.Checksum(b[6:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// parseSnapshot reads a snapshot. The producers count as seen now.
func parseSnapshot(b []byte, nowMs int64) (producers, error) {
	be := binary.BigEndian
	none := producers{}
	if len(b) < snapshotHeader {
		return none, fmt.Errorf("%d bytes are fewer than a header", len(b))
	}
	if v := be.Uint16(b); v != snapshotVersion {
		return none, fmt.Errorf("version %d, want %d", v, snapshotVersion)
	}
	if sum := crc32.Checksum(b[6:], crc32.MakeTable(crc32.Castagnoli)); sum != be.Uint32(b[2:]) {
		return none, fmt.Errorf("CRC %08x, its bytes give %08x", be.Uint32(b[2:]), sum)
	}
	n := int64(be.Uint32(b[6:]))
	if int64(len(b)) != snapshotHeader+n*snapshotEntryBytes {
		return none, fmt.Errorf("%d bytes do not hold %d producers", len(b), n)
	}
	ps := producers{byID: make(map[int64]*producer, n)}
	for e := b[snapshotHeader:]; len(e) > 0; e = e[snapshotEntryBytes:] {
		p := &producer{
			id: int64(be.Uint64(e)), epoch: int16(be.Uint16(e[8:])), lastTimestamp: int64(be.Uint64(e[26:])), seenMs: nowMs,
			coordinatorEpoch: int32(be.Uint32(e[34:])), txnStart: max(-1, int64(be.Uint64(e[38:]))),
		}
		last := sentBatch{
			lastSequence: int32(be.Uint32(e[10:])), lastOffset: int64(be.Uint64(e[14:])),
			offsetDelta: int32(be.Uint32(e[22:])), timestamp: p.lastTimestamp,
		}
		if last.lastOffset >= 0 {
			p.add(last)
		}
		if p.txnStart >= 0 {
			ps.open = append(ps.open, openTxn{first: p.txnStart, id: p.id})
		}
		ps.byID[p.id] = p
	}
	slices.SortFunc(ps.open, func(a, b openTxn) int { return int(a.first - b.first) })
	return ps, nil
}

func (l *Log) snapshotPath(offset kafka.Offset) string {
	return filepath.Join(l.dir, fileName(offset, snapshotSuffix))
}

// heldSnapshot is a producer snapshot that waits in memory until all below its offset is on disk. A snapshot file is a
// promise: recovery begins at one and trusts what lies before.
type heldSnapshot struct {
	offset    kafka.Offset
	content   []byte
	sequences []byte // content of the companion file, nil if there is none
}

// holdSnapshotLocked takes the producers' state at the log end, for the next sync to write.
func (l *Log) holdSnapshotLocked() {
	if n := len(l.held); n > 0 && l.held[n-1].offset == l.logEnd || slices.Contains(l.snapshots, l.logEnd) ||
		l.logEnd == l.firstBaseLocked() && len(l.producers.byID) == 0 {
		return
	}
	l.held = append(l.held, heldSnapshot{offset: l.logEnd, content: l.producers.encode(), sequences: l.producers.encodeSequences()})
}

// writeSnapshotsLocked writes the held snapshots up to an offset, and returns their open files, which have to be synced
// and closed. After an error none of them is there, and all are held.
func (l *Log) writeSnapshotsLocked(upTo kafka.Offset) (files []vfs.File, err error) {
	var paths []string
	write := func(path string, content []byte) error {
		f, err := l.fs.Open(path, vfs.Create|vfs.Truncate)
		if err != nil {
			return err
		}
		files, paths = append(files, f), append(paths, path)
		_, err = f.WriteAt(content, 0)
		return err
	}
	n := 0
	for ; n < len(l.held) && l.held[n].offset <= upTo && err == nil; n++ {
		h := l.held[n]
		if h.offset == upTo && h.sequences != nil { // recovery begins here; the others are only for Kafka and for truncations
			err = write(l.sequencesPath(h.offset), h.sequences)
		}
		if err == nil {
			err = write(l.snapshotPath(h.offset), h.content)
		}
	}
	if err != nil {
		for i, f := range files {
			err = errors.Join(err, f.Close(), l.fs.Remove(paths[i]))
		}
		return nil, err
	}
	for _, h := range l.held[:n] {
		if h.offset == upTo && h.sequences != nil {
			l.sequences = append(l.sequences, h.offset)
		}
		if i, found := slices.BinarySearch(l.snapshots, h.offset); !found {
			l.snapshots = slices.Insert(l.snapshots, i, h.offset)
		}
	}
	l.held = l.held[n:]
	return files, nil
}

// syncPromise makes durable what promiseLocked has done, and closes the files.
func (l *Log) syncPromise(f *Flush, snapshots []vfs.File) error {
	var errs []error
	for _, s := range snapshots {
		errs = append(errs, s.SyncData(), s.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return l.fs.SyncDir(f.dir)
}

// removeSnapshotsLocked removes the snapshots for which drop holds.
func (l *Log) removeSnapshotsLocked(drop func(kafka.Offset) bool) error {
	l.held = slices.DeleteFunc(l.held, func(h heldSnapshot) bool { return drop(h.offset) })
	errs := []error{l.removeSequencesLocked(drop)}
	l.snapshots = slices.DeleteFunc(l.snapshots, func(offset kafka.Offset) bool {
		if !drop(offset) {
			return false
		}
		if err := l.fs.Remove(l.snapshotPath(offset)); err != nil && !notExist(err) {
			errs = append(errs, err)
		}
		return true
	})
	return errors.Join(errs...)
}

// loadSnapshotLocked sets the producers' state to that of the newest readable snapshot at or below upTo and returns its
// offset. Without one the state is empty and the offset that of the log's first segment. Unreadable ones are removed.
func (l *Log) loadSnapshotLocked(upTo kafka.Offset) (kafka.Offset, error) {
	for i := len(l.held) - 1; i >= 0; i-- {
		if h := l.held[i]; h.offset <= upTo { // newer than all on disk
			ps, err := parseSnapshot(h.content, l.now().UnixMilli())
			invariant.Check(err == nil, "%s: own producer snapshot at %d cannot be read: %v", l.tp, h.offset, err)
			l.producers = ps
			if h.sequences != nil {
				err := l.producers.addSequences(h.sequences)
				invariant.Check(err == nil, "%s: own sequences at %d cannot be read: %v", l.tp, h.offset, err)
			}
			return h.offset, nil
		}
	}
	for i := len(l.snapshots) - 1; i >= 0; i-- {
		offset := l.snapshots[i]
		if offset > upTo {
			continue
		}
		content, err := vfs.ReadFile(l.fs, l.snapshotPath(offset))
		if err == nil {
			var ps producers
			if ps, err = parseSnapshot(content, l.now().UnixMilli()); err == nil {
				l.producers = ps
				return offset, l.loadSequencesLocked(offset)
			}
		} else if !notExist(err) {
			return 0, err
		}
		l.logger.Warn("producer snapshot cannot be read, an older one and the log take its place",
			"file", l.snapshotPath(offset), "err", err)
		if err := l.removeSnapshotsLocked(func(o kafka.Offset) bool { return o == offset }); err != nil {
			return 0, err
		}
	}
	l.producers = producers{}
	return l.firstBaseLocked(), nil
}
