package compat

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"moldau/test/harness"
)

// smallDisk mounts a filesystem in memory of the given size. That takes root.
func smallDisk(t *testing.T, bytes int64) string {
	t.Helper()
	if os.Geteuid() != 0 {
		harness.Missing(t, "only root can mount the small disk of this test")
	}
	dir := filepath.Join(t.TempDir(), "disk")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", bytes)); err != nil {
		harness.Missing(t, "cannot mount a tmpfs: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}
