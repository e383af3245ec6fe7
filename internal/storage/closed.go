package storage

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"moldau/internal/commitlog"
	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

// closedFile is what a clean stop knew of the logs that it has closed, so that the next start need not read their files to
// find out. It counts only beside the clean mark, and each of its entries only while the folder that it is of has not changed.
const closedFile = "moldau.closed"

// closedMagic starts the file; its last byte is the version, of the summaries too. Entries like the journal's follow.
// docs/format/closed.md has every byte.
const closedMagic = "MOLDAUC\x01"

// closedLog is one entry.
type closedLog struct {
	id      kafka.TopicID
	summary []byte // commitlog's
}

// closedLogs is the content of the file.
type closedLogs map[kafka.TopicPartition]closedLog

// parseClosed reads the file's bytes, as far as they are whole: what is missing is found in the folders.
func parseClosed(content []byte) closedLogs {
	logs := closedLogs{}
	if len(content) < len(closedMagic) || string(content[:len(closedMagic)]) != closedMagic {
		return logs
	}
	for rest := content[len(closedMagic):]; ; {
		payload, n := nextEntry(rest)
		if n == 0 {
			return logs
		}
		rest = rest[n:]
		r := entryReader{b: payload}
		var l closedLog
		copy(l.id[:], r.bytes(len(l.id)))
		partition := r.uvarint()
		topic := string(r.bytes(int(min(r.uvarint(), maxEntryBytes))))
		if r.bad || partition > 1<<31-1 {
			return logs
		}
		l.summary = r.b
		logs[kafka.TopicPartition{Topic: topic, Partition: int32(partition)}] = l
	}
}

// encode returns the file's bytes.
func (logs closedLogs) encode() []byte {
	tps := make([]kafka.TopicPartition, 0, len(logs))
	for tp := range logs {
		tps = append(tps, tp)
	}
	slices.SortFunc(tps, compareTP)
	b := []byte(closedMagic)
	for _, tp := range tps {
		at := len(b)
		b = appendEntry(b, func(b []byte) []byte {
			l := logs[tp]
			b = append(b, l.id[:]...)
			b = binary.AppendUvarint(b, uint64(tp.Partition))
			b = binary.AppendUvarint(b, uint64(len(tp.Topic)))
			b = append(b, tp.Topic...)
			return append(b, l.summary...)
		})
		if len(b)-at > entryHeaderSize+maxEntryBytes {
			b = b[:at] // of a log with thousands of epochs
		}
	}
	return b
}

// loadClosed reads the file.
func (d *Directory) loadClosed() error {
	if !d.clean {
		return nil
	}
	content, err := vfs.ReadFile(d.o.FS, filepath.Join(d.path, closedFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	d.closed = parseClosed(content)
	return nil
}

// storeClosed writes the file anew: summaries are those of logs, in their order. Those of folders that this run has not
// opened are as good as they were.
func (d *Directory) storeClosed(logs []*Log, summaries [][]byte) error {
	closed := closedLogs{}
	d.s.mu.Lock()
	for tp, l := range d.closed {
		if d.s.folders[tp] == d {
			closed[tp] = l
		}
	}
	d.s.mu.Unlock()
	for i, l := range logs {
		if summaries[i] != nil && l.future == "" {
			closed[l.tp] = closedLog{l.id, summaries[i]}
		}
	}
	return vfs.WriteFileAtomic(d.o.FS, filepath.Join(d.path, closedFile), closed.encode())
}

// takeClosed returns what is known of a partition's log as the last stop has closed it, once; nil if nothing is.
func (s *Store) takeClosed(d *Directory, tp kafka.TopicPartition, id kafka.TopicID) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := d.closed[tp]
	delete(d.closed, tp)
	if l.id != id {
		return nil
	}
	return l.summary
}

// openClosed opens a log by what the last stop knew of it, which also proves whose folder it is. nil: the folder has changed since, or
// nobody knows.
func (s *Store) openClosed(d *Directory, tp kafka.TopicPartition, id kafka.TopicID, cfg commitlog.Config) (*Log, error) {
	summary := s.takeClosed(d, tp, id)
	if summary == nil {
		return nil, nil
	}
	l, err := s.open(d, tp, id, cfg, opening{folder: tp.String(), summary: summary})
	if errors.Is(err, commitlog.ErrChanged) {
		return nil, nil
	}
	return l, err
}
