package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"moldau/test/harness"
)

// inside is set in the environment of the test process that runs in its own network. It begins with none of the prefixes that
// make a variable a setting of a node.
const inside = "NETWORK_OF_CLUSTER_TEST"

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
	script := strings.Join([]string{
		"set -e",
		"mount -t tmpfs none /run", // where ip keeps the names of namespaces
		"ip link set lo up",
		"ip link add br0 type bridge",
		"ip addr add " + gateway + "/24 dev br0",
		"ip link set br0 up",
		`exec "$0" "$@"`,
	}, "\n")
	if err := exec.Command("unshare", append(flags, "true")...).Run(); err != nil {
		return m.Run() // every test then says what is missing
	}
	// Nothing can be fetched in there.
	fetch()
	cmd := exec.Command("unshare", append(append(flags, "sh", "-c", script), os.Args...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), inside+"=1", harness.OwnMounts+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	err := cmd.Run()
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

const gateway = "10.77.0.254"

func address(id int) string   { return fmt.Sprintf("10.77.0.%d", id) }
func namespace(id int) string { return fmt.Sprintf("node%d", id) }

// needNetwork ends the test if there is no network for it.
func needNetwork(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("a cluster of processes takes seconds to start")
	}
	if os.Getenv(inside) == "" {
		harness.Missing(t, "no network namespaces here: run as root, or allow user namespaces")
	}
	harness.Tool(t, "ip", "install iproute2")
}

// run runs a command of the network.
func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// addPlace makes the namespace of a node, with its link, and removes it after the test.
func addPlace(t *testing.T, id int) {
	t.Helper()
	ns, link := namespace(id), fmt.Sprintf("veth%d", id)
	run(t, "ip", "netns", "add", ns)
	t.Cleanup(func() { run(t, "ip", "netns", "del", ns) })
	run(t, "ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", ns)
	t.Cleanup(func() { run(t, "ip", "link", "del", link) }) // it would outlive its namespace for a moment
	run(t, "ip", "link", "set", link, "master", "br0", "up")
	run(t, "ip", "-n", ns, "addr", "add", address(id)+"/24", "dev", "eth0")
	run(t, "ip", "-n", ns, "link", "set", "eth0", "up")
	run(t, "ip", "-n", ns, "link", "set", "lo", "up")
}

// cut drops everything that node from sends to node to.
func cut(t *testing.T, from, to int) {
	t.Helper()
	harness.Tool(t, "nft", "install nftables")
	rules := fmt.Sprintf("add table inet cut; add chain inet cut in { type filter hook input priority 0; }; add rule inet cut in ip saddr %s drop", address(from))
	run(t, "ip", "netns", "exec", namespace(to), "nft", rules)
}

// isolate cuts a node off from all others, both ways.
func (c *cluster) isolate(t *testing.T, id int) {
	t.Helper()
	for _, other := range c.ids() {
		if other != id {
			cut(t, id, other)
			cut(t, other, id)
		}
	}
}

// reset ends every TCP connection of a node, with a reset to the other side.
func (c *cluster) reset(t *testing.T, id int) {
	t.Helper()
	harness.Tool(t, "ss", "install iproute2")
	run(t, "ip", "netns", "exec", namespace(id), "ss", "-K", "state", "established")
}

// heal mends every link.
func (c *cluster) heal(t *testing.T) {
	t.Helper()
	for _, id := range c.ids() {
		run(t, "ip", "netns", "exec", namespace(id), "nft", "add table inet cut; delete table inet cut")
	}
}
