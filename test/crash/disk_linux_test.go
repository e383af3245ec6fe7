package crash

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"moldau/test/harness"
)

const ownMounts = "MOLDAU_CRASH_OWN_MOUNTS"

// inOwnMounts runs this process's tests in a child that has a mount namespace of its own. Without the right to do so
// nothing is run here, and the tests that need it say so.
func inOwnMounts() (code int, done bool) {
	if os.Geteuid() != 0 || os.Getenv(ownMounts) != "" {
		return 0, false
	}
	runtime.LockOSThread() // Pdeathsig is about the thread
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), ownMounts+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	var exit *exec.ExitError
	switch err := cmd.Run(); {
	case err == nil:
		return 0, true
	case errors.As(err, &exit):
		return max(1, exit.ExitCode()), true
	}
	return 0, false
}

// disk is an ext4 of its own on a loop device.
type disk struct {
	image, dir string
	mounted    bool
}

// newDisk makes a filesystem and mounts it at dir. It ends the test through harness.Missing where that is not possible.
func newDisk(t *testing.T, dir string, megabytes int64) *disk {
	t.Helper()
	if os.Geteuid() != 0 {
		harness.Missing(t, "only root can mount the disk whose power this test cuts")
	}
	if os.Getenv(ownMounts) == "" {
		harness.Missing(t, "no mount namespace can be made here")
	}
	mkfs := harness.Tool(t, "mkfs.ext4", "install e2fsprogs")
	harness.Tool(t, "mount", "install util-linux")
	d := &disk{image: filepath.Join(t.TempDir(), "image"), dir: dir}
	f, err := os.Create(d.image)
	if err == nil {
		err = errors.Join(f.Truncate(megabytes<<20), f.Close())
	}
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(mkfs, "-q", "-F", "-J", "size=8", d.image).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v\n%s", err, out)
	}
	if out, err := d.attach(); err != nil {
		harness.Missing(t, "cannot mount an ext4 on a loop device: %v: %s", err, out)
	}
	t.Cleanup(func() { _ = syscall.Unmount(d.dir, syscall.MNT_DETACH) })
	return d
}

func (d *disk) attach() (string, error) {
	out, err := exec.Command("mount", "-o", "loop", d.image, d.dir).CombinedOutput()
	d.mounted = err == nil
	return strings.TrimSpace(string(out)), err
}

// shutdown is FS_IOC_SHUTDOWN, and noLogFlush what of the filesystem's log reaches the disk then: nothing more.
const (
	shutdown   = 0x8004587d
	noLogFlush = 2
)

// cutPower ends all writing to the disk now: what was not synced is lost, and programs get EIO.
func (d *disk) cutPower(t *testing.T) {
	t.Helper()
	f, err := os.Open(d.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	how := uint32(noLogFlush)
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), shutdown, uintptr(unsafe.Pointer(&how))); errno != 0 {
		t.Fatal(fmt.Errorf("shut down the filesystem: %w", errno))
	}
}

// powerOn mounts the disk as the cut has left it. No process may have a file there.
func (d *disk) powerOn(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; <-time.After(10 * time.Millisecond) {
		err := syscall.Unmount(d.dir, 0)
		if err == nil {
			break
		}
		if err != syscall.EBUSY || time.Now().After(deadline) {
			t.Fatalf("unmount: %v", err)
		}
	}
	if out, err := d.attach(); err != nil {
		t.Fatalf("mount after the cut: %v: %s", err, out)
	}
}
