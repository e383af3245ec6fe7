//go:build !linux

package cli

// coarseTimers does nothing: timer slack is Linux's.
func coarseTimers() {}
