package cli

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"

	"moldau/internal/config"
	"moldau/internal/node"
)

// screen is what a person sees when a node has started: where it is and what to type next.
func screen(n config.Node, addresses []node.Address) string {
	var b strings.Builder
	line := func(name, text string) { fmt.Fprintf(&b, "  %-11s %s\n", name, text) }
	fmt.Fprintf(&b, "\nmoldau %s, node %d, is ready.\n\n", version(), n.ID)
	first := ""
	for _, a := range addresses {
		note := ""
		if a.Moved {
			note = " (the usual port was taken)"
		}
		switch {
		case a.Controller:
			line("controller", a.Bound+note)
		case a.Name == "HTTP":
			line("http", "http://"+reachable(a.Bound)+"/metrics"+note)
		default:
			if a.Advertised != a.Bound {
				note += ", clients are told " + a.Advertised
			}
			if a.Name != "PLAINTEXT" {
				note += " (" + a.Name + ")"
			}
			line("kafka", a.Bound+note)
			if first == "" {
				first = reachable(a.Bound)
			}
		}
	}
	for _, dir := range n.Storage.Dirs {
		if whole, err := filepath.Abs(dir); err == nil {
			dir = whole
		}
		line("data", dir)
	}
	fmt.Fprintf(&b, `
Try it with any Kafka client, for example in another terminal:
  echo hello | kcat -P -b %[1]s -t greetings
  kcat -C -b %[1]s -t greetings -e

Ctrl-C stops the node.

`, first)
	return b.String()
}

// reachable turns the address of all interfaces into one that can be dialled from this machine.
func reachable(address string) string {
	host, port, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err == nil && ip.IsUnspecified() {
		return "localhost:" + port
	}
	return address
}
