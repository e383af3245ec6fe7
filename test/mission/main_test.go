package mission

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"moldau/test/harness"
)

// inside is set in the environment of the test process that runs in its own network. It begins with none of the prefixes that
// make a variable a setting of a node.
const inside = "NETWORK_OF_MISSION_TEST"

// TestMain runs the tests in a network of their own, in a second process, while this one holds the machine-wide lock.
func TestMain(m *testing.M) {
	if os.Getenv(inside) != "" {
		os.Exit(m.Run())
	}
	os.Exit(harness.Locked(func() int { return enter(m) }))
}

func enter(m *testing.M) int {
	flags := []string{"--net", "--mount"}
	if os.Geteuid() != 0 {
		flags = append(flags, "--user", "--map-root-user")
	}
	if err := exec.Command("unshare", append(flags, "true")...).Run(); err != nil {
		return m.Run() // every test that needs hosts then says what is missing
	}
	// Nothing can be fetched in there.
	harness.Prefetch()
	harness.PrefetchKafka("0.8.2.2", "1.1.1")
	dir, err := os.MkdirTemp("", "mission")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	// A Java client of that time ends at once where its machine's own name leads nowhere.
	own, err := os.Hostname()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	names := "127.0.0.1 localhost " + own + "\n"
	for _, h := range hosts() {
		names += h.address + " " + h.name + "\n"
	}
	file := filepath.Join(dir, "hosts")
	if err := os.WriteFile(file, []byte(names), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	script := strings.Join([]string{
		"set -e",
		"mount -t tmpfs none /run", // where ip keeps the names of namespaces
		"mount --bind " + file + " /etc/hosts",
		"ip link set lo up",
		"ip link add br0 type bridge",
		"ip addr add " + gateway + "/24 dev br0",
		"ip link set br0 up",
		`exec "$0" "$@"`,
	}, "\n")
	cmd := exec.Command("unshare", append(append(flags, "sh", "-c", script), os.Args...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), inside+"=1", harness.OwnMounts+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return exit.ExitCode()
	case err != nil:
		fmt.Fprintln(os.Stderr, "cannot run the tests in a network of their own:", err)
		return 1
	}
	return 0
}
