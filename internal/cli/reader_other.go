//go:build !unix

package cli

import "os"

// isTerminal tells whether a person probably sits at f.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// readerGone is not known here: a write finds out.
func readerGone(*os.File) bool { return false }
