package cluster

import (
	"fmt"
	"testing"

	"moldau/test/harness"
)

// network is where the nodes of these tests are.
func network() harness.Network {
	return harness.Network{Inside: "NETWORK_OF_CLUSTER_TEST", Gateway: "10.77.0.254", Fetch: fetch}
}

func TestMain(m *testing.M) { network().Main(m) }

func address(id int) string   { return fmt.Sprintf("10.77.0.%d", id) }
func namespace(id int) string { return fmt.Sprintf("node%d", id) }

// needNetwork ends the test if there is no network for it.
func needNetwork(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("a cluster of processes takes seconds to start")
	}
	network().Need(t)
}

// cut drops everything that node from sends to node to.
func cut(t *testing.T, from, to int) {
	t.Helper()
	harness.Tool(t, "nft", "install nftables")
	rules := fmt.Sprintf("add table inet cut; add chain inet cut in { type filter hook input priority 0; }; add rule inet cut in ip saddr %s drop", address(from))
	harness.RunCommand(t, "ip", "netns", "exec", namespace(to), "nft", rules)
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
	harness.RunCommand(t, "ip", "netns", "exec", namespace(id), "ss", "-K", "state", "established")
}

// heal mends every link.
func (c *cluster) heal(t *testing.T) {
	t.Helper()
	for _, id := range c.ids() {
		harness.RunCommand(t, "ip", "netns", "exec", namespace(id), "nft", "add table inet cut; delete table inet cut")
	}
}
