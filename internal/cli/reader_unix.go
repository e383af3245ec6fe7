//go:build unix

package cli

import (
	"os"

	"golang.org/x/sys/unix"
)

// isTerminal tells whether a person probably sits at f. Only a terminal has a size; /dev/null is a character device as well.
func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	return err == nil
}

// readerGone tells whether f is a pipe, or the like, whose other end is closed.
func readerGone(f *os.File) bool {
	ends := []unix.PollFd{{Fd: int32(f.Fd())}}
	n, err := unix.Poll(ends, 0)
	return err == nil && n > 0 && ends[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0
}
