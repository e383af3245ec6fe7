package commitlog

import (
	"fmt"

	"moldau/internal/kafka"
)

// AdvanceRecoveryPoint is Sync that moves the recovery point to the log end of the call, however little was appended
// since it was moved last. Its owner calls it to bound what all logs of a directory together would have to recover.
func (l *Log) AdvanceRecoveryPoint() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.syncUnlocked(true); err != nil {
		return fmt.Errorf("move recovery point of %s: %w", l.tp, err)
	}
	return nil
}

// BytesToRecover returns how many bytes lie after the recovery point: what an unclean start would have to read.
func (l *Log) BytesToRecover() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sinceRecovery
}

// RecoveryPointStored says that the next Open is given this recovery point, or a later one.
func (l *Log) RecoveryPointStored(offset kafka.Offset) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if offset > l.stored && l.usableLocked() == nil {
		l.stored = offset
		l.dropOldSnapshotsLocked()
	}
}
