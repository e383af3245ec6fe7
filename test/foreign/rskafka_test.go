package foreign

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"moldau/test/harness"
)

var rustVerdict = regexp.MustCompile(`(?m)^test (\S+)(?: - should panic)? \.\.\. (ok|FAILED|ignored)`)

// TestRskafka: the integration tests of rskafka, a client of Rust, from its crate.
func TestRskafka(t *testing.T) {
	wantedAll(t)
	const suite, version = "rskafka", "0.6.0"
	e := readExpectation(t, suite)
	cargo := harness.Tool(t, "cargo", "install Rust 1.95 or newer")
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Minute)
	defer cancel()
	run := func(dir string, env []string, args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, cargo, args...)
		cmd.Dir = dir
		cmd.Env = append(append(os.Environ(), "CARGO_TARGET_DIR="+filepath.Join(cache, "moldau-test", "rskafka-"+version)), env...)
		return harness.Output(cmd, "")
	}

	// A crate that wants rskafka makes cargo fetch it; its tests run in a copy, because cargo keeps what it fetched read-only.
	fetch := t.TempDir()
	for name, text := range map[string]string{
		"Cargo.toml": fmt.Sprintf("[package]\nname = \"fetch\"\nversion = \"0.0.0\"\nedition = \"2021\"\n[lib]\npath = \"lib.rs\"\n[dependencies]\nrskafka = \"=%s\"\n", version),
		"lib.rs":     "",
	} {
		if err := os.WriteFile(filepath.Join(fetch, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out, err := run(fetch, nil, "metadata", "--format-version=1")
	if err != nil {
		t.Fatalf("cargo metadata: %v\n%s", err, out)
	}
	var found struct {
		Packages []struct {
			Name     string
			Manifest string `json:"manifest_path"`
		}
	}
	if err := json.Unmarshal([]byte(out), &found); err != nil {
		t.Fatal(err)
	}
	source := filepath.Join(t.TempDir(), "rskafka")
	for _, p := range found.Packages {
		if p.Name == "rskafka" {
			if err := os.CopyFS(source, os.DirFS(filepath.Dir(p.Manifest))); err != nil {
				t.Fatal(err)
			}
		}
	}
	// It names one toolchain of its own, and a version of a package that newer compilers refuse.
	if err := os.Remove(filepath.Join(source, "rust-toolchain.toml")); err != nil {
		t.Fatal(err)
	}
	if out, err := run(source, nil, "update", "-q", "-p", "rsasl"); err != nil {
		t.Fatalf("cargo update: %v\n%s", err, out)
	}

	n := startNode0(t, "auto.create.topics.enable=false")
	out, err = run(source, []string{"TEST_INTEGRATION=1", "TEST_BROKER_IMPL=kafka", "KAFKA_CONNECT=" + n.Addr},
		"test", "-q", "--no-fail-fast", "--no-default-features", "--features=compression-gzip,compression-lz4,compression-snappy,compression-zstd",
		"--test=client", "--test=consumer", "--test=produce_consume", "--test=producer", "--", "--format=pretty")
	results := make(map[name]result)
	for _, m := range rustVerdict.FindAllStringSubmatch(out, -1) {
		results[name{"rskafka", m[1]}] = result{outcome: map[string]outcome{"ok": passed, "FAILED": failed, "ignored": skipped}[m[2]]}
	}
	if len(results) == 0 {
		t.Fatalf("cargo test: %v\n%s", err, tail(out, 20000))
	}
	e.check(t, suite, []string{"rskafka"}, results)
}
