package harness

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// T is what this package needs of a *testing.T, so that a command can use it too.
type T interface {
	Helper()
	Logf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Skip(args ...any)
	Cleanup(f func())
	TempDir() string
	Failed() bool
}

var _ T = testing.TB(nil)

// Main runs a suite that starts processes while it holds the machine-wide lock, so that packages which go test runs side
// by side do not disturb each other.
func Main(m *testing.M) { os.Exit(Locked(m.Run)) }

// Locked calls run while it holds that lock, and returns what run does.
func Locked(run func() int) int {
	path := filepath.Join(os.TempDir(), "moldau-test.lock")
	lock, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot open the lock between test suites:", err)
		return 1
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		fmt.Fprintf(os.Stderr, "cannot lock %s: %v\n", path, err)
		return 1
	}
	return run()
}

// Missing skips the test because a tool is not there, or fails it when MOLDAU_REQUIRE_ALL=1 says that it has to be.
func Missing(t T, format string, args ...any) {
	t.Helper()
	text := fmt.Sprintf(format, args...)
	if os.Getenv("MOLDAU_REQUIRE_ALL") == "1" {
		t.Fatalf("%s (MOLDAU_REQUIRE_ALL=1 makes this a failure)", text)
	}
	t.Skip(text)
}

// Tool returns the path of a program, or ends the test through Missing.
func Tool(t T, name, cure string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Missing(t, "no %s on this machine: %s", name, cure)
	}
	return path
}

// Thorough tells how far random suites should go: 1 by default, more when MOLDAU_EFFORT is "ci" or "night".
func Thorough() int {
	switch os.Getenv("MOLDAU_EFFORT") {
	case "ci":
		return 4
	case "night":
		return 40
	}
	return 1
}

func cacheDir() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		base = os.TempDir()
	}
	dir := filepath.Join(base, "moldau-test")
	return dir, os.MkdirAll(dir, 0o755)
}
