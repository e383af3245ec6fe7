package commitlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

// Checked is what Verify found in one file.
type Checked struct {
	Path    string
	Bytes   int64
	Batches int64    // of a log file
	Damage  []Damage // of a log file
	// Unfinished is how many bytes at the end of the last log file are no whole batch: after a crash that is no damage,
	// and the next Open cuts them off.
	Unfinished int64
	Fault      string // what is wrong with another file, which the next Open makes anew from the log
}

// VerifyOptions says how Verify works.
type VerifyOptions struct {
	Clean bool            // the log was closed, so that nothing can be unfinished
	Read  func(bytes int) // is told of what was read; nil: nobody is
	Each  func(Checked)   // is told of each file, as soon as it is done
}

// Verify reads all files of the log in dir, which nobody has open, and changes nothing.
func Verify(fsys vfs.FS, dir string, o VerifyOptions) error {
	entries, err := fsys.List(dir)
	if err != nil {
		return err
	}
	if o.Read == nil {
		o.Read = func(int) {}
	}
	v := verification{fs: fsys, dir: dir, o: o, names: map[string]vfs.Entry{}}
	for _, e := range entries {
		v.names[e.Name] = e
		if base, suffix, ok := parseName(e.Name); ok && suffix == logSuffix {
			v.bases = append(v.bases, base) // List sorts by name, which is by offset
		}
	}
	for i := range v.bases {
		if err := v.segment(i); err != nil {
			return err
		}
	}
	for _, e := range entries {
		if err := v.small(e); err != nil {
			return err
		}
	}
	return nil
}

type verification struct {
	fs    vfs.FS
	dir   string
	o     VerifyOptions
	names map[string]vfs.Entry
	bases []kafka.Offset
}

// batchAt is what index entries can be compared with.
type batchAt struct {
	pos       int64
	timestamp int64
	abort     bool // an abort marker
}

// segment checks a log file, and its index files against it.
func (v *verification) segment(i int) error {
	base := v.bases[i]
	e := v.names[fileName(base, logSuffix)]
	path := filepath.Join(v.dir, e.Name)
	f, err := v.fs.Open(path, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	next := kafka.Offset(1<<63 - 1)
	if i+1 < len(v.bases) {
		next = v.bases[i+1]
	}
	found := map[kafka.Offset]batchAt{}
	c := Checked{Path: path, Bytes: e.Size}
	holes, err := verifyLog(f, base, next, e.Size, func(b batch.Batch, pos int64) error {
		v.o.Read(len(b))
		c.Batches++
		m, err := endMarker(b)
		found[b.LastOffset()] = batchAt{pos: pos, timestamp: b.MaxTimestamp(), abort: err == nil && m != nil && !m.commit}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	for _, h := range holes {
		if h.end == e.Size && i == len(v.bases)-1 && (!v.o.Clean || allZeros(f, h.pos, h.end)) {
			c.Unfinished = h.end - h.pos
			continue
		}
		c.Damage = append(c.Damage, h.damage(base))
	}
	v.o.Each(c)
	return v.indexes(base, found)
}

func (h hole) damage(segment kafka.Offset) Damage {
	return Damage{Segment: segment, Position: h.pos, Bytes: h.end - h.pos, From: h.from, To: h.to}
}

func allZeros(f io.ReaderAt, pos, end int64) bool {
	buf := make([]byte, scanBytes)
	for pos < end {
		n, _ := f.ReadAt(buf[:min(int64(len(buf)), end-pos)], pos)
		if n == 0 || len(bytes.Trim(buf[:n], "\x00")) > 0 {
			return false
		}
		pos += int64(n)
	}
	return true
}

// verifyLog calls f for each batch of a log file that is whole, matches its CRC and is in its place, and returns what lies
// between them.
func verifyLog(r io.ReaderAt, base, next kafka.Offset, size int64, f func(b batch.Batch, pos int64) error) ([]hole, error) {
	s := scanner{f: r, end: size}
	var holes []hole
	for least := base; s.pos < size; {
		pos := s.pos
		b, err := s.next()
		if err == nil {
			err = b.VerifyCRC()
		}
		if err == nil && (b.BaseOffset() < least || b.LastOffsetDelta() < 0 || b.NextOffset() > next) {
			err = batch.ErrCorrupt
		}
		if errors.Is(err, batch.ErrCorrupt) || errors.Is(err, batch.ErrShort) {
			h := hole{pos: pos, end: size, from: least, to: next}
			end, to, err := nextWhole(r, pos+1, size, least, next)
			if err != nil {
				return nil, err
			}
			if end >= 0 {
				h.end, h.to = end, to
			}
			holes = append(holes, h)
			s.pos, s.buf, least = h.end, nil, h.to
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := f(b, pos); err != nil {
			return nil, err
		}
		least = b.NextOffset()
	}
	return holes, nil
}

// indexes compares what the index files of a segment say with its batches.
func (v *verification) indexes(base kafka.Offset, found map[kafka.Offset]batchAt) error {
	for _, x := range []struct {
		suffix string
		width  int
		needed bool
		good   func(entry []byte) bool
	}{
		{indexSuffix, offsetWidth, true, func(e []byte) bool {
			at, ok := found[entryOffset(e, base)]
			return ok && at.pos == entryPosition(e)
		}},
		{timeIndexSuffix, timeWidth, true, func(e []byte) bool {
			at, ok := found[entryTimeOffset(e, base)]
			return ok && at.timestamp == entryTimestamp(e)
		}},
		{txnIndexSuffix, txnWidth, false, func(e []byte) bool {
			t, err := parseAbortedTxn(e)
			return err == nil && t.FirstOffset < t.LastOffset && found[t.LastOffset].abort
		}},
	} {
		e, exists := v.names[fileName(base, x.suffix)]
		c := Checked{Path: filepath.Join(v.dir, fileName(base, x.suffix)), Bytes: e.Size}
		switch {
		case !exists && !x.needed:
			continue
		case !exists:
			c.Fault = "is missing"
		default:
			content, err := vfs.ReadFile(v.fs, c.Path)
			if err != nil {
				return err
			}
			v.o.Read(len(content))
			c.Fault = entriesFault(content, x.width, x.good)
		}
		v.o.Each(c)
	}
	return nil
}

// entriesFault says what is wrong with the entries of an index, "" if nothing is. The zeros that an active segment's files
// end with are no entries.
func entriesFault(content []byte, width int, good func(entry []byte) bool) string {
	for at := 0; at < len(content); at += width {
		rest := content[at:]
		if len(rest) >= width && good(rest[:width]) {
			continue
		}
		if len(bytes.Trim(rest, "\x00")) == 0 {
			return ""
		}
		if len(rest) < width {
			return fmt.Sprintf("ends inside entry %d", at/width)
		}
		return fmt.Sprintf("entry %d does not belong to the log", at/width)
	}
	return ""
}

// small checks a file that is read whole.
func (v *verification) small(e vfs.Entry) error {
	var parse func(b []byte) error
	switch suffix := filepath.Ext(e.Name); {
	case suffix == snapshotSuffix:
		parse = func(b []byte) error { _, err := parseSnapshot(b, 0); return err }
	case suffix == sequencesSuffix:
		parse = func(b []byte) error { return new(producers).addSequences(b) }
	case e.Name == epochsName:
		parse = func(b []byte) error { _, err := parseEpochs(b); return err }
	case e.Name == partitionMetadataName:
		parse = func([]byte) error { _, err := ReadPartitionMetadata(v.fs, v.dir); return err }
	case strings.HasSuffix(e.Name, snapshotRecordsSuffix):
		return v.records(e)
	default:
		return nil
	}
	path := filepath.Join(v.dir, e.Name)
	content, err := vfs.ReadFile(v.fs, path)
	if err != nil {
		return err
	}
	v.o.Read(len(content))
	c := Checked{Path: path, Bytes: e.Size}
	if err := parse(content); err != nil {
		c.Fault = err.Error()
	}
	v.o.Each(c)
	return nil
}

// snapshotRecordsSuffix ends the name of a snapshot of the metadata log: record batches, from offset 0 on.
const snapshotRecordsSuffix = ".checkpoint"

func (v *verification) records(e vfs.Entry) error {
	path := filepath.Join(v.dir, e.Name)
	f, err := v.fs.Open(path, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	c := Checked{Path: path, Bytes: e.Size}
	holes, err := verifyLog(f, 0, 1<<63-1, e.Size, func(b batch.Batch, _ int64) error {
		v.o.Read(len(b))
		c.Batches++
		return nil
	})
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	for _, h := range holes {
		c.Damage = append(c.Damage, h.damage(0))
	}
	v.o.Each(c)
	return nil
}
