package compat

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
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
