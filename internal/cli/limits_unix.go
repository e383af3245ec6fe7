//go:build unix

package cli

import "syscall"

// openFilesLimit is how many files a process of this shell may hold open.
func openFilesLimit() (n uint64, ok bool) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, false
	}
	return uint64(limit.Max), true // Go raises the soft limit to the hard one by itself
}
