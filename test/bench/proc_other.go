//go:build !linux

package main

import (
	"errors"
	"os"
	"time"
)

var errLinux = errors.New("the benchmark reads /proc and runs on Linux only")

func cpuTime(int) (time.Duration, error)               { return 0, errLinux }
func ownCPU() (time.Duration, error)                   { return 0, errLinux }
func kernelThreads() (map[string]time.Duration, error) { return nil, errLinux }
func syscalls(int) (int64, error)                      { return 0, errLinux }
func forgetPages(*os.File) error                       { return errLinux }
func raiseDescriptors(uint64) error                    { return errLinux }
func bytesWritten(int) (int64, error)                  { return 0, errLinux }
func memory(int) (rss, pss int64, err error)           { return 0, 0, errLinux }
func settle(string) error                              { return errLinux }
func describeMachine(string) (m machine, _ error)      { return m, errLinux }

type callCounter struct{}

func countCalls([]int) (*callCounter, error)             { return nil, errLinux }
func (*callCounter) read() (all, syncs int64, err error) { return 0, 0, errLinux }
func (*callCounter) close()                              {}
