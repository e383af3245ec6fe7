package commitlog

import (
	"fmt"
	"testing"

	"moldau/internal/vfs"
)

func TestEpochEnds(t *testing.T) {
	e := epochs{}.assign(2, 10).assign(4, 20).assign(4, 25).assign(7, 30)
	for _, c := range []struct {
		wanted, epoch int32
		end           int64
	}{{-1, -1, -1}, {0, 0, 10}, {2, 2, 20}, {3, 2, 20}, {4, 4, 30}, {6, 4, 30}, {7, 7, 99}, {8, -1, -1}} {
		if epoch, end := e.endOffset(c.wanted, 99); epoch != c.epoch || end != c.end {
			t.Errorf("epoch %d ends as %d at %d, want %d at %d", c.wanted, epoch, end, c.epoch, c.end)
		}
	}
	if epoch, end := (epochs{}).endOffset(0, 99); epoch != -1 || end != -1 {
		t.Errorf("without epochs: %d, %d", epoch, end)
	}
	for what, c := range map[string]struct{ got, want epochs }{
		"an older leader's epoch drops later ones": {e.assign(3, 15), epochs{{2, 10}, {3, 15}}},
		"a new epoch at the start of the last":     {e.assign(9, 30), epochs{{2, 10}, {4, 20}, {9, 30}}},
		"cut inside an epoch":                      {e.cutEnd(25), epochs{{2, 10}, {4, 20}}},
		"cut at the start of an epoch":             {e.cutEnd(20), epochs{{2, 10}}},
		"start inside an epoch":                    {e.cutStart(22), epochs{{4, 22}, {7, 30}}},
		"start at an epoch":                        {e.cutStart(20), epochs{{4, 20}, {7, 30}}},
		"start before all":                         {e.cutStart(5), e},
		"start behind all":                         {e.cutStart(77), epochs{{7, 77}}},
	} {
		if fmt.Sprint(c.got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %v, want %v", what, c.got, c.want)
		}
	}
	if text := string(e.encode()); text != "0\n3\n2 10\n4 20\n7 30\n" {
		t.Errorf("checkpoint %q", text)
	}
	back, err := parseEpochs(e.encode())
	if err != nil || fmt.Sprint(back) != fmt.Sprint(e) {
		t.Errorf("read back %v, %v", back, err)
	}
	for _, bad := range []string{"", "0\n", "1\n0\n", "0\n2\n1 1\n", "0\n1\n1\n", "0\n1\n-1 1\n", "0\n2\n2 1\n1 2\n", "0\n1\nx 1\n"} {
		if _, err := parseEpochs([]byte(bad)); err == nil {
			t.Errorf("checkpoint %q was read", bad)
		}
	}
}

// TestEpochWithoutRecords: a leader that appended nothing leaves no trace on disk, and costs nothing at a clean stop.
func TestEpochWithoutRecords(t *testing.T) {
	log := vfs.NewLog(vfs.NewMem(), nil)
	o := testOptions(log, smallConfig())
	l, _ := mustOpen(t, o)
	mustAppend(t, l, records("a", 1, noOptions, startMs))
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	o.Clean = true
	log.Reset()
	l, _ = mustOpen(t, o)
	l.AssignEpochStart(testEpoch+1, l.LogEnd())
	if l.LastEpoch() != testEpoch+1 {
		t.Fatalf("epoch %d", l.LastEpoch())
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if lines := log.Lines(); len(lines) != 0 {
		t.Fatalf("an idle restart does to the disk: %v", lines)
	}
	l, _ = mustOpen(t, o)
	l.AssignEpochStart(testEpoch+2, l.LogEnd())
	if _, err := l.Append(records("b", 1, noOptions, startMs), AppendOptions{LeaderEpoch: testEpoch + 2, Now: startMs}); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l, _ = mustOpen(t, o)
	if epoch, end := l.EndOffsetForEpoch(testEpoch); epoch != testEpoch || end != 1 || l.LastEpoch() != testEpoch+2 {
		t.Fatalf("epoch %d ends at %d, last %d", epoch, end, l.LastEpoch())
	}
}
