package mission

import (
	"os"
	"testing"

	"moldau/test/harness"
)

// network is where the hosts of the worked case are, who know each other's names.
func network() harness.Network {
	return harness.Network{Inside: "NETWORK_OF_MISSION_TEST", Gateway: "10.77.1.254", Hosts: names, Fetch: func() {
		harness.Prefetch()
		harness.PrefetchKafka("0.8.2.2", "0.10.2.2", "0.11.0.3", "1.1.1")
	}}
}

func TestMain(m *testing.M) { network().Main(m) }

// names is an /etc/hosts with the hosts, and with this machine: a Java client of that time ends at once where its machine's own
// name leads nowhere.
func names() (string, error) {
	own, err := os.Hostname()
	if err != nil {
		return "", err
	}
	text := "127.0.0.1 localhost " + own + "\n"
	for _, h := range hostsUpTo(5) {
		text += h.address + " " + h.name + "\n"
	}
	return text, nil
}
