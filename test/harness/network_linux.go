package harness

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Network is a network that the tests of a package have for themselves, in which each node has a place of its own.
type Network struct {
	// Inside is set in the environment of the test process that runs in it. It begins with none of the prefixes that make a
	// variable a setting of a node.
	Inside  string
	Gateway string                 // the address of the tests
	Hosts   func() (string, error) // the text of /etc/hosts; nil: as it is
	Fetch   func()                 // what the tests need from elsewhere: nothing can be fetched in there
}

// Main is TestMain: it runs the tests in the network, in a second process, while this one holds the machine-wide lock. Without the
// right to make a network it runs them outside, and Need says what is missing.
func (n Network) Main(m *testing.M) {
	if os.Getenv(n.Inside) != "" {
		os.Exit(m.Run())
	}
	os.Exit(Locked(func() int {
		code, err := n.enter(m)
		if err != nil {
			fmt.Fprintln(os.Stderr, "cannot run the tests in a network of their own:", err)
			return 1
		}
		return code
	}))
}

func (n Network) enter(m *testing.M) (code int, err error) {
	flags := []string{"--net", "--mount"}
	if os.Geteuid() != 0 {
		flags = append(flags, "--user", "--map-root-user")
	}
	if err := exec.Command("unshare", append(flags, "true")...).Run(); err != nil {
		return m.Run(), nil
	}
	n.Fetch()
	script := []string{
		"set -e",
		"mount -t tmpfs none /run", // where ip keeps the names of namespaces
	}
	if n.Hosts != nil {
		hosts, err := n.Hosts()
		if err != nil {
			return 0, err
		}
		dir, err := os.MkdirTemp("", "network")
		if err != nil {
			return 0, err
		}
		defer os.RemoveAll(dir)
		file := filepath.Join(dir, "hosts")
		if err := os.WriteFile(file, []byte(hosts), 0o644); err != nil {
			return 0, err
		}
		script = append(script, "mount --bind "+file+" /etc/hosts")
	}
	script = append(script,
		"ip link set lo up",
		"ip link add br0 type bridge",
		"ip addr add "+n.Gateway+"/24 dev br0",
		"ip link set br0 up",
		`exec "$0" "$@"`)
	cmd := exec.Command("unshare", append(append(flags, "sh", "-c", strings.Join(script, "\n")), os.Args...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), n.Inside+"=1", OwnMounts+"=1")
	cmd.SysProcAttr = deathSignal()
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), nil
	}
	return 0, err
}

// Need ends the test if there is no network for it.
func (n Network) Need(t T) {
	t.Helper()
	if os.Getenv(n.Inside) == "" {
		Missing(t, "no network namespaces here: run as root, or allow user namespaces")
	}
	Tool(t, "ip", "install iproute2")
}

// AddPlace makes a namespace with a link to all others, and removes both after the test. The id tells links apart.
func (Network) AddPlace(t T, namespace string, id int, address string) {
	t.Helper()
	link := fmt.Sprintf("veth%d", id)
	RunCommand(t, "ip", "netns", "add", namespace)
	t.Cleanup(func() { RunCommand(t, "ip", "netns", "del", namespace) })
	RunCommand(t, "ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", namespace)
	t.Cleanup(func() { RunCommand(t, "ip", "link", "del", link) }) // it would outlive its namespace for a moment
	RunCommand(t, "ip", "link", "set", link, "master", "br0", "up")
	RunCommand(t, "ip", "-n", namespace, "addr", "add", address+"/24", "dev", "eth0")
	RunCommand(t, "ip", "-n", namespace, "link", "set", "eth0", "up")
	RunCommand(t, "ip", "-n", namespace, "link", "set", "lo", "up")
}

// RunCommand runs a command that has to succeed.
func RunCommand(t T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}
