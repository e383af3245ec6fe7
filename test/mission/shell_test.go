package mission

import (
	"bytes"
	"context"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"moldau/test/harness"
)

// shellScript is what both shells are given; the lines that fail are meant to.
const shellScript = `ls /
create /a hello
create /a again
create -e /e ephemeral
create -s /s- x
create /no/parent x
get /a
set /a world
set /a world 0
set /a two 1
stat /a
stat /nope
get /nope
ls2 /
create /z "two words"
get /z
delete /z
delete /a 0
delete /nope
create /a/b x
create /e/child x
delete /a
getAcl /a
setAcl /a world:anyone:cdrwa
rmr /a
rmr /nope
sync /
get /e watch
set /e changed
get /e
quit
`

// TestZooKeeperShell: ours says what ZooKeeper's own says, of ZooKeeper, and of a node of ours.
func TestZooKeeperShell(t *testing.T) {
	k := harness.ApacheKafka(t, "1.1.1")
	type said struct{ out, errs string }
	ask := func(cmd *exec.Cmd) said {
		t.Helper()
		var out, errs bytes.Buffer
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(shellScript), &out, &errs
		if err := cmd.Run(); err != nil {
			t.Fatalf("%s: %v\n%s%s", cmd, err, &out, &errs)
		}
		return said{plain(out.String()), plain(errs.String())}
	}
	ours := func(address string) said {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, harness.Binary(t), "zookeeper-shell", address)
		cmd.Env = harness.Environment()
		return ask(cmd)
	}
	want := ask(k.Command(context.Background(), "org.apache.zookeeper.ZooKeeperMain", "-server", k.ZooKeeper(t)))
	if got := ours(k.ZooKeeper(t)); got != want {
		t.Errorf("ours:\n%s\n%s\ntheirs:\n%s\n%s", got.out, got.errs, want.out, want.errs)
	}
}

// plain takes out what a shell says about itself, what differs from run to run, the answer to sync, which ZooKeeper's own does not
// wait for, and the order of children.
func plain(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "Connecting to "), strings.HasPrefix(line, "Welcome "), strings.HasPrefix(line, "JLine "), strings.HasPrefix(line, "Quitting"),
			strings.HasPrefix(line, "log4j:"), line == "", line == "Sync returned 0", line == "WatchedEvent state:SyncConnected type:None path:null", strings.HasPrefix(line, "ephemeralOwner = 0x1"):
			continue
		case line == "WATCHER::" && len(lines) == 0:
			continue
		case strings.HasPrefix(line, "["):
			words := strings.Split(strings.Trim(line, "[]"), ", ")
			slices.Sort(words)
			line = strings.Join(words, " ")
		}
		lines = append(lines, regexp.MustCompile(`time = .*|[cmp]Zxid = .*`).ReplaceAllString(line, "…"))
	}
	return strings.Join(lines, "\n")
}
