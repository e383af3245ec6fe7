package storage

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"moldau/internal/vfs"
)

// TestDescriptorsAreBounded: 10,000 partitions that are written to hold no more descriptors than they may, lose nothing by
// it, and hold none a while after the last record.
func TestDescriptorsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const partitions, most = 10_000, 1000
		disk := &openFiles{}
		fs := vfs.NewInject(vfs.NewMem())
		fs.After = disk.after
		o := options(fs, "/a")
		o.MaxOpenFiles = most
		s := run(t, o)
		defer func() { must(t, s.Stop(false)) }()
		var logs []*Log
		for i := range partitions {
			l := open(t, s, fmt.Sprint("t", i), byte(1+i%250))
			appendTo(t, l, 1)
			logs = append(logs, l)
		}
		// Beside those of partitions: the journal, the disk and the like, and the one that is just being opened.
		if _, at := disk.count(); at > most+20 {
			t.Errorf("%d files were open at once, %d may be", at, most)
		}
		time.Sleep(time.Second)
		for _, l := range logs {
			if l.SyncedEnd() != 1 {
				t.Fatalf("%s is synced to %d", l.TopicPartition(), l.SyncedEnd())
			}
		}
		time.Sleep(3 * idleFile)
		if n := s.dirs[0].files.Open(); n != 0 {
			t.Errorf("%d descriptors are open although nobody uses them", n)
		}
		if open, _ := disk.count(); open > 20 {
			t.Errorf("%d files are open although nobody uses them", open)
		}
		appendTo(t, logs[17], 1)
		time.Sleep(time.Second)
		if l := logs[17]; l.SyncedEnd() != 2 {
			t.Errorf("afterwards a log is synced to %d", l.SyncedEnd())
		}
	})
}

// openFiles counts the files that are open.
type openFiles struct {
	mu         sync.Mutex
	open, most int
}

func (f *openFiles) after(op vfs.Op, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case op.Kind == vfs.OpClose:
		f.open--
	case (op.Kind == vfs.OpOpen || op.Kind == vfs.OpCreate) && err == nil:
		f.open++
		f.most = max(f.most, f.open)
	}
}

// count is how many are open, and how many were at once at most.
func (f *openFiles) count() (open, most int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.open, f.most
}
