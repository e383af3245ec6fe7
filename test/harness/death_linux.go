package harness

import "syscall"

// deathSignal makes the kernel end a child when the test process dies, so that nothing outlives a killed test run.
func deathSignal() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
