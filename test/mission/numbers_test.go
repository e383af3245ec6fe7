package mission

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"moldau/test/harness"
)

// sameFile is a server.properties that is the same on every host: who is who follows from the hosts' own names.
const sameFile = `log.dirs=data
num.partitions=3
zookeeper.connect=ip101:2181,ip102:2181,ip103:2181
zookeeper.listeners=:2181
http.listeners=http://:9644
`

// TestOneFileForAll: three hosts with one and the same file form a cluster and number themselves. Two more, told that they are brokers,
// join at once and get the next numbers, which they keep; one that has lost its disk gets another.
func TestOneFileForAll(t *testing.T) {
	if testing.Short() {
		t.Skip("five nodes take seconds to start")
	}
	network().Need(t)
	conf := filepath.Join(t.TempDir(), "server.properties")
	if err := os.WriteFile(conf, []byte(sameFile), 0o644); err != nil {
		t.Fatal(err)
	}
	all := hostsUpTo(5)
	for _, h := range all {
		network().AddPlace(t, h.name, h.id, h.address)
		h.dir, h.conf = t.TempDir(), conf
		h.log = filepath.Join(h.dir, "log")
		if h.id > 3 {
			h.args = []string{"--override", "process.roles=broker"}
		}
		h.run(t)
	}
	for _, h := range all {
		h.ready(t)
	}
	tree := treeOf(t, "ip101:2181,ip102:2181,ip103:2181")
	brokers := func(want ...string) {
		t.Helper()
		harness.Eventually(t, 2*time.Minute, "the brokers are there", func() error {
			ids, err := tree.Children("/brokers/ids")
			if err == nil && !slices.Equal(ids, want) {
				err = fmt.Errorf("brokers %v, want %v", ids, want)
			}
			return err
		})
	}
	brokers("1001", "1002", "1003", "1004", "1005")
	for _, h := range all[3:] {
		h.kill()
		h.start(t)
	}
	for _, h := range all[3:] {
		h.ready(t)
	}
	brokers("1001", "1002", "1003", "1004", "1005")

	lost := all[4]
	lost.kill()
	was := kept(t, lost)
	if err := os.RemoveAll(filepath.Join(lost.dir, "data")); err != nil {
		t.Fatal(err)
	}
	lost.start(t)
	lost.ready(t)
	if now := kept(t, lost); now != "node.id=1006" {
		t.Errorf("a node without its disk is %s, was %s", now, was)
	}
}

// kept is the line of meta.properties that says which node a host's disk belongs to.
func kept(t *testing.T, h *host) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(h.dir, "data", "meta.properties"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "node.id=") {
			return strings.TrimSpace(line)
		}
	}
	return ""
}
