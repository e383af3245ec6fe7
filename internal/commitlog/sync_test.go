package commitlog

import (
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/batch"
	"moldau/internal/vfs"
)

// TestSyncsSideBySide: the kernel tells a failed write-back to one of those who sync a descriptor, and the others find
// nothing left to write. Their syncs must not count.
func TestSyncsSideBySide(t *testing.T) {
	fs := vfs.NewInject(vfs.NewMem())
	l, _ := mustOpen(t, testOptions(fs, smallConfig()))
	mustAppend(t, l, records("a", 1, batch.BuildOptions{}, startMs))
	var first atomic.Bool
	begun := make(chan struct{})
	fs.SetRules(func(op vfs.Op) error {
		if op.Kind != vfs.OpSyncData || !strings.HasSuffix(op.Path, logSuffix) || !first.CompareAndSwap(false, true) {
			return nil
		}
		close(begun)
		for range 10_000 {
			runtime.Gosched() // time for the other to be done first, unless it waits
		}
		return syscall.EIO
	})
	outcomes := make(chan error, 2)
	go func() {
		_, err := l.Sync()
		outcomes <- err
	}()
	<-begun
	go func() { outcomes <- l.AdvanceRecoveryPoint() }()
	for range 2 {
		if err := <-outcomes; !errors.Is(err, syscall.EIO) {
			t.Errorf("sync: %v", err)
		}
	}
	if end := l.SyncedEnd(); end != 0 {
		t.Errorf("synced to %d although the sync has failed", end)
	}
}

// TestFailedSyncOfASnapshot: a full disk may refuse a producer snapshot at its sync. A second sync would find nothing to do and vouch for
// it, and the recovery point would stand on a file that is not there after a power cut.
func TestFailedSyncOfASnapshot(t *testing.T) {
	mem := vfs.NewMem()
	fs := vfs.NewInject(mem)
	w := newWorld(t, mem, fs, smallConfig())
	w.reopen(false)
	w.append(1, 3, false)
	fs.SetRules(vfs.OnOp(vfs.OpSyncData, "*.snapshot", syscall.ENOSPC))
	if err := w.l.AdvanceRecoveryPoint(); !errors.Is(err, kerr.KafkaStorageError) {
		t.Errorf("the sync failed, and moving the recovery point says %v", err)
	}
	fs.SetRules()
	if err := w.l.AdvanceRecoveryPoint(); !errors.Is(err, kerr.KafkaStorageError) || w.l.RecoveryPoint() != 0 {
		t.Errorf("tried again: recovery point %d, %v", w.l.RecoveryPoint(), err)
	}
}
