package quorum

import (
	"bytes"
	"slices"
	"testing"

	"moldau/internal/vfs"
)

// TestBootstrapFileComesBack: what a tool wants the log to begin with is read as it was written, and the newest holds.
func TestBootstrapFileComesBack(t *testing.T) {
	disk := vfs.NewMem()
	if got, err := ReadBootstrap(disk, "/"); got != nil || err != nil {
		t.Errorf("without a file: %q, %v", got, err)
	}
	for _, want := range [][][]byte{values("one", "two", "three"), values("four")} {
		if err := WriteBootstrap(disk, "/", want, 1700000000000); err != nil {
			t.Fatal(err)
		}
		got, err := ReadBootstrap(disk, "/")
		if err != nil || !slices.EqualFunc(got, want, bytes.Equal) {
			t.Errorf("%q came back as %q, error %v", want, got, err)
		}
	}

	f, err := disk.Open("/bootstrap.checkpoint", vfs.Create)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(size - 1); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadBootstrap(disk, "/"); err == nil {
		t.Errorf("a file that was cut off gives %q", got)
	}
}
