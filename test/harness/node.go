package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Binary builds the program once per test process and returns its path.
func Binary(t T) string {
	t.Helper()
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var build = sync.OnceValues(func() (string, error) {
	dir, err := cacheDir()
	if err != nil {
		return "", err
	}
	// One name for each checkout: its suites take turns, and a folder in which every run leaves a binary only grows.
	here, err := os.Getwd()
	if err != nil {
		return "", err
	}
	root := fnv.New64a()
	fmt.Fprint(root, strings.Split(filepath.ToSlash(here), "/test/")[0])
	path := filepath.Join(dir, fmt.Sprintf("moldau-%x", root.Sum64()))
	cmd := exec.Command("go", "build", "-o", path, "moldau/cmd/moldau")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

// Node is one process of the built binary.
type Node struct {
	Addr, Controller, HTTP string // "127.0.0.1:port"
	Dir                    string // log.dirs
	Properties             string // path of its server.properties; "" = none
	Binary                 string // path of the program; "" = built from this module

	cmd  *exec.Cmd
	log  *syncBuffer
	done chan struct{}
	err  error // of the process, valid after done
}

// Start starts a node in a fresh data folder with extra properties on top ("key=value"), and waits until it is ready.
func Start(t T, extra ...string) *Node {
	t.Helper()
	n := Prepare(t, extra...)
	n.Run(t)
	return n
}

// Prepare writes a node's configuration and does not start it.
func Prepare(t T, extra ...string) *Node {
	t.Helper()
	return PrepareNodes(t, 1, extra...)[0]
}

// PrepareNodes does so for n nodes that are one cluster, each of them a voter, too.
func PrepareNodes(t T, n int, extra ...string) []*Node {
	t.Helper()
	ports := FreePorts(t, 3*n)
	var all []*Node
	var voters []string
	for i := range n {
		dir := t.TempDir()
		node := &Node{
			Addr:       fmt.Sprintf("127.0.0.1:%d", ports[i]),
			Controller: fmt.Sprintf("127.0.0.1:%d", ports[n+i]),
			HTTP:       fmt.Sprintf("127.0.0.1:%d", ports[2*n+i]),
			Dir:        filepath.Join(dir, "data"),
			Properties: filepath.Join(dir, "server.properties"),
		}
		all = append(all, node)
		voters = append(voters, fmt.Sprintf("%d@%s", i+1, node.Controller))
	}
	for i, node := range all {
		var text bytes.Buffer
		fmt.Fprintf(&text, "process.roles=broker,controller\nnode.id=%d\nlisteners=PLAINTEXT://%s,CONTROLLER://%s\n", i+1, node.Addr, node.Controller)
		fmt.Fprintf(&text, "controller.listener.names=CONTROLLER\nlistener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n")
		fmt.Fprintf(&text, "controller.quorum.voters=%s\nhttp.listeners=http://%s\nlog.dirs=%s\n", strings.Join(voters, ","), node.HTTP, node.Dir)
		for _, line := range extra {
			fmt.Fprintln(&text, line)
		}
		if err := os.WriteFile(node.Properties, text.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// Run starts the process and waits until it is ready.
func (n *Node) Run(t T) {
	t.Helper()
	n.Spawn(t)
	n.WaitReady(t, 2*time.Minute)
}

// Spawn starts the process and does not wait.
func (n *Node) Spawn(t T, args ...string) {
	t.Helper()
	command := []string{"serve"}
	if n.Properties != "" {
		command = append(command, n.Properties)
	}
	binary := n.Binary
	if binary == "" {
		binary = Binary(t)
	}
	cmd := exec.Command(binary, append(command, args...)...)
	cmd.Env = Environment()
	cmd.SysProcAttr = deathSignal()
	log := &syncBuffer{}
	n.log, cmd.Stdout, cmd.Stderr = log, log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	n.cmd, n.done = cmd, make(chan struct{})
	done := n.done
	go func() {
		n.err = cmd.Wait()
		close(done)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-done
		if t.Failed() {
			t.Logf("log of the node at %s:\n%s", n.Addr, tail(log.String(), 8000))
		}
	})
}

// WaitReady waits until /readyz answers 200.
func (n *Node) WaitReady(t T, timeout time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.HTTP+"/readyz", nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp, err := http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case <-n.done:
			t.Fatalf("the node ended before it was ready: %v\n%s", n.err, n.log.String())
		case <-ctx.Done():
			t.Fatalf("the node was not ready in %v\n%s", timeout, n.log.String())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Stop sends SIGTERM and waits for a clean end.
func (n *Node) Stop(t T) {
	t.Helper()
	if err := n.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatalf("SIGTERM: %v", err)
	}
	select {
	case <-n.done:
	case <-time.After(2 * time.Minute):
		t.Fatalf("the node did not stop within two minutes of SIGTERM\n%s", n.log.String())
	}
	if n.err != nil {
		t.Fatalf("the node stopped with %v\n%s", n.err, n.log.String())
	}
}

// Kill ends the process as kill -9 does, if it has not ended by itself.
func (n *Node) Kill(t T) {
	t.Helper()
	if err := n.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	<-n.done
}

// Halt stops the process where it is, as SIGSTOP does: it does nothing more until it is killed.
func (n *Node) Halt(t T) {
	t.Helper()
	if err := n.cmd.Process.Signal(syscall.SIGSTOP); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); !Halted(n.Pid()); <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("SIGSTOP does not stop the node")
		}
	}
}

// Pid is the process id of the running node.
func (n *Node) Pid() int { return n.cmd.Process.Pid }

// Done is closed when the process has ended; Err tells how.
func (n *Node) Done() <-chan struct{} { return n.done }

// Err is how the process ended, nil for status 0; valid after Done.
func (n *Node) Err() error { return n.err }

// Log is what the node has printed since its last start.
func (n *Node) Log() string { return n.log.String() }

// Get fetches a page of the node's HTTP listener.
func (n *Node) Get(t T, path string) (int, string) {
	t.Helper()
	resp, err := http.Get("http://" + n.HTTP + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var body bytes.Buffer
	if _, err := body.ReadFrom(resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, body.String()
}

// syncBuffer collects a process's output while others read it.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func tail(s string, n int) string {
	if len(s) > n {
		return "…" + s[len(s)-n:]
	}
	return s
}
