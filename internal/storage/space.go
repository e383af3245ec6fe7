package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync/atomic"

	"moldau/internal/vfs"
	"moldau/internal/xsync"
)

// The space that is never given to records.
const (
	minFloorBytes = 16 << 20
	maxFloorBytes = 1 << 30

	// reserveFile is a preallocated file that is given up when the disk is full, so that the metadata log, which shares
	// the disk, and the journal can go on.
	reserveFile  = "moldau.reserve"
	reserveBytes = 16 << 20

	// What logs that grow may set aside ahead of what they are appended, all together: this part of what is free above
	// the floor, and no more than this.
	aheadShare    = 8
	maxAheadBytes = 1 << 30
)

// FloorBytes is how much of a disk of total bytes must stay free, or writes are refused: 1 %, but no less than 16 MiB and no
// more than 1 GiB.
func FloorBytes(total int64) int64 { return min(max(total/100, minFloorBytes), maxFloorBytes) }

// space watches what is free under one directory. Writes are refused below the floor and taken again when a quarter more
// than the floor and the reserve are free: making the reserve must not make the disk full again.
type space struct {
	d       *Directory
	full    atomic.Bool
	errFull error

	tight bool // of looks, which come one after the other: nothing may be set aside

	mu       xsync.Mutex // guards reserved; one look at a time
	reserved bool
}

func newSpace(d *Directory) *space {
	return &space{d: d, errFull: storageError(fmt.Errorf("disk of %s is full", d.path))}
}

// ranOut is told that the disk itself refused a write.
func (s *space) ranOut(err error) {
	if s.full.CompareAndSwap(false, true) {
		s.d.logger.Error("disk is full; writes are refused until there is space again", "dir", s.d.path, "error", err)
	}
	s.d.keeper.wrote() // look again soon
}

// look compares what is free with the floor. Before anything is refused, what the logs have set aside is given back.
func (s *space) look() error {
	was := s.full.Load()
	err := s.limitReserves()
	if err == nil {
		err = s.compare()
	}
	if f := s.d.s.onSpace.Load(); f != nil && was && !s.full.Load() {
		(*f)()
	}
	return err
}

// enoughBytes is how much of a disk must be free for it to be filled without care.
func enoughBytes(total int64) int64 {
	floor := FloorBytes(total)
	return floor + floor/4 + reserveBytes
}

// limitReserves lets the logs set aside some of what is free, and nothing where little is.
func (s *space) limitReserves() error {
	usage, err := s.d.o.FS.Usage(s.d.path)
	if err != nil {
		return fmt.Errorf("free space of %s: %w", s.d.path, err)
	}
	above := usage.Free - enoughBytes(usage.Total)
	s.d.files.SetReserveLimit(min(max(above/aheadShare, 0), maxAheadBytes))
	tight := above <= 0
	if tight && !s.tight {
		for _, l := range s.d.s.allLogs() {
			if l.dir == s.d {
				err = errors.Join(err, l.ReleaseReserve())
			}
		}
	}
	s.tight = tight
	return err
}

func (s *space) compare() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	usage, err := s.d.o.FS.Usage(s.d.path)
	if err != nil {
		return fmt.Errorf("free space of %s: %w", s.d.path, err)
	}
	floor, enough := FloorBytes(usage.Total), enoughBytes(usage.Total)
	switch full := s.full.Load(); {
	case !full && usage.Free < floor:
		if s.full.CompareAndSwap(false, true) {
			s.d.logger.Error("disk is nearly full; writes are refused until there is space again",
				"dir", s.d.path, "freeBytes", usage.Free, "floorBytes", floor)
		}
	case full && usage.Free >= enough:
		s.full.Store(false)
		s.d.logger.Info("disk has space again; writes are taken", "dir", s.d.path, "freeBytes", usage.Free)
	}
	if s.full.Load() {
		return s.giveUpReserve()
	}
	if !s.reserved && usage.Free >= enough {
		return s.makeReserve()
	}
	return nil
}

func (s *space) makeReserve() error {
	f, err := s.d.o.FS.Open(filepath.Join(s.d.path, reserveFile), vfs.Create)
	if err != nil {
		return err
	}
	err = f.Allocate(reserveBytes)
	s.reserved = err == nil
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, s.giveUpReserve())
	}
	return nil
}

func (s *space) giveUpReserve() error {
	s.reserved = false
	err := s.d.o.FS.Remove(filepath.Join(s.d.path, reserveFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
