package cli

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"

	"moldau/internal/config"
	"moldau/internal/node"
)

// screen is what a person sees when a node has started: where it is and what to type next. program is how this binary is
// called.
func screen(n config.Node, addresses []node.Address, program string) string {
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
	at := " --bootstrap-server " + first
	if first == defaultBootstrap || first == "localhost:9092" {
		at = "" // the tools find that by themselves
	}
	fmt.Fprintf(&b, `
In another terminal:
  echo hello | %[1]s console-producer%[2]s --topic greetings
  %[1]s tail%[2]s greetings
  %[1]s topics%[2]s --describe
  %[1]s doctor%[2]s

Any other Kafka client works as well, %[1]s help lists all tools. Ctrl-C stops the node.

`, program, at)
	return b.String()
}

// calledAs is what to type to run this binary again, where its first argument was arg.
func calledAs(arg string) string {
	if strings.Contains(filepath.ToSlash(arg), "/go-build") { // the binary that go run made will be gone
		return "go run ./cmd/moldau"
	}
	if strings.ContainsAny(arg, " \t'\"\\$") {
		return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
	}
	return arg
}

// reachable turns the address of all interfaces into one that can be dialled from this machine.
func reachable(address string) string {
	host, port, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err == nil && ip.IsUnspecified() {
		return "localhost:" + port
	}
	return address
}
