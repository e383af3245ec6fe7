package storage

import (
	"math/rand/v2"
	"testing"
	"time"

	"moldau/internal/commitlog"
	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

// A deletion of records that is confirmed stays, even where retention was faster and nothing seemed left to do.
func TestConfirmedLogStartIsDurable(t *testing.T) {
	fs := vfs.NewMem()
	s := run(t, options(fs, "/a"))
	cfg := commitlog.DefaultConfig()
	cfg.SegmentBytes, cfg.RetentionMs, cfg.RetentionBytes = 1000, -1, 0
	l, err := s.Open(tp("orders", 0), id(1), kafka.DirUnassigned, cfg)
	must(t, err)
	w := watchSync(l)
	var end kafka.Offset
	for range 20 {
		end = appendTo(t, l, 5).Last + 1
	}
	must(t, w.wait(end))
	l.SetHighWatermark(end)
	_, err = l.retain(time.Now())
	must(t, err)
	to := l.LogStart()
	if to == 0 {
		t.Fatal("retention deleted nothing")
	}
	must(t, l.SetLogStart(to-1))
	after := fs.CrashClone(rand.New(rand.NewPCG(1, 1)), 0)
	must(t, s.Stop(false))

	s = run(t, options(after, "/a"))
	l, err = s.Open(tp("orders", 0), id(1), kafka.DirUnassigned, cfg)
	must(t, err)
	if l.LogStart() < to-1 {
		t.Errorf("the log starts at %d again, it was confirmed to start at %d", l.LogStart(), to-1)
	}
	must(t, s.Stop(true))
}
