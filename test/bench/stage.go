package main

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"moldau/test/harness"
)

// stage is the harness.T of one part of the run: what is started in it ends with it.
type stage struct {
	dir      string // where TempDir makes folders
	cleanups []func()
	failure  error
}

var _ harness.T = (*stage)(nil)

// onStage runs f and then the cleanups that it asked for, last first. It returns what f failed with. Like a test, f must
// call Fatal from its own goroutine.
func onStage(dir string, f func(t harness.T)) error {
	s := &stage{dir: dir}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(s)
	}()
	<-done
	for _, cleanup := range slices.Backward(s.cleanups) {
		cleanup()
	}
	return s.failure
}

func (s *stage) Helper() {}

func (s *stage) Logf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

func (s *stage) Fatal(args ...any) {
	s.failure = fmt.Errorf("%s", strings.TrimSpace(fmt.Sprintln(args...)))
	runtime.Goexit()
}

func (s *stage) Fatalf(format string, args ...any) {
	s.failure = fmt.Errorf(format, args...)
	runtime.Goexit()
}

// Skip ends the stage: a benchmark without its tools has nothing to say.
func (s *stage) Skip(args ...any) { s.Fatal(args...) }

func (s *stage) Cleanup(f func()) { s.cleanups = append(s.cleanups, f) }

func (s *stage) TempDir() string {
	dir, err := os.MkdirTemp(s.dir, "moldau-bench-")
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (s *stage) Failed() bool { return s.failure != nil }
