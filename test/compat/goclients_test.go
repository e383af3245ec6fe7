package compat

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"

	"moldau/test/harness"
)

// TestGoClients: sarama and kafka-go, whose tests are a module of their own.
func TestGoClients(t *testing.T) {
	skipClients(t)
	golang := harness.Tool(t, "go", "install Go 1.26 or newer")
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	run := func(env string, args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, golang, args...)
		cmd.Dir = "goclients"
		// A workspace, or flags for the module above, would not suit this one.
		cmd.Env = append(cmd.Environ(), "GOWORK=off", env)
		return harness.Output(cmd, "")
	}
	if out, err := run("", "mod", "download"); err != nil {
		harness.Missing(t, "the modules of the Go clients cannot be fetched: %v\n%s", err, out)
	}
	n := harness.Start(t, quickGroups)
	out, err := run("MOLDAU_ADDRESS="+n.Addr, "test", "-count=1", "-parallel=8", "-v", "./...")
	if err != nil {
		t.Fatalf("go test: %v\n%s", err, out)
	}
	for _, want := range []string{"--- PASS: TestSarama ", "--- PASS: TestSaramaStatic ", "--- PASS: TestKafkaGo ", "--- PASS: TestOldKafkaGo "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}
