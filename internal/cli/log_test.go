package cli

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"moldau/internal/config"
)

func TestLogLines(t *testing.T) {
	var out bytes.Buffer
	log := newLog(&out, config.Logging{Format: "text", Level: "info"})
	logger := log.Logger
	logger.Debug("unseen")
	logger.Info("became leader", "component", "replica", "partition", "orders-0", "epoch", 3)
	with := logger.With("component", "storage", "dir", "/a b").WithGroup("disk")
	with.Warn("slow", "took", 2, slog.Group("io", "n", 1), slog.Attr{})
	with.Error("two\nlines\x1b[31m", "error", errors.New("no\nluck"), "empty", "")
	want := []string{
		"INFO  replica: became leader partition=orders-0 epoch=3",
		`WARN  storage: slow dir="/a b" disk.took=2 disk.io.n=1`,
		`ERROR storage: two\nlines\x1b[31m dir="/a b" disk.error="no\nluck" disk.empty=""`,
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) != len(want) {
		t.Fatalf("%d lines:\n%s", len(lines), &out)
	}
	for i, line := range lines {
		const stamp = len("2006-01-02 15:04:05.000 ")
		if line[stamp:] != want[i] {
			t.Errorf("got  %s\nwant %s", line[stamp:], want[i])
		}
	}
}
