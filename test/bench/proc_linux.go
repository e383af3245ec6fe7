package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime is the time that all threads of a process, ended ones included, have spent on a processor, in user and kernel
// mode. It is the sum of utime and stime of /proc/PID/stat, read from the process's CPU clock because that one counts
// nanoseconds and the file counts ticks of 10 ms.
func cpuTime(pid int) (time.Duration, error) {
	const cpuClockOfProcess = 2 // CPUCLOCK_SCHED: clock_getcpuclockid(3) builds the same id
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|cpuClockOfProcess), &ts); err != nil {
		return 0, fmt.Errorf("CPU clock of process %d: %w", pid, err)
	}
	return time.Duration(ts.Nano()), nil
}

// kernelThreads is what each of the kernel's own threads has spent on a processor: writing back what is dirty, above all. It is
// empty where they are not to be seen, in a container.
func kernelThreads() (map[string]time.Duration, error) {
	const kthreadd = "2" // their parent
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	spent := map[string]time.Duration{}
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		if fields := strings.Fields(rest); len(fields) < 2 || fields[1] != kthreadd {
			continue
		}
		thread := filepath.Dir(path)
		if text, err = os.ReadFile(filepath.Join(thread, "schedstat")); err != nil {
			continue
		}
		first, _, _ := strings.Cut(string(text), " ")
		ns, err := strconv.ParseInt(first, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s/schedstat: %w", thread, err)
		}
		spent[thread] = time.Duration(ns)
	}
	return spent, nil
}

// ownCPU is cpuTime of this process, which is a client.
func ownCPU() (time.Duration, error) { return cpuTime(os.Getpid()) }

// syscalls is how often a process has called the kernel to read or to write, sockets included. Other calls are not counted.
func syscalls(pid int) (int64, error) {
	path := fmt.Sprintf("/proc/%d/io", pid)
	reads, err := procField(path, "syscr:")
	if err != nil {
		return 0, err
	}
	writes, err := procField(path, "syscw:")
	return reads + writes, err
}

// forgetPages drops a file's clean pages from the page cache.
func forgetPages(f *os.File) error { return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) }

// raiseDescriptors lets this process, and those that it starts, open so many files.
func raiseDescriptors(n uint64) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	if limit.Cur >= n {
		return nil
	}
	limit.Cur, limit.Max = n, max(limit.Max, n)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("%d open files are needed (ulimit -n): %w", n, err)
	}
	return nil
}

// bytesWritten is what a process has caused to be written to the disk, at the time it dirtied the page cache.
func bytesWritten(pid int) (int64, error) {
	return procField(fmt.Sprintf("/proc/%d/io", pid), "write_bytes:")
}

// memory is what a process holds resident: rss counts shared pages in full, pss divides them among their users.
func memory(pid int) (rss, pss int64, err error) {
	path := fmt.Sprintf("/proc/%d/smaps_rollup", pid)
	if rss, err = procField(path, "Rss:"); err != nil {
		return 0, 0, err
	}
	pss, err = procField(path, "Pss:")
	return rss << 10, pss << 10, err
}

func procField(path, name string) (int64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		if fields := strings.Fields(lines.Text()); len(fields) >= 2 && fields[0] == name {
			return strconv.ParseInt(fields[1], 10, 64)
		}
	}
	return 0, fmt.Errorf("%s has no %s", path, name)
}

// settle waits until the file system of dir has written everything, so that one run does not pay for the one before.
func settle(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}

// describeMachine names the processors, the memory, the kernel and the file system of dir.
func describeMachine(dir string) (m machine, err error) {
	m.Kernel = "unknown"
	if text, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = strings.TrimSpace(string(text))
	}
	kib, err := procField("/proc/meminfo", "MemTotal:")
	if err != nil {
		return m, err
	}
	m.MemoryBytes = kib << 10
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return m, fmt.Errorf("statfs %s: %w", dir, err)
	}
	switch fs.Type {
	case unix.EXT4_SUPER_MAGIC:
		m.FileSystem = "ext4"
	case unix.XFS_SUPER_MAGIC:
		m.FileSystem = "xfs"
	case unix.BTRFS_SUPER_MAGIC:
		m.FileSystem = "btrfs"
	case unix.TMPFS_MAGIC:
		m.FileSystem = "tmpfs (memory: a sync costs nothing here)"
	default:
		m.FileSystem = fmt.Sprintf("type 0x%x", fs.Type)
	}
	return m, nil
}
