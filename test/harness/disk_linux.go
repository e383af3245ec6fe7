package harness

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// OwnMounts is set in the environment of a test process that has a mount namespace of its own. It begins with none of the
// prefixes that make a variable a setting of a node.
const OwnMounts = "MOUNTS_OF_TEST"

// InOwnMounts runs this process's tests in a child that has a mount namespace of its own. Without the right to do so
// nothing is run here, and the tests that need it say so.
func InOwnMounts() (code int, done bool) {
	if os.Geteuid() != 0 || os.Getenv(OwnMounts) != "" {
		return 0, false
	}
	runtime.LockOSThread() // Pdeathsig is about the thread
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), OwnMounts+"=1")
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

// Disk is an ext4 of its own on a loop device.
type Disk struct {
	image, dir string
}

// NewDisk makes a filesystem and mounts it at dir. It ends the test through Missing where that is not possible.
func NewDisk(t T, dir string, megabytes int64) *Disk {
	t.Helper()
	if os.Geteuid() != 0 {
		Missing(t, "only root can mount a disk for a test")
	}
	if os.Getenv(OwnMounts) == "" {
		Missing(t, "no mount namespace can be made here")
	}
	mkfs := Tool(t, "mkfs.ext4", "install e2fsprogs")
	Tool(t, "mount", "install util-linux")
	d := &Disk{image: filepath.Join(t.TempDir(), "image"), dir: dir}
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
		Missing(t, "cannot mount an ext4 on a loop device: %v: %s", err, out)
	}
	t.Cleanup(func() { _ = syscall.Unmount(d.dir, syscall.MNT_DETACH) })
	return d
}

func (d *Disk) attach() (string, error) {
	out, err := exec.Command("mount", "-o", "loop", d.image, d.dir).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// shutdown is FS_IOC_SHUTDOWN, and noLogFlush what of the filesystem's log reaches the disk then: nothing more.
const (
	shutdown   = 0x8004587d
	noLogFlush = 2
)

// CutPower ends all writing to the disk now: what was not synced is lost, and programs get EIO.
func (d *Disk) CutPower(t T) {
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

// What FIFREEZE and FITHAW are.
const (
	freeze = 0xc0045877
	thaw   = 0xc0045878
)

// Freeze stalls the disk: whoever writes or syncs waits until Thaw, or the end of the test.
func (d *Disk) Freeze(t T) {
	t.Helper()
	if err := d.control(freeze); err != nil {
		t.Fatal(fmt.Errorf("freeze the filesystem: %w", err))
	}
	t.Cleanup(func() { _ = d.control(thaw) }) // before a process is killed that could not end
}

// Thaw lets the disk go on.
func (d *Disk) Thaw(t T) {
	t.Helper()
	if err := d.control(thaw); err != nil {
		t.Fatal(fmt.Errorf("thaw the filesystem: %w", err))
	}
}

func (d *Disk) control(what uintptr) error {
	f, err := os.Open(d.dir)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), what, 0); errno != 0 {
		return errno
	}
	return nil
}

// PowerOn mounts the disk as the cut has left it. No process may have a file there.
func (d *Disk) PowerOn(t T) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; <-time.After(10 * time.Millisecond) {
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
