//go:build !unix

package cli

// openFilesLimit is how many files a process may hold open, where the system has such a limit.
func openFilesLimit() (n uint64, ok bool) { return 0, false }
