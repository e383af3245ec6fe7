package mission

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"moldau/test/harness"
)

// shellScript is what both shells are given; the lines that fail are meant to. The watch fires long before the end, and nothing says
// when: ZooKeeper's shell does not wait for its events.
const shellScript = `ls /
create /a hello
create /a again
create -e /e ephemeral
get /e watch
set /e changed
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
get /e
quit
`

// TestZooKeeperShell: ours says what ZooKeeper's own says, of ZooKeeper, and of a node of ours.
func TestZooKeeperShell(t *testing.T) {
	k := harness.ApacheKafka(t, "1.1.1")
	ours, theirs := shells(t, k, shellScript)
	want := theirs(k.ZooKeeper(t))
	if got := ours(k.ZooKeeper(t)); got != want {
		t.Errorf("ours:\n%s\ntheirs:\n%s", got, want)
	}
}

// said is what a shell has printed. Its events stand apart: ZooKeeper's own prints them in a thread of their own, between any two lines.
type said struct{ out, events, errs string }

func (s said) String() string { return s.out + "\n" + s.events + "\n" + s.errs }

// shells give a script to our shell, and to ZooKeeper's own, at an address.
func shells(t *testing.T, k *harness.Kafka, script string) (ours, theirs func(address string) said) {
	ask := func(cmd *exec.Cmd) said {
		t.Helper()
		var out, errs bytes.Buffer
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(script), &out, &errs
		if err := cmd.Run(); err != nil {
			t.Fatalf("%s: %v\n%s%s", cmd, err, &out, &errs)
		}
		lines, events := plain(out.String())
		complaints, _ := plain(errs.String())
		return said{lines, events, complaints}
	}
	ours = func(address string) said {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, harness.Binary(t), "zookeeper-shell", address)
		cmd.Env = harness.Environment()
		return ask(cmd)
	}
	theirs = func(address string) said {
		return ask(k.Command(context.Background(), "org.apache.zookeeper.ZooKeeperMain", "-server", address))
	}
	return ours, theirs
}

// plain takes out what a shell says about itself and its connections, what differs from run to run, the answer to sync, which
// ZooKeeper's own does not wait for, and the order of children; what it says of watches is returned apart.
func plain(text string) (out, events string) {
	var lines, watched []string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "Connecting to "), strings.HasPrefix(line, "Welcome "), strings.HasPrefix(line, "JLine "), strings.HasPrefix(line, "Quitting"),
			strings.HasPrefix(line, "log4j:"), line == "", line == "Sync returned 0", strings.HasPrefix(line, "ephemeralOwner = 0x1"),
			line == "WATCHER::", strings.HasPrefix(line, "WatchedEvent ") && strings.Contains(line, " type:None "):
			continue
		case strings.HasPrefix(line, "WatchedEvent "):
			watched = append(watched, line)
			continue
		case strings.HasPrefix(line, "["):
			words := strings.Split(strings.Trim(line, "[]"), ", ")
			slices.Sort(words)
			line = strings.Join(words, " ")
		}
		lines = append(lines, regexp.MustCompile(`time = .*|[cmp]Zxid = .*`).ReplaceAllString(line, "…"))
	}
	return strings.Join(lines, "\n"), strings.Join(watched, "\n")
}

// quotaScript is what both shells are given about quotas, and about what was typed before; the lines that fail are meant to. The watch
// whose event is not printed comes last: printed is what arrives, however late, once events are printed again.
const quotaScript = `create /q data
create /q/one 12
listquota /q
delquota /q
setquota -n 3 /q
listquota /q
setquota -b 100 /q
listquota /q
create /q/two x
set /q/one 1234
listquota /q
setquota -n 5 /q/one
setquota -n many /q
setquota -n 5 /nothing
delquota -b /q
listquota /q
create /r ""
create /r/s/t x
create /r/s x
setquota -b 10 /r/s
setquota -b 10 /r
ls /zookeeper/quota/r
delquota /q
listquota /q
ls /zookeeper/quota
get /zookeeper/quota/r/s/zookeeper_limits
delquota /r/s
ls /zookeeper/quota
rmr /q
rmr /r
printwatches
printwatches off
printwatches
printwatches on
printwatches
addauth digest user:secret
create /mine x auth::cdrwa
getAcl /mine
connect
get /mine
addauth digest user:secret
get /mine
delete /mine
history
redo 0
ls /q
redo 500
redo x
redo 46
history
rmr /q
printwatches off
create /w x
get /w watch
set /w y
delete /w
close
ls /
`

// TestZooKeeperShellRemembers: quotas, identities and the history are the same with both shells, of ZooKeeper and of a node of ours.
func TestZooKeeperShellRemembers(t *testing.T) {
	k := harness.ApacheKafka(t, "1.1.1")
	address := fmt.Sprintf("127.0.0.1:%d", harness.FreePorts(t, 1)[0])
	harness.Start(t, "zookeeper.listeners="+address)
	ours, theirs := shells(t, k, quotaScript)
	want := theirs(k.ZooKeeper(t))
	for _, c := range []struct {
		name string
		got  said
	}{{"our shell, their ZooKeeper", ours(k.ZooKeeper(t))}, {"their shell, our node", theirs(address)}, {"our shell, our node", ours(address)}} {
		if c.got != want {
			t.Errorf("%s:\n%s\nwant:\n%s", c.name, c.got, want)
		}
	}
}
