//go:build !linux

package harness

import "syscall"

func deathSignal() *syscall.SysProcAttr { return nil }
