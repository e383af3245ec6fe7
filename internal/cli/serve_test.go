package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"moldau/internal/config"
	"moldau/internal/kafka"
	"moldau/internal/node"
	"moldau/internal/vfs"
)

// fakeNode stands in for a node whose start, failure and stop a test decides.
type fakeNode struct {
	cfg      config.Node
	startErr error
	hang     bool // Start waits for its context, Stop for ever
	through  bool // Start waits for its context, and has succeeded
	failed   chan struct{}
	started  chan struct{}
	running  chan struct{} // closed when somebody asks whether it has failed
	stopping chan struct{}
	release  chan struct{}
	asked    sync.Once
}

func (f *fakeNode) Start(ctx context.Context) error {
	close(f.started)
	if f.hang {
		<-ctx.Done()
		return ctx.Err()
	}
	if f.through {
		<-ctx.Done()
	}
	return f.startErr
}

func (f *fakeNode) Stop(context.Context) error {
	close(f.stopping)
	<-f.release
	return nil
}

func (f *fakeNode) Failed() <-chan struct{} {
	f.asked.Do(func() { close(f.running) })
	return f.failed
}

func (f *fakeNode) Err() error       { return errors.New("every log directory has failed") }
func (f *fakeNode) ID() kafka.NodeID { return f.cfg.ID }
func (f *fakeNode) Addresses() []node.Address {
	return []node.Address{
		{Name: "PLAINTEXT", Bound: "0.0.0.0:9092", Advertised: "broker.example.com:9092"},
		{Name: "CONTROLLER", Bound: "127.0.0.1:40001", Advertised: "127.0.0.1:40001", Controller: true, Moved: true},
		{Name: "HTTP", Bound: "127.0.0.1:9644", Advertised: "127.0.0.1:9644"},
	}
}

// output may be written by the node while the test reads.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

type invocation struct {
	app            *app
	node           *fakeNode
	signals        chan os.Signal
	stdout, stderr *output
}

func newInvocation() *invocation {
	i := &invocation{signals: make(chan os.Signal, 2), stdout: &output{}, stderr: &output{}, node: &fakeNode{
		failed: make(chan struct{}), started: make(chan struct{}), running: make(chan struct{}), stopping: make(chan struct{}), release: make(chan struct{}),
	}}
	i.app = &app{program: "moldau", stdout: i.stdout, stderr: i.stderr, terminal: true, signals: i.signals, build: func(c *config.Config, _ nodeLog) (running, error) {
		i.node.cfg = c.Node()
		return i.node, nil
	}}
	return i
}

// run starts an invocation and returns where its exit code will be.
func (i *invocation) run(args ...string) <-chan int {
	code := make(chan int, 1)
	go func() { code <- i.app.run(args) }()
	return code
}

func TestSignalStopsCleanly(t *testing.T) {
	i := newInvocation()
	code := i.run()
	<-i.node.running
	i.signals <- syscall.SIGTERM
	<-i.node.stopping
	close(i.node.release)
	if got := <-code; got != exitOK {
		t.Errorf("exit code %d: %s", got, i.stderr)
	}
	for _, want := range []string{"is ready", "kafka       0.0.0.0:9092, clients are told broker.example.com:9092",
		"controller  127.0.0.1:40001 (the usual port was taken)", "http        http://127.0.0.1:9644/metrics", "/data\n", "moldau console-producer --topic greetings\n", "moldau doctor\n"} {
		if !strings.Contains(i.stdout.String(), want) {
			t.Errorf("the screen lacks %q:\n%s", want, i.stdout)
		}
	}
}

func TestSecondSignalStopsAtOnce(t *testing.T) {
	i := newInvocation()
	code := i.run()
	<-i.node.running
	i.signals <- syscall.SIGINT
	<-i.node.stopping
	i.signals <- syscall.SIGINT
	if got := <-code; got != exitFailure || !strings.Contains(i.stderr.String(), "the next start will recover") {
		t.Errorf("exit code %d: %s", got, i.stderr)
	}
	close(i.node.release)
}

func TestSignalGivesUpTheStart(t *testing.T) {
	i := newInvocation()
	i.node.hang = true
	code := i.run()
	<-i.node.started
	i.signals <- syscall.SIGTERM
	if got := <-code; got != exitOK || strings.Contains(i.stdout.String(), "is ready") {
		t.Errorf("exit code %d: %s%s", got, i.stdout, i.stderr)
	}
}

// TestSecondSignalStopsAStopAfterAGivenUpStart: the start was through when it was given up, so there is a node to stop.
func TestSecondSignalStopsAStopAfterAGivenUpStart(t *testing.T) {
	i := newInvocation()
	i.node.through = true
	code := i.run()
	<-i.node.started
	i.signals <- syscall.SIGTERM
	<-i.node.stopping
	i.signals <- syscall.SIGTERM
	if got := <-code; got != exitFailure || !strings.Contains(i.stderr.String(), "the next start will recover") {
		t.Errorf("exit code %d: %s", got, i.stderr)
	}
	close(i.node.release)
}

// TestEchoOfTheSignalThatGivesUpTheStart: a signal that comes twice at once, as timeout sends it, asks once.
func TestEchoOfTheSignalThatGivesUpTheStart(t *testing.T) {
	i := newInvocation()
	i.node.through = true
	i.app.echo = time.Minute // its end need not be waited for: the stop ends first
	code := i.run()
	<-i.node.started
	i.signals <- syscall.SIGTERM
	i.signals <- syscall.SIGTERM
	<-i.node.stopping
	close(i.node.release)
	if got := <-code; got != exitOK {
		t.Errorf("exit code %d: %s", got, i.stderr)
	}
}

func TestFailureOfTheNodeEndsTheProcess(t *testing.T) {
	i := newInvocation()
	close(i.node.release)
	code := i.run()
	<-i.node.running
	close(i.node.failed)
	if got := <-code; got != exitFailure || !strings.Contains(i.stderr.String(), "every log directory has failed") {
		t.Errorf("exit code %d: %s", got, i.stderr)
	}
}

func TestStartFailuresHaveCodesAndCures(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, busy := net.Listen("tcp", taken.Addr().String())
	port := taken.Addr().(*net.TCPAddr).Port
	for name, c := range map[string]struct {
		err  error
		code int
		want string
	}{
		"port taken": {fmt.Errorf("listeners: %w", busy), exitBind, fmt.Sprintf("--override listeners=PLAINTEXT://127.0.0.1:%d,CONTROLLER://127.0.0.1:0", port%10000+10000)},
		"no such address": {fmt.Errorf("listeners: %w", &net.OpError{Op: "listen", Net: "tcp", Addr: taken.Addr(), Err: syscall.EADDRNOTAVAIL}),
			exitBind, "`ip address` shows"},
		"root's port": {fmt.Errorf("listeners: %w", &net.OpError{Op: "listen", Net: "tcp", Addr: taken.Addr(), Err: syscall.EACCES}), exitBind, "belong to root"},
		"foreign":     {fmt.Errorf("belongs to node 2: %w", node.ErrData), exitData, "belongs to node 2"},
		"locked":      {fmt.Errorf("log.dirs: %w", vfs.ErrLocked), exitData, "--override log.dirs=/somewhere-2"},
		"not its user's": {fmt.Errorf("no log directory can be used: %w", errors.Join(node.ErrData, syscall.EACCES)), exitData,
			fmt.Sprintf("chown -R %d /somewhere", os.Geteuid())},
		"read only":   {fmt.Errorf("no log directory can be used: %w", errors.Join(node.ErrData, syscall.EROFS)), exitData, "`dmesg`"},
		"no folder":   {fmt.Errorf("no log directory can be used: %w", errors.Join(node.ErrData, syscall.ENOTDIR)), exitData, "no folder"},
		"full":        {fmt.Errorf("write meta.properties: %w", errors.Join(node.ErrData, syscall.ENOSPC)), exitData, "`df -h /somewhere`"},
		"descriptors": {fmt.Errorf("open log: %w", syscall.EMFILE), exitFailure, "LimitNOFILE="},
		"other":       {errors.New("out of luck"), exitFailure, "out of luck"},
	} {
		t.Run(name, func(t *testing.T) {
			i := newInvocation()
			i.node.startErr = c.err
			code := <-i.run("serve", "--override", "log.dirs=/somewhere", "--override", "listeners=PLAINTEXT://"+taken.Addr().String()+",CONTROLLER://127.0.0.1:0")
			if code != c.code || !strings.Contains(i.stderr.String(), c.want) {
				t.Errorf("exit code %d, want %d with %q: %s", code, c.code, c.want, i.stderr)
			}
			if strings.Contains(i.stdout.String(), "is ready") {
				t.Error("said to be ready")
			}
		})
	}
}

func TestCommandLine(t *testing.T) {
	dir := t.TempDir()
	wrong := filepath.Join(dir, "wrong.properties")
	if err := os.WriteFile(wrong, []byte("num.partitons=3\nnum.partitions=0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		code int
		want string // in either output
	}{
		{"version", exitOK, "moldau "},
		{"--help", exitOK, "Available Commands"},
		{"serve --help", exitOK, "--override key=value"},
		{"nonsense", exitUsage, `unknown command "nonsense"` + "\nTry 'moldau --help'."},
		{"topic --list", exitUsage, `unknown command "topic"; did you mean topics?`},
		{"--nonsense", exitUsage, "unknown flag: --nonsense\n"},
		{"--overide a=b", exitUsage, "unknown flag: --overide; did you mean --override?"},
		{"topics --describ", exitUsage, "unknown flag: --describ; did you mean --describe?\nTry 'moldau topics --help'."},
		{"topics -list", exitUsage, "did you mean --list?"},
		{"serve a b", exitUsage, "accepts at most 1 arg(s), received 2: moldau serve [FILE] [flags]"},
		{"tail", exitUsage, "accepts 1 arg(s), received 0: moldau tail TOPIC [flags]"},
		{"help topic", exitUsage, `unknown command "topic"; did you mean topics?`},
		{"help topics a", exitUsage, `unknown command "a"`},
		{"help topics", exitOK, "Create, list, describe, change and delete topics"},
		{"topics a", exitUsage, `unknown command "a"`},
		{"completion", exitUsage, "want bash, zsh, fish or powershell"},
		{"completion csh", exitUsage, `unknown command "csh"`},
		{"completion bassh", exitUsage, `unknown command "bassh"; did you mean bash?`},
		{"storage", exitUsage, "want format, random-uuid or info"},
		{"storage nonsense", exitUsage, `unknown command "nonsense"`},
		{"serve " + wrong, exitConfig, wrong + ":1: num.partitons is not a setting; did you mean num.partitions?\n" + wrong + ":2: num.partitions=0: want"},
		{"serve --override num.partitions=x", exitConfig, "--override: num.partitions=x: want a whole number"},
		{"serve --log-format=xml", exitConfig, "--override: log.format=xml: want text or json"},
		{"serve " + filepath.Join(dir, "none"), exitConfig, "cannot read the configuration"},
	} {
		i := newInvocation()
		if code := <-i.run(strings.Fields(c.args)...); code != c.code {
			t.Errorf("moldau %s: exit code %d, want %d", c.args, code, c.code)
		}
		if all := i.stdout.String() + i.stderr.String(); !strings.Contains(all, c.want) {
			t.Errorf("moldau %s lacks %q:\n%s", c.args, c.want, all)
		}
	}
}

func TestOverridesReachTheNode(t *testing.T) {
	for _, args := range [][]string{
		{"--override", "node.id=7", "--log-format", "json"},
		{"serve", "--override", "node.id=7", "--log-format", "json"},
	} {
		i := newInvocation()
		close(i.node.release)
		code := i.run(args...)
		<-i.node.running
		i.signals <- syscall.SIGTERM
		<-code
		if i.node.cfg.ID != 7 || i.node.cfg.Log.Format != "json" {
			t.Errorf("%v: %+v", args, i.node.cfg)
		}
		if out := i.stdout.String(); strings.Contains(out, "is ready") || !strings.HasPrefix(out, `{"time":`) {
			t.Errorf("%v: JSON was asked for: %s", args, out)
		}
	}
}

// TestFileFromBeforeKRaft: a file of Kafka 1.1 without broker.id starts a node, whose number is that of its place in
// zookeeper.connect.
func TestFileFromBeforeKRaft(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	data := t.TempDir()
	file := filepath.Join(t.TempDir(), "server.properties")
	text := "log.dirs=" + data + "\nzookeeper.connect=192.0.2.1:2181," + host + ":2181\nzookeeper.connection.timeout.ms=6000\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	i := newInvocation()
	close(i.node.release)
	code := i.run("serve", file)
	<-i.node.running
	i.signals <- syscall.SIGTERM
	if c := <-code; c != 0 {
		t.Fatalf("exit code %d: %s", c, i.stderr)
	}
	cfg := i.node.cfg
	if cfg.ID != 1002 || len(cfg.Quorum.Bootstrap) != 2 || len(cfg.ZooKeeper.Listeners) != 1 || cfg.ZooKeeper.Listeners[0].Port != 2181 {
		t.Errorf("node %d, bootstrap %v, ZooKeeper %v", cfg.ID, cfg.Quorum.Bootstrap, cfg.ZooKeeper)
	}
}

func TestThisMachine(t *testing.T) {
	for host, want := range map[string]bool{"127.0.0.1": true, "192.0.2.1": false, "no-such-host.invalid": false} {
		if got := isThisMachine(host); got != want {
			t.Errorf("isThisMachine(%q) = %v", host, got)
		}
	}
}

// TestEnvironmentIsRead: between the file and --override.
func TestEnvironmentIsRead(t *testing.T) {
	i := newInvocation()
	i.app.env = []string{"KAFKA_NODE_ID=7", "MOLDAU_NUM_PARTITIONS=5", "KAFKA_LOG_DIRS=/from/env", "HOME=/"}
	code := i.run("serve", "--override", "num.partitions=6")
	<-i.node.running
	i.signals <- syscall.SIGTERM
	<-i.node.stopping
	close(i.node.release)
	if got := <-code; got != exitOK {
		t.Fatalf("exit code %d: %s", got, i.stderr)
	}
	if c := i.node.cfg; c.ID != 7 || c.Topics.Partitions != 6 || c.Storage.Dirs[0] != "/from/env" {
		t.Errorf("node %d with %d partitions in %v", c.ID, c.Topics.Partitions, c.Storage.Dirs)
	}
	i = newInvocation()
	i.app.env = []string{"KAFKA_LOG_RETENTION_HOUR=5"}
	if got := <-i.run("serve"); got != exitConfig || !strings.Contains(i.stderr.String(), "KAFKA_LOG_RETENTION_HOURS") {
		t.Errorf("exit code %d: %s", got, i.stderr)
	}
}
