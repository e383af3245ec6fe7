package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// callCounter counts the calls that processes make of the kernel: all of them, and those that wait until something is on the
// disk. Counting slows each call down a little.
type callCounter struct{ all, syncs []int } // descriptors of events, one for each thread that was there at the start

// callEvent is the event of entering any call of the kernel.
const callEvent = "/sys/kernel/tracing/events/raw_syscalls/sys_enter/id"

// countCalls begins to count the calls of some processes, with those of threads that they start later. It takes privileges
// (CAP_PERFMON, and tracefs to be readable).
func countCalls(pids []int) (*callCounter, error) {
	text, err := os.ReadFile(callEvent)
	if err != nil {
		return nil, err
	}
	id, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", callEvent, err)
	}
	var syncs []string
	for _, call := range []int{unix.SYS_FSYNC, unix.SYS_FDATASYNC, unix.SYS_SYNCFS, unix.SYS_SYNC, unix.SYS_MSYNC} {
		syncs = append(syncs, fmt.Sprintf("id == %d", call))
	}
	c := &callCounter{}
	for _, pid := range pids {
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
		if err != nil {
			return nil, err
		}
		for _, task := range tasks {
			tid, err := strconv.Atoi(filepath.Base(task))
			if err == nil {
				err = errors.Join(openEvent(&c.all, id, tid, ""), openEvent(&c.syncs, id, tid, strings.Join(syncs, " || ")))
			}
			if err != nil {
				c.close()
				return nil, fmt.Errorf("count the calls of process %d: %w", pid, err)
			}
		}
	}
	return c, nil
}

// openEvent adds the count of a thread's events to fds, unless the thread has ended.
func openEvent(fds *[]int, id uint64, tid int, filter string) error {
	attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_TRACEPOINT, Config: id, Bits: unix.PerfBitInherit}
	attr.Size = uint32(unsafe.Sizeof(attr))
	fd, err := unix.PerfEventOpen(&attr, tid, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return os.NewSyscallError("perf_event_open", err)
	}
	*fds = append(*fds, fd)
	if filter == "" {
		return nil
	}
	return os.NewSyscallError("PERF_EVENT_IOC_SET_FILTER", unix.IoctlSetString(fd, unix.PERF_EVENT_IOC_SET_FILTER, filter))
}

// read returns the counts since the start.
func (c *callCounter) read() (all, syncs int64, err error) {
	if all, err = sumEvents(c.all); err == nil {
		syncs, err = sumEvents(c.syncs)
	}
	return all, syncs, err
}

func sumEvents(fds []int) (sum int64, err error) {
	var count [8]byte
	for _, fd := range fds {
		if _, err := unix.Read(fd, count[:]); err != nil {
			return 0, os.NewSyscallError("read", err)
		}
		sum += int64(binary.NativeEndian.Uint64(count[:]))
	}
	return sum, nil
}

func (c *callCounter) close() {
	for _, fd := range append(c.all, c.syncs...) {
		_ = unix.Close(fd)
	}
}
