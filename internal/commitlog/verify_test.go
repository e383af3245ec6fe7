package commitlog

import (
	"bytes"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"moldau/internal/vfs"
)

// verified returns what Verify says of the files of the log, by name.
func verified(t tb, fs vfs.FS, clean bool) map[string]Checked {
	t.Helper()
	all := map[string]Checked{}
	err := Verify(fs, testDir, VerifyOptions{Clean: clean, Each: func(c Checked) {
		name := filepath.Base(c.Path)
		if _, twice := all[name]; twice {
			t.Errorf("%s was told twice", name)
		}
		all[name] = c
	}})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func (c Checked) bad() bool {
	return len(c.Damage) > 0 || c.Unfinished > 0 || c.Fault != "" || c.Unreadable != nil
}

// wantVerified wants nothing to be wrong on a disk.
func wantVerified(t tb, fs vfs.FS, clean bool, what string) {
	t.Helper()
	for name, c := range verified(t, fs, clean) {
		if c.bad() {
			t.Fatalf("%s: verified: %s: %+v", what, name, c)
		}
	}
}

// TestVerifyNamesWhatIsWrong: every side file may be missing, cut, zeroed, garbled, longer or another segment's, and is named alone.
func TestVerifyNamesWhatIsWrong(t *testing.T) {
	mem, _, _ := filled(t)
	wantVerified(t, mem, true, "of a good log")
	wantVerified(t, mem, false, "of a good log")
	entries, err := mem.List(testDir)
	if err != nil {
		t.Fatal(err)
	}
	damages := map[string]func([]byte) []byte{
		"missing": nil,
		"cut":     func(b []byte) []byte { return b[:len(b)-2] },
		"zeroed":  zeroed,
		"garbled": garbled,
		"longer":  longer,
		"twice":   func(b []byte) []byte { return append(b, b...) },
	}
	for _, e := range entries {
		index := strings.HasSuffix(e.Name, indexSuffix) || strings.HasSuffix(e.Name, timeIndexSuffix) || strings.HasSuffix(e.Name, txnIndexSuffix)
		if strings.HasSuffix(e.Name, logSuffix) || e.Size == 0 {
			continue
		}
		content, err := vfs.ReadFile(mem, filepath.Join(testDir, e.Name))
		if err != nil {
			t.Fatal(err)
		}
		for damage, apply := range damages {
			disk, path := mem.KillClone(), filepath.Join(testDir, e.Name)
			if apply != nil {
				write(t, disk, path, apply(bytes.Clone(content)))
			} else if err := disk.Remove(path); err != nil {
				t.Fatal(err)
			}
			for name, c := range verified(t, disk, true) {
				// That one of the small files is missing cannot be known.
				if want := name == e.Name && (index || apply != nil); c.bad() != want || want && c.Fault == "" {
					t.Errorf("%s is %s: %s: %+v", e.Name, damage, name, c)
				}
			}
		}
	}
}

// TestVerifyOfSpareSnapshots: of a spoiled producer snapshot it is told whether an Open would have begun with it.
func TestVerifyOfSpareSnapshots(t *testing.T) {
	mem, _, _ := filled(t)
	var snapshots []string // oldest first
	entries, err := mem.List(testDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name, snapshotSuffix) {
			snapshots = append(snapshots, e.Name)
		}
	}
	if len(snapshots) < 2 {
		t.Fatalf("the log has the snapshots %v", snapshots)
	}
	for i := len(snapshots) - 1; i >= 0; i-- { // the newest first, then those before it one by one
		for _, all := range []bool{false, true} {
			disk := mem.KillClone()
			for k, name := range snapshots {
				if k == i || all && k > i {
					write(t, disk, filepath.Join(testDir, name), []byte("nonsense"))
				}
			}
			c := verified(t, disk, true)[snapshots[i]]
			if spare := i < len(snapshots)-1 && !all; c.Fault == "" || c.Spare != spare {
				t.Errorf("%s, with all newer ones: %t: %+v", snapshots[i], all, c)
			}
		}
	}
}

// TestVerifyOfWhatACrashLeft: entries of batches that did not get to the disk are no damage. The next Open cuts both off.
func TestVerifyOfWhatACrashLeft(t *testing.T) {
	mem, _, _ := filled(t)
	all := allBatches(t, mem)
	last := all[len(all)-1]
	content, err := vfs.ReadFile(mem, last.path)
	if err != nil {
		t.Fatal(err)
	}
	write(t, mem, last.path, content[:last.pos+3])
	index := strings.TrimSuffix(last.path, logSuffix) + indexSuffix
	entries, err := vfs.ReadFile(mem, index)
	if err != nil {
		t.Fatal(err)
	}
	write(t, mem, index, append(offsetEntry(entries, 1000, int32(last.pos)), 1, 2, 3))
	for name, c := range verified(t, mem, false) {
		if c.Unfinished > 0 != (name == filepath.Base(last.path)) || c.Fault != "" || len(c.Damage) > 0 {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

// TestVerifyOfABadDisk: a file that the disk does not give is named, from the first offset that is missing on, and all others are
// read.
func TestVerifyOfABadDisk(t *testing.T) {
	mem, _, _ := filled(t)
	good := verified(t, mem, true)
	for name, before := range good {
		fs := vfs.NewInject(mem, vfs.OnOp(vfs.OpRead, name, syscall.EIO))
		now := verified(t, fs, true)
		if len(now) != len(good) {
			t.Errorf("%s cannot be read: %d files of %d were told of", name, len(now), len(good))
		}
		for other, c := range now {
			if (c.Unreadable != nil) != (other == name) || c.Fault != "" {
				t.Errorf("%s cannot be read: %s: %+v", name, other, c)
			}
		}
		if c := now[name]; strings.HasSuffix(name, logSuffix) && before.Batches > 0 && (len(c.Damage) != 1 || c.Damage[0].From != c.Damage[0].Segment || c.Damage[0].Bytes != c.Bytes) {
			t.Errorf("%s cannot be read: %+v", name, c)
		}
	}
}
