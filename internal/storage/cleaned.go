package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"

	"moldau/internal/kafka"
	"moldau/internal/vfs"
	"moldau/internal/xsync"
)

// cleanedFile tells per partition below which offset it is compacted. Kafka's; LogCleanerManager.
const cleanedFile = "cleaner-offset-checkpoint"

// cleaned is a directory's memory of what was compacted. An offset that is too low costs a compaction more work; one that
// is too high would leave old values of a key for ever. So it is lowered durably before what lies there changes.
type cleaned struct {
	d *Directory

	mu      xsync.Mutex // held across the write
	offsets checkpoint
	working map[kafka.TopicPartition]bool // compactions that go on and whose log was not cut since
}

// openCleaned reads the file. One that cannot be read means that nothing is known to be compacted.
func openCleaned(d *Directory) (*cleaned, error) {
	c := &cleaned{d: d, offsets: checkpoint{}, working: map[kafka.TopicPartition]bool{}}
	path := filepath.Join(d.path, cleanedFile)
	text, err := vfs.ReadFile(d.o.FS, path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(text) == 0 { // Apache Kafka begins with an empty one
		return c, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	offsets, err := parseCheckpoint(text)
	if err != nil {
		d.logger.Warn("checkpoint file is damaged, compacted logs are looked through once more", "file", path, "error", err)
		return c, nil
	}
	c.offsets = offsets
	return c, nil
}

// offset returns where a partition's last compaction has ended, or what is to be said if there was none.
func (c *cleaned) offset(tp kafka.TopicPartition, none kafka.Offset) kafka.Offset {
	c.mu.Lock()
	defer c.mu.Unlock()
	if offset, known := c.offsets[tp]; known {
		return offset
	}
	return none
}

// begin is offset for a compaction that begins.
func (c *cleaned) begin(tp kafka.TopicPartition, none kafka.Offset) kafka.Offset {
	c.mu.Lock()
	c.working[tp] = true
	c.mu.Unlock()
	return c.offset(tp, none)
}

// set stores where a compaction has ended, unless the log was cut since it began.
func (c *cleaned) set(tp kafka.TopicPartition, offset kafka.Offset) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.working[tp] {
		return nil
	}
	delete(c.working, tp)
	if old, known := c.offsets[tp]; known && old == offset {
		return nil
	}
	return c.changeLocked(func(offsets checkpoint) { offsets[tp] = offset })
}

// lower makes sure that nothing from an offset on counts as compacted.
func (c *cleaned) lower(tp kafka.TopicPartition, to kafka.Offset) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.working, tp)
	if old, known := c.offsets[tp]; !known || old <= to {
		return nil
	}
	return c.changeLocked(func(offsets checkpoint) { offsets[tp] = to })
}

// forget removes a partition: what has its name from now on is another.
func (c *cleaned) forget(tp kafka.TopicPartition) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.working, tp)
	if _, known := c.offsets[tp]; !known {
		return nil
	}
	return c.changeLocked(func(offsets checkpoint) { delete(offsets, tp) })
}

func (c *cleaned) changeLocked(change func(checkpoint)) error {
	next := maps.Clone(c.offsets)
	change(next)
	path := filepath.Join(c.d.path, cleanedFile)
	if err := vfs.WriteFileAtomic(c.d.o.FS, path, next.text()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	c.offsets = next
	return nil
}
