package commitlog

import (
	"fmt"
	"sync"
	"testing"

	"moldau/internal/vfs"
)

// TestFilesInUseAreClosedLater: what could not be closed because it was in use, or not synced, is when it no longer is. It need not
// wait until another file is opened.
func TestFilesInUseAreClosedLater(t *testing.T) {
	mem := vfs.NewMem()
	set := NewFiles(mem, 2)
	var all []*file
	for i := range 8 {
		f := set.file(fmt.Sprint("/f", i))
		if err := f.create(); err != nil {
			t.Fatal(err)
		}
		f.nothingYet()
		if _, err := f.pin(); err != nil {
			t.Fatal(err)
		}
		all = append(all, f)
	}
	if err := all[0].writeAt([]byte("x"), 0); err != nil {
		t.Fatal(err)
	}
	if n := set.Open(); n < 7 {
		t.Fatalf("%d files are open, and more are in use", n)
	}
	for _, f := range all {
		f.unpin()
	}
	if n := set.Open(); n != 2 {
		t.Errorf("%d files are open, none in use", n)
	}
	if err := all[0].sync(); err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if err := f.close(); err != nil {
			t.Fatal(err)
		}
	}
	if n := set.Open(); n != 0 {
		t.Errorf("%d files are open, all were closed", n)
	}
}

// TestFilesThatLeaveCount: a file that leaves its log while somebody opens it, or while it is looked at to be closed, does not count as
// open for ever.
func TestFilesThatLeaveCount(t *testing.T) {
	mem := vfs.NewMem()
	set := NewFiles(mem, 3)
	for i := range 3000 {
		var files [4]*file
		for j := range files {
			files[j] = set.file(fmt.Sprint("/f", i%7, j))
			if err := files[j].create(); err != nil {
				t.Fatal(err)
			}
		}
		var busy sync.WaitGroup
		for _, f := range files {
			busy.Go(func() {
				for range 3 {
					if _, err := f.pin(); err == nil {
						f.unpin()
					}
				}
			})
			busy.Go(func() {
				if err := f.close(); err != nil {
					t.Error(err)
				}
			})
		}
		busy.Wait()
		if n := set.Open(); n != 0 {
			t.Fatalf("round %d: %d files count as open, all have left", i, n)
		}
	}
}
