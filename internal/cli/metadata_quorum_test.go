package cli

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"moldau/internal/config"
	"moldau/internal/node"
	"moldau/test/harness"
)

// startOnDisk runs a node of a configuration file, for tools that read its directory.
func startOnDisk(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	c, _, err := config.Load(config.Source{File: file, Text: text})
	if err != nil {
		t.Fatal(err)
	}
	n, err := node.Build(node.Options{Config: c, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Stop(t.Context()); err != nil && t.Context().Err() == nil {
			t.Errorf("stop: %v", err)
		}
	})
}

// TestControllersComeAndGo: a controller that joins gets a vote, loses it by one command and gets it back by another, whether the
// tool speaks to a broker or to a controller.
func TestControllersComeAndGo(t *testing.T) {
	ports := harness.FreePorts(t, 3)
	dir := t.TempDir()
	write := func(name, text string, args ...any) string {
		path := filepath.Join(dir, name+".properties")
		text = fmt.Sprintf(text, args...) + fmt.Sprintf("\ncontroller.quorum.bootstrap.servers=127.0.0.1:%d\ncontroller.listener.names=CONTROLLER\n"+
			"http.listeners=http://127.0.0.1:0\nlog.dirs=%s\n", ports[1], filepath.Join(dir, name))
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	startOnDisk(t, write("one", "node.id=1\nprocess.roles=broker,controller\nlisteners=PLAINTEXT://127.0.0.1:%d,CONTROLLER://127.0.0.1:%d", ports[0], ports[1]))
	second := write("two", "node.id=2\nprocess.roles=controller\nlisteners=CONTROLLER://127.0.0.1:%d", ports[2])
	startOnDisk(t, second)

	broker := &cluster{address: fmt.Sprintf("127.0.0.1:%d", ports[0])}
	try := func(args ...string) (code int, out string) {
		var o, errs output
		a := &app{stdin: strings.NewReader(""), stdout: &o, stderr: &errs, signals: make(chan os.Signal, 1)}
		code = a.run(append([]string{"metadata-quorum"}, args...))
		return code, o.String() + errs.String()
	}
	run := func(args ...string) string {
		t.Helper()
		code, out := try(args...)
		if code != exitOK {
			t.Fatalf("%v: exit code %d\n%s", args, code, out)
		}
		return out
	}
	controllers := []string{"--bootstrap-controller", fmt.Sprintf("127.0.0.1:%d", ports[2])} // which does not lead
	voters := func(want int) (status string) {
		t.Helper()
		limit := time.After(time.Minute)
		for {
			var code int // a controller that has just started may not know who leads, nor the leader at once who follows that has no vote
			if code, status = try(append(controllers, "describe", "--replication")...); code == exitOK &&
				strings.Count(status, "Leader")+strings.Count(status, "Follower") == want && strings.Count(status, "Observer") == 2-want {
				return status
			}
			select {
			case <-limit:
				t.Fatalf("there are not %d voters and %d that follow without a vote:\n%s", want, 2-want, status)
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
	line := ""
	for l := range strings.Lines(voters(2)) {
		if strings.HasPrefix(l, "2 ") {
			line = l
		}
	}
	id := strings.Fields(line)[1]
	if got, want := run(append(controllers, "remove-controller", "--dry-run", "-i", "2", "-d", id)...), "DRY RUN of removing  KRaft controller 2 with directory id "+id+"\n"; got != want {
		t.Errorf("dry run: %q", got)
	}
	if got, want := run(append(controllers, "remove-controller", "--controller-id", "2", "--controller-directory-id", id)...), "Removed  KRaft controller 2 with directory id "+id+"\n"; got != want {
		t.Errorf("remove: %q", got)
	}
	voters(1)
	broker.fails(t, exitFailure, "VOTER_NOT_FOUND", "metadata-quorum", "remove-controller", "-i", "2", "-d", id)
	want := fmt.Sprintf("controller 2 with directory id %s and endpoints: CONTROLLER://127.0.0.1:%d\n", id, ports[2])
	if got := run("--bootstrap-server", broker.address, "add-controller", "--dry-run", "--command-config", second); got != "DRY RUN of adding "+want {
		t.Errorf("dry run: %q", got)
	}
	if got := run("--bootstrap-server", broker.address, "add-controller", "--command-config", second); got != "Added "+want {
		t.Errorf("add: %q", got)
	}
	voters(2)
	broker.fails(t, exitFailure, "DUPLICATE_VOTER", "metadata-quorum", "add-controller", "--command-config", second)
	broker.fails(t, exitUsage, "cannot be given together", "metadata-quorum", "describe", "--status", "--bootstrap-controller", "x:1")
}
