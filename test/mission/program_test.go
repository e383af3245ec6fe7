package mission

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// program is a console consumer, or another program whose lines are read as they come.
type program struct {
	cmd  *exec.Cmd
	done chan struct{}

	mu    sync.Mutex
	lines []string
	errs  strings.Builder
}

// launch starts a program that ends with the test.
func launch(t *testing.T, cmd *exec.Cmd) *program {
	t.Helper()
	p := &program{cmd: cmd, done: make(chan struct{})}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	errs, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		var both sync.WaitGroup
		both.Go(func() {
			_, _ = io.Copy(writerFunc(func(b []byte) (int, error) {
				p.mu.Lock()
				defer p.mu.Unlock()
				return p.errs.Write(b)
			}), errs)
		})
		for lines := bufio.NewScanner(out); lines.Scan(); {
			p.mu.Lock()
			p.lines = append(p.lines, lines.Text())
			p.mu.Unlock()
		}
		both.Wait()
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-p.done
		if t.Failed() {
			t.Logf("%s printed %q and said:\n%s", strings.Join(cmd.Args, " "), p.has(), p.said())
		}
	})
	return p
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// said is the program's standard error.
func (p *program) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.errs.String()
}

func (p *program) has() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.lines)
}

// terminate is SIGTERM and a wait for the end.
func (p *program) terminate(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.done:
	case <-time.After(time.Minute):
		t.Fatalf("%s does not end", p.cmd)
	}
}

// consume starts Apache Kafka's console consumer of old as one more member of the group g.
func (g *genuine) consume(t *testing.T, topic string, properties ...string) *program {
	t.Helper()
	file := filepath.Join(t.TempDir(), "consumer.properties")
	text := strings.Join(append([]string{"zookeeper.connect=" + g.zookeeper, "group.id=g", "zookeeper.session.timeout.ms=30000", "zookeeper.connection.timeout.ms=60000", "rebalance.max.retries=30"}, properties...), "\n")
	if err := os.WriteFile(file, []byte(text+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return launch(t, g.kafka.Command(context.Background(), "kafka.tools.ConsoleConsumer", "--zookeeper", g.zookeeper, "--topic", topic, "--consumer.config", file))
}
