package quorum

import (
	"fmt"
	"log/slog"

	"moldau/internal/invariant"
)

// raftLogger passes raft's messages on. What raft calls information is detail to an operator.
type raftLogger struct {
	logger *slog.Logger
}

func (l raftLogger) Debug(v ...any)                   { l.logger.Debug(fmt.Sprint(v...)) }
func (l raftLogger) Debugf(format string, v ...any)   { l.logger.Debug(fmt.Sprintf(format, v...)) }
func (l raftLogger) Info(v ...any)                    { l.logger.Debug(fmt.Sprint(v...)) }
func (l raftLogger) Infof(format string, v ...any)    { l.logger.Debug(fmt.Sprintf(format, v...)) }
func (l raftLogger) Warning(v ...any)                 { l.logger.Warn(fmt.Sprint(v...)) }
func (l raftLogger) Warningf(format string, v ...any) { l.logger.Warn(fmt.Sprintf(format, v...)) }
func (l raftLogger) Error(v ...any)                   { l.logger.Error(fmt.Sprint(v...)) }
func (l raftLogger) Errorf(format string, v ...any)   { l.logger.Error(fmt.Sprintf(format, v...)) }
func (l raftLogger) Fatal(v ...any)                   { l.Panic(v...) }
func (l raftLogger) Fatalf(format string, v ...any)   { l.Panicf(format, v...) }

// Panic is how raft says that its invariants are broken.
func (l raftLogger) Panic(v ...any) { invariant.Check(false, "raft: %s", fmt.Sprint(v...)) }

// Panicf is Panic.
func (l raftLogger) Panicf(format string, v ...any) { l.Panic(fmt.Sprintf(format, v...)) }
