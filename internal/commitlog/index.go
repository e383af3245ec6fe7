package commitlog

import (
	"encoding/binary"
	"fmt"
	"io"
	"sort"

	"moldau/internal/kafka"
)

// indexGroup is how many entries wait in memory until they are written together. A crash loses them; recovery makes them
// again from the log.
const indexGroup = 128

// index is an index file of entries that all have one width and grow in order. A copy is an immutable look at it: the
// writer only ever appends to tail, and gives it up for a new one when it has written it to the file.
type index struct {
	f       *file
	width   int
	written int    // entries in the file
	tail    []byte // the entries after those
}

func (x *index) count() int { return x.written + len(x.tail)/x.width }

func (x *index) size() int64 { return int64(x.count()) * int64(x.width) }

// flush writes the tail to the file.
func (x *index) flush() error {
	if len(x.tail) == 0 {
		return nil
	}
	if err := x.f.writeAt(x.tail, int64(x.written)*int64(x.width)); err != nil {
		return err
	}
	x.written += len(x.tail) / x.width
	x.tail = nil // readers may still look at the old one
	return nil
}

// floor returns the last entry for which ok holds, or nil. ok must hold for all entries before one for which it holds.
// The entry is good until the next use of w.
func (x *index) floor(w *window, ok func(entry []byte) bool) ([]byte, error) {
	if len(x.tail) > 0 && ok(x.tail[:x.width]) {
		return x.floorOf(x.tail, ok), nil
	}
	if x.written == 0 {
		return nil, nil
	}
	h, err := x.f.pin()
	if err != nil {
		return nil, err
	}
	defer x.f.unpin()
	w.of(h)
	// Find the page by its first entry, then the entry in the page, which the window has then already read.
	perPage := windowBytes / x.width
	pages := (x.written + perPage - 1) / perPage
	var failed error
	page := sort.Search(pages, func(i int) bool {
		entry, err := x.read(w, i*perPage, 1)
		if err != nil {
			failed = err
			return true
		}
		return !ok(entry)
	}) - 1
	if failed != nil || page < 0 {
		return nil, failed
	}
	entries, err := x.read(w, page*perPage, min(perPage, x.written-page*perPage))
	if err != nil {
		return nil, err
	}
	return x.floorOf(entries, ok), nil
}

func (x *index) floorOf(entries []byte, ok func([]byte) bool) []byte {
	n := sort.Search(len(entries)/x.width, func(i int) bool { return !ok(entries[i*x.width:][:x.width]) })
	if n == 0 {
		return nil
	}
	return entries[(n-1)*x.width:][:x.width]
}

// read returns n entries of the file from number i on.
func (x *index) read(w *window, i, n int) ([]byte, error) {
	b, err := w.bytes(int64(i)*int64(x.width), n*x.width)
	if err == nil && len(b) < n*x.width {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", x.f.name(), err)
	}
	return b, nil
}

// last returns the last entry, or nil.
func (x *index) last(w *window) ([]byte, error) {
	return x.floor(w, func([]byte) bool { return true })
}

// An entry of the offset index: the last offset of a batch, less the segment's base offset, and the batch's position.
const offsetWidth = 8

func offsetEntry(dst []byte, relative, position int32) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(relative))
	return binary.BigEndian.AppendUint32(dst, uint32(position))
}

func entryPosition(e []byte) int64 { return int64(int32(binary.BigEndian.Uint32(e[4:]))) }

func entryOffset(e []byte, base kafka.Offset) kafka.Offset {
	return base + int64(int32(binary.BigEndian.Uint32(e)))
}

// An entry of the time index: the largest timestamp so far, and the last offset of the batch that brought it, less the
// segment's base offset.
const timeWidth = 12

func timeEntry(dst []byte, timestamp int64, relative int32) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(timestamp))
	return binary.BigEndian.AppendUint32(dst, uint32(relative))
}

func entryTimestamp(e []byte) int64 { return int64(binary.BigEndian.Uint64(e)) }

func entryTimeOffset(e []byte, base kafka.Offset) kafka.Offset { return entryOffset(e[8:], base) }

// countWhile returns for how many entries at the start ok holds.
func (x *index) countWhile(w *window, ok func(entry []byte) bool) (int, error) {
	var failed error
	n := sort.Search(x.count(), func(i int) bool {
		entry, err := x.at(w, i)
		if err != nil {
			failed = err
			return true
		}
		return !ok(entry)
	})
	return n, failed
}

// at returns entry number i.
func (x *index) at(w *window, i int) ([]byte, error) {
	if i >= x.written {
		return x.tail[(i-x.written)*x.width:][:x.width], nil
	}
	h, err := x.f.pin()
	if err != nil {
		return nil, err
	}
	defer x.f.unpin()
	return x.read(w.of(h), i, 1)
}
