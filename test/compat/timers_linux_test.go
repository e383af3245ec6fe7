package compat

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"moldau/test/harness"
)

// TestTimersAreCoarse: every thread of a node may be woken up to a millisecond late, the scheduler's own included, which is
// older than any code of ours.
func TestTimersAreCoarse(t *testing.T) {
	n := harness.Start(t)
	if env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", n.Pid())); err != nil || !strings.Contains(string(env), "MOLDAU_STARTED_AGAIN=1") {
		t.Errorf("the process has not executed itself again: %v, %q", err, env)
	}
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", n.Pid()))
	if err != nil || len(threads) < 2 {
		t.Fatalf("%d threads, %v", len(threads), err)
	}
	for _, thread := range threads {
		slack, err := os.ReadFile("/proc/" + thread.Name() + "/timerslack_ns")
		if err != nil { // it has ended, or this process lacks CAP_SYS_NICE, which it takes to look at another's
			t.Log(err)
			continue
		}
		if strings.TrimSpace(string(slack)) != "1000000" {
			t.Errorf("thread %s has a slack of %s ns", thread.Name(), slack)
		}
	}
	if strings.Contains(n.Log(), "STARTED_AGAIN") {
		t.Errorf("what the process tells itself is taken for configuration:\n%s", n.Log())
	}
}

// TestDiesWithItsParent: a node that is to be killed when its parent dies, as some supervisors want it, still is after it has executed
// itself again. The kernel counts the thread that started it as its parent.
func TestDiesWithItsParent(t *testing.T) {
	for range 5 {
		n := harness.Prepare(t)
		cmd := exec.Command(harness.Binary(t), "serve", n.Properties)
		cmd.Env, cmd.SysProcAttr = harness.Environment(), &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		started, ready, over := make(chan error, 1), make(chan struct{}), make(chan error, 1)
		go onThread(func() {
			started <- cmd.Start()
			<-ready
		})
		if err := <-started; err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		go func() { over <- cmd.Wait() }()
		harness.Eventually(t, 30*time.Second, "the node is ready", func() error { return harness.Answers("http://" + n.HTTP + "/readyz") })
		close(ready)
		select {
		case <-over:
		case <-time.After(20 * time.Second):
			t.Fatal("the node lives on")
		}
	}
}

// onThread calls f on a thread that ends with it.
func onThread(f func()) {
	runtime.LockOSThread() // never unlocked: the thread goes with the goroutine, unless it is the process's first
	if syscall.Gettid() != os.Getpid() {
		f()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		onThread(f)
	}()
	<-done
	runtime.UnlockOSThread()
}
