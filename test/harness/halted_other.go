//go:build !linux

package harness

// Halted cannot be told here.
func Halted(int) bool { return true }
