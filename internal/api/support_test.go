package api

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/server"
	"moldau/internal/wire"
)

var update = flag.Bool("update", false, "write docs/api-support.md anew")

// TestSupportPageIsFresh: docs/api-support.md is what the table says.
func TestSupportPageIsFresh(t *testing.T) {
	const path = "../../docs/api-support.md"
	want := supportPage(t)
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%s is stale (%v): run `go test ./internal/api -run SupportPage -update`", path, err)
	}
}

func supportPage(t *testing.T) string {
	var b strings.Builder
	b.WriteString("# API support\n\nGenerated from the table in `internal/api/routes.go` by `go test ./internal/api -run SupportPage -update`.\n\n" +
		"Every API that moldau serves, the versions, the listeners, and the scripts in `internal/api/testdata/scripts` that cover it.\n" +
		"ApiVersions tells clients the same ranges.\n\n" +
		"| key | API | versions | listeners | scripts |\n|---|---|---|---|---|\n")
	scripts := scriptsByAPI(t)
	for _, r := range rows() {
		var listeners []string
		if r.brokers != nil {
			listeners = append(listeners, "broker")
		}
		if r.controllers != nil {
			listeners = append(listeners, "controller")
		}
		name := nameOf(r)
		versions := fmt.Sprintf("%d–%d", r.min, r.max)
		if r.min == r.max {
			versions = fmt.Sprint(r.min)
		}
		fmt.Fprintf(&b, "| %d | %s | %s | %s | %s |\n", r.key, name, versions, strings.Join(listeners, ", "), strings.Join(scripts[name], ", "))
	}
	return b.String()
}

// nameOf is kmsg's name of an API, or ours.
func nameOf(r row) string {
	switch r.key {
	case wire.RaftKey:
		return "raft messages (private)"
	case wire.FormKey:
		return "forming a cluster (private)"
	case wire.ZooKeeperKey:
		return "connection of a ZooKeeper client (private)"
	case wire.ZooKeeperOffsetsKey:
		return "offsets in the ZooKeeper tree (private)"
	case wire.NodeIDKey:
		return "number for a node that has none (private)"
	}
	return kmsg.NameForKey(r.key)
}

// scriptsByAPI tells which scripts ask for an API, by its name.
func scriptsByAPI(t *testing.T) map[string][]string {
	paths, err := filepath.Glob("testdata/scripts/*")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]string{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		script := filepath.Base(path)
		for _, r := range rows() {
			name := kmsg.NameForKey(r.key)
			asked := strings.Contains(string(text), "\nask "+name+" ") || strings.HasPrefix(string(text), "ask "+name+" ")
			if r.key == 0 {
				asked = strings.Contains(string(text), "\nproduce ")
			}
			if asked {
				found[name] = append(found[name], script)
			}
		}
	}
	return found
}

// TestEveryRouteHasAScript: what is served is shown.
func TestEveryRouteHasAScript(t *testing.T) {
	scripts := scriptsByAPI(t)
	for _, r := range rows() {
		if name := kmsg.NameForKey(r.key); !r.hidden && len(scripts[name]) == 0 {
			t.Errorf("no script asks for %s", name)
		}
	}
}

// TestTable: keys ascend, ranges are sound, and kmsg can decode all of them.
func TestTable(t *testing.T) {
	last := int16(-1)
	for _, r := range rows() {
		name := kmsg.NameForKey(r.key)
		if r.key <= last {
			t.Errorf("%s is out of order or there twice", name)
		}
		last = r.key
		req, _ := wire.NewRequest(r.key, r.min)
		if req == nil || r.hidden != (r.key >= wire.FirstPrivateKey) || r.min < 0 || r.min > r.max || r.max > req.MaxVersion() {
			t.Errorf("%s: versions %d to %d", name, r.min, r.max)
		}
		if r.on(server.Broker) == nil && r.on(server.Controller) == nil {
			t.Errorf("%s is served nowhere", name)
		}
	}
}
