package mission

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"moldau/test/harness"
)

// host is a machine of the worked case: a network namespace, and a name that all know.
type host struct {
	id            int
	name, address string

	node *exec.Cmd // nil: it does not run
	done chan struct{}
	log  string
	conf string   // server.properties
	dir  string   // where the node is started; "": anywhere
	args []string // of the node, after the file
}

// hosts are the three machines.
func hosts() []*host { return hostsUpTo(3) }

// hostsUpTo are as many machines.
func hostsUpTo(n int) []*host {
	var all []*host
	for i := 1; i <= n; i++ {
		all = append(all, &host{id: i, name: fmt.Sprintf("ip10%d", i), address: fmt.Sprintf("10.77.1.10%d", i)})
	}
	return all
}

// startHosts makes the machines and starts a node on each, with a server.properties of the time: who it is, where its records
// go, and where ZooKeeper is, which is the nodes themselves.
func startHosts(t *testing.T) []*host {
	t.Helper()
	if testing.Short() {
		t.Skip("three nodes and three consoles take seconds to start")
	}
	network().Need(t)
	dir := t.TempDir()
	all := hosts()
	for _, h := range all {
		network().AddPlace(t, h.name, h.id, h.address)
		h.conf, h.log = filepath.Join(dir, h.name+".properties"), filepath.Join(dir, h.name+".log")
		properties := []string{
			fmt.Sprintf("broker.id=%d", h.id),
			"listeners=PLAINTEXT://" + h.name + ":9092",
			"log.dirs=" + filepath.Join(dir, h.name),
			"num.partitions=3",
			"zookeeper.connect=ip101:2181,ip102:2181,ip103:2181",
			"http.listeners=http://" + h.address + ":9644",
			"auto.leader.rebalance.enable=false", // a console that wants no answer loses lines whenever a leader moves
		}
		if err := os.WriteFile(h.conf, []byte(strings.Join(properties, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		h.run(t)
	}
	for _, h := range all {
		h.ready(t)
	}
	return all
}

// command prepares a program on the host.
func (h *host) command(args ...string) *exec.Cmd {
	on := []string{"netns", "exec", h.name, "unshare", "--uts", "sh", "-c", `hostname "$0" && exec "$@"`, h.name}
	cmd := exec.Command("ip", append(on, args...)...)
	cmd.Env = harness.Environment()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// run starts the node for the rest of the test, whose failure shows the end of its log.
func (h *host) run(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		h.kill()
		if t.Failed() {
			text, _ := os.ReadFile(h.log)
			t.Logf("log of the node on %s:\n%s", h.name, text[max(0, len(text)-4000):])
		}
	})
	h.start(t)
}

func (h *host) start(t *testing.T) {
	t.Helper()
	log, err := os.OpenFile(h.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := h.command(append([]string{harness.Binary(t), "serve", h.conf}, h.args...)...)
	cmd.Dir = h.dir
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(done)
	}()
	h.node, h.done = cmd, done
}

// ready waits until the node serves.
func (h *host) ready(t *testing.T) {
	t.Helper()
	harness.Eventually(t, 2*time.Minute, "the node on "+h.name+" is ready", func() error {
		select {
		case <-h.done:
			t.Fatalf("the node on %s ended before it was ready", h.name)
		default:
		}
		return harness.Answers("http://" + h.address + ":9644/readyz")
	})
}

// kill is kill -9.
func (h *host) kill() {
	if h.node == nil {
		return
	}
	_ = h.node.Process.Kill()
	<-h.done
	h.node = nil
}
