package commitlog

import (
	"bytes"
	"errors"
	"io"
	"math"
	"path/filepath"

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
	Fault      string // what is wrong with another file, which is made anew from the log
	Spare      bool   // Fault matters to nobody: of a producer snapshot, or its sequences, behind which there is a newer one that is whole
	Unreadable error  // why the disk does not give the file, or gives a log file only up to its last Damage
}

// VerifyOptions says how Verify works.
type VerifyOptions struct {
	Clean bool            // the log was closed, so that nothing can be unfinished
	Read  func(bytes int) // is told of what was read; nil: nobody is
	Each  func(Checked)   // is told of each file, as soon as it is done
}

// Verify reads all files of the log in dir and changes nothing. Nobody should have it open: what is being written looks
// unfinished, and a file that is deleted meanwhile is passed over.
func Verify(fsys vfs.FS, dir string, o VerifyOptions) error {
	entries, err := fsys.List(dir)
	if err != nil {
		return err
	}
	if o.Read == nil {
		o.Read = func(int) {}
	}
	v := verification{fs: fsys, dir: dir, o: o, entries: map[string]vfs.Entry{}}
	for _, e := range entries {
		v.entries[e.Name] = e
		if base, suffix, ok := parseName(e.Name); ok && suffix == logSuffix {
			v.bases = append(v.bases, base) // List sorts by name, which is by offset
		}
	}
	for i := range v.bases {
		v.segment(i)
	}
	for _, e := range entries {
		v.small(e)
	}
	return nil
}

type verification struct {
	fs      vfs.FS
	dir     string
	o       VerifyOptions
	entries map[string]vfs.Entry
	bases   []kafka.Offset
}

// segment checks a log file, and its index files against it.
func (v *verification) segment(i int) {
	base, last := v.bases[i], i == len(v.bases)-1
	next := base + math.MaxInt32 + 1 // entries have no room for more
	if !last {
		next = v.bases[i+1]
	}
	x := newIndexCheck(base)
	indexes := []*indexFile{
		{name: fileName(base, indexSuffix), entries: &x.offsets, needed: true},
		{name: fileName(base, timeIndexSuffix), entries: &x.times, needed: true},
		{name: fileName(base, txnIndexSuffix), entries: &x.txns},
	}
	for _, f := range indexes {
		v.index(f)
	}
	c, ends, gone := v.batches(v.entries[fileName(base, logSuffix)], base, next, x.pass)
	if gone {
		return
	}
	if n := len(c.Damage); ends && last && c.Unreadable == nil {
		if h := c.Damage[n-1]; !v.o.Clean || v.zeros(c.Path, h) {
			c.Damage, c.Unfinished = c.Damage[:n-1], h.Bytes
		}
	}
	if last && !v.o.Clean {
		x.holed = true // entries may be of what the crash took
	}
	x.finish(c.Bytes)
	if v.o.Clean {
		x.wantsNewest()
	}
	v.o.Each(c)
	for _, f := range indexes {
		f.checked.Fault = f.entries.fault
		if f.checked.Unreadable != nil {
			f.checked.Fault = ""
		}
		if _, exists := v.entries[f.name]; exists || f.checked.Fault != "" {
			v.o.Each(f.checked)
		}
	}
}

// indexFile is one that is compared with the log beside it.
type indexFile struct {
	name    string
	entries *indexEntries
	needed  bool
	checked Checked
}

func (v *verification) index(f *indexFile) {
	e, exists := v.entries[f.name]
	f.checked = Checked{Path: filepath.Join(v.dir, f.name), Bytes: e.Size}
	if !exists {
		if f.needed {
			f.entries.wrong("is missing")
		}
		return
	}
	f.entries.left, f.checked.Unreadable = v.read(f.checked.Path)
	if f.checked.Unreadable != nil {
		f.entries.wrong("cannot be read")
	}
	if !v.o.Clean {
		f.entries.trim()
	}
}

func (v *verification) read(path string) ([]byte, error) {
	content, err := vfs.ReadFile(v.fs, path)
	v.o.Read(len(content))
	return content, err
}

// batches checks a file of record batches and calls f for those that are good. ends tells that the damage goes on to the end of the
// file, gone that there is no such file any more.
func (v *verification) batches(e vfs.Entry, base, next kafka.Offset, f func(b batch.Batch, pos int64)) (c Checked, ends, gone bool) {
	c = Checked{Path: filepath.Join(v.dir, e.Name), Bytes: e.Size}
	file, err := v.fs.Open(c.Path, 0)
	if err != nil {
		c.Unreadable = err
		return c, false, notExist(err)
	}
	defer file.Close()
	holes, err := verifyLog(file, base, next, e.Size, func(b batch.Batch, pos int64) error {
		v.o.Read(len(b))
		c.Batches++
		f(b, pos)
		return nil
	})
	c.Unreadable = err
	for _, h := range holes {
		c.Damage = append(c.Damage, h.damage(base))
		ends = h.end == e.Size
	}
	return c, ends, false
}

func (h hole) damage(segment kafka.Offset) Damage {
	return Damage{Segment: segment, Position: h.pos, Bytes: h.end - h.pos, From: h.from, To: h.to}
}

// zeros tells whether there is nothing but zeros where a log file is damaged.
func (v *verification) zeros(path string, d Damage) bool {
	f, err := v.fs.Open(path, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	buf := make([]byte, scanBytes)
	for pos, end := d.Position, d.Position+d.Bytes; pos < end; {
		n, _ := f.ReadAt(buf[:min(int64(len(buf)), end-pos)], pos)
		if n == 0 || len(bytes.Trim(buf[:n], "\x00")) > 0 {
			return false
		}
		pos += int64(n)
	}
	return true
}

// verifyLog calls f for each batch of a log file that is whole, matches its CRC and is in its place, and returns what lies
// between them. After an error of the disk, or of f, the last hole goes from there to the end.
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
				return append(holes, h), err
			}
			if end >= 0 {
				h.end, h.to = end, to
			}
			holes = append(holes, h)
			s.pos, s.buf, least = h.end, nil, h.to
			continue
		}
		if err == nil {
			err = f(b, pos)
		}
		if err != nil {
			return append(holes, hole{pos: pos, end: size, from: least, to: next}), err
		}
		least = b.NextOffset()
	}
	return holes, nil
}

// small checks a file that is read whole, or a snapshot of the metadata log.
func (v *verification) small(e vfs.Entry) {
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
	case suffix == snapshotRecordsSuffix:
		if c, _, gone := v.batches(e, 0, math.MaxInt64, func(batch.Batch, int64) {}); !gone {
			v.o.Each(c)
		}
		return
	default:
		return
	}
	c := Checked{Path: filepath.Join(v.dir, e.Name), Bytes: e.Size}
	content, err := v.read(c.Path)
	switch {
	case notExist(err):
		return
	case err != nil:
		c.Unreadable = err
	default:
		if err := parse(content); err != nil {
			c.Fault, c.Spare = err.Error(), v.spare(e.Name)
		}
	}
	v.o.Each(c)
}

// spare tells whether there is a producer snapshot that is whole and newer than a file: an Open begins with that one.
func (v *verification) spare(name string) bool {
	offset, suffix, ok := parseName(name)
	if !ok || suffix != snapshotSuffix && suffix != sequencesSuffix {
		return false
	}
	for other := range v.entries {
		newer, suffix, ok := parseName(other)
		if !ok || suffix != snapshotSuffix || newer <= offset {
			continue
		}
		content, err := v.read(filepath.Join(v.dir, other))
		if err == nil {
			_, err = parseSnapshot(content, 0)
		}
		if err == nil {
			return true
		}
	}
	return false
}

// snapshotRecordsSuffix ends the name of a snapshot of the metadata log: record batches, from offset 0 on.
const snapshotRecordsSuffix = ".checkpoint"
