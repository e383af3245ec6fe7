package compat

import (
	"bufio"
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"moldau/test/harness"
)

func runKcat(t testing.TB, kcat, input string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := harness.Output(exec.CommandContext(ctx, kcat, args...), input)
	if err != nil {
		t.Fatalf("kcat %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func TestKcatInEveryCodec(t *testing.T) {
	kcat := harness.Tool(t, "kcat", "install the package kcat")
	n := harness.Start(t)
	var input strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&input, "key-%d:a value that repeats, number %d\n", i%17, i)
	}
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		for _, acks := range []string{"1", "all", "0"} {
			topic := codec + "-acks-" + acks
			runKcat(t, kcat, input.String(), "-P", "-b", n.Addr, "-t", topic, "-p", "0", "-K:", "-z", codec, "-X", "acks="+acks)
			got := runKcat(t, kcat, "", "-C", "-b", n.Addr, "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q", "-K:")
			if got != input.String() {
				t.Errorf("%s: %d bytes came back of %d", topic, len(got), input.Len())
			}
		}
	}
}

func TestKcatHeadersTimestampsAndNulls(t *testing.T) {
	kcat := harness.Tool(t, "kcat", "install the package kcat")
	n := harness.Start(t, "num.partitions=1")
	runKcat(t, kcat, "k1:v1\n", "-P", "-b", n.Addr, "-t", "facts", "-K:", "-H", "colour=blue", "-H", "empty=")
	runKcat(t, kcat, "k2:\n", "-P", "-b", n.Addr, "-t", "facts", "-K:", "-Z")
	got := runKcat(t, kcat, "", "-C", "-b", n.Addr, "-t", "facts", "-e", "-q", "-f", `%o|%k|%S|%h\n`)
	if want := "0|k1|2|colour=blue,empty=\n1|k2|-1|\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	// A search by time finds the first record at or after it.
	got = runKcat(t, kcat, "", "-Q", "-b", n.Addr, "-t", "facts:0:1")
	if !strings.Contains(got, "offset 0") {
		t.Errorf("offset for timestamp 1: %q", got)
	}
}

func TestKcatListsTheCluster(t *testing.T) {
	kcat := harness.Tool(t, "kcat", "install the package kcat")
	n := harness.Start(t)
	runKcat(t, kcat, "x\n", "-P", "-b", n.Addr, "-t", "listed")
	got := runKcat(t, kcat, "", "-L", "-b", n.Addr)
	for _, want := range []string{"1 brokers", "broker 1 at " + n.Addr + " (controller)", `topic "listed" with 1 partitions`, "leader 1, replicas: 1, isrs: 1"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

// tryKcat returns all that kcat says, whether it succeeds or not.
func tryKcat(kcat, input string, args ...string) string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, kcat, args...)
	cmd.Stdin = strings.NewReader(input)
	out, _ := cmd.CombinedOutput()
	return string(out)
}

// runScript runs a script of bin/ with the built binary behind it.
func runScript(t testing.TB, script string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "../../bin/"+script, args...)
	cmd.Env = append(cmd.Environ(), "MOLDAU_BIN="+harness.Binary(t))
	out, err := harness.Output(cmd, "")
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", script, args, err, out)
	}
	return out
}

// TestKcatLargeRecordsAndErrors: a record of 900 KB, one that is too large, an offset that is not there.
func TestKcatLargeRecordsAndErrors(t *testing.T) {
	kcat := harness.Tool(t, "kcat", "install the package kcat")
	n := harness.Start(t, "num.partitions=1")
	line := strings.Repeat("x", 900000) + "\n"
	runKcat(t, kcat, line, "-P", "-b", n.Addr, "-t", "large", "-X", "enable.idempotence=true", "-X", "message.max.bytes=2000000")
	if got := runKcat(t, kcat, "", "-C", "-b", n.Addr, "-t", "large", "-e", "-q"); got != line {
		t.Errorf("%d bytes came back of %d", len(got), len(line))
	}
	runScript(t, "kafka-topics.sh", "--bootstrap-server", n.Addr, "--create", "--topic", "narrow", "--config", "max.message.bytes=100")
	if got := tryKcat(kcat, strings.Repeat("x", 200)+"\n", "-P", "-b", n.Addr, "-t", "narrow"); !strings.Contains(got, "Message size too large") {
		t.Errorf("a record beyond max.message.bytes: %q", got)
	}
	if got := tryKcat(kcat, "", "-C", "-b", n.Addr, "-t", "large", "-p", "0", "-o", "1000", "-c", "1", "-X", "topic.auto.offset.reset=error"); !strings.Contains(got, "Offset out of range") {
		t.Errorf("an offset beyond the end: %q", got)
	}
}

// TestKcatMembers: members of kcat join, leave and are killed; a static one comes back.
func TestKcatMembers(t *testing.T) {
	kcat := harness.Tool(t, "kcat", "install the package kcat")
	n := harness.Start(t, quickGroups)
	runScript(t, "kafka-topics.sh", "--bootstrap-server", n.Addr, "--create", "--topic", "shared", "--partitions", "4")
	for _, strategy := range []string{"range", "cooperative-sticky"} {
		t.Run(strategy, func(t *testing.T) {
			start := func(group string, more ...string) *kcatMember {
				return startKcat(t, kcat, append([]string{"-b", n.Addr, "-X", "partition.assignment.strategy=" + strategy, "-X", "heartbeat.interval.ms=300", "-X", "session.timeout.ms=6000"}, more...), strategy+group)
			}
			a := start("")
			eventually(t, "one member has all", func() bool { return a.owns() == 4 })
			b := start("")
			eventually(t, "two share", func() bool { return a.owns() == 2 && b.owns() == 2 })
			b.end(t, syscall.SIGTERM)
			left := time.Now()
			eventually(t, "the one that stays has all", func() bool { return a.owns() == 4 })
			if took := time.Since(left); took > 5*time.Second {
				t.Errorf("the partitions of a member that left came after %v", took)
			}
			b = start("")
			eventually(t, "two share again", func() bool { return a.owns() == 2 && b.owns() == 2 })
			b.end(t, syscall.SIGKILL)
			eventually(t, "the one that lives has all", func() bool { return a.owns() == 4 })

			long := []string{"-X", "session.timeout.ms=30000", "-X", "group.instance.id=one"}
			one := start("-static", long...)
			long[3] = "group.instance.id=two"
			two := start("-static", long...)
			eventually(t, "two static members share", func() bool { return one.owns() == 2 && two.owns() == 2 })
			<-time.After(time.Second) // what is still told of that
			moves := one.moves()
			two.end(t, syscall.SIGKILL)
			two = start("-static", long...)
			eventually(t, "the static member is back", func() bool { return two.owns() == 2 })
			if one.moves() != moves || one.owns() != 2 {
				t.Errorf("the other static member was moved %d times meanwhile, and has %d partitions", one.moves()-moves, one.owns())
			}
		})
	}
}

// kcatMember is a process of kcat that consumes in a group and says on standard error what it is given.
type kcatMember struct {
	cmd  *exec.Cmd
	read sync.WaitGroup

	mu    sync.Mutex
	parts map[string]bool
	moved int
}

func startKcat(t *testing.T, kcat string, args []string, group string) *kcatMember {
	t.Helper()
	m := &kcatMember{cmd: exec.Command(kcat, append(args, "-G", group, "shared")...), parts: make(map[string]bool)}
	said, err := m.cmd.StderrPipe()
	if err == nil {
		err = m.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	m.read.Go(func() {
		for lines := bufio.NewScanner(said); lines.Scan(); {
			m.hear(lines.Text())
		}
	})
	t.Cleanup(func() { m.end(t, syscall.SIGKILL) })
	return m
}

// kcatMoves is what kcat says of all that it is given or loses, and of changes to that.
var kcatMoves = regexp.MustCompile(`rebalanced.*\b(assign|revoke)\w*\b.*: (shared \[.*)$`)

func (m *kcatMember) hear(line string) {
	move := kcatMoves.FindStringSubmatch(line)
	if move == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.moved++
	for part := range strings.SplitSeq(move[2], ", ") {
		if move[1] == "assign" {
			m.parts[part] = true
		} else {
			delete(m.parts, part)
		}
	}
}

func (m *kcatMember) owns() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.parts)
}

func (m *kcatMember) moves() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.moved
}

// end ends the process by a signal and waits for it; it may be called again.
func (m *kcatMember) end(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if m.cmd.ProcessState != nil {
		return
	}
	if err := m.cmd.Process.Signal(signal); err != nil {
		t.Errorf("%v: %v", signal, err)
	}
	m.read.Wait()
	_ = m.cmd.Wait()
}
