package compat

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"moldau/test/harness"
)

// TestDamagedFiles: whatever happens to a file while the node is down, the next start serves or says why not. It never
// hangs, and never panics.
func TestDamagedFiles(t *testing.T) {
	n := harness.Start(t)
	r := dialRaw(t, n.Addr)
	createTopics(t, r)
	r.conn.Close()
	for i := range 50 {
		l := lie{topic: []string{"attack-plain", "attack-compact"}[i%2], batch: func() []byte {
			b := plainBatch(time.Now(), "a", strings.Repeat("x", 40*i))
			b.ProducerID, b.ProducerEpoch, b.FirstSequence = int64(i), 0, 0
			return sealed(b)
		}}
		if got := l.tell(t, n.Addr); got != "accepted" {
			t.Fatal(got)
		}
	}
	n.Stop(t)
	whole := readTree(t, n.Dir)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	served := 0
	const rounds = 20
	for range rounds * harness.Thorough() {
		what := damage(t, rng, n.Dir, whole)
		if end := runOnce(t, n); end == "" {
			served++
		} else if end == "ended: " {
			t.Errorf("%s: the node ended without a reason:\n%s", what, lastLines(n.Log(), 20))
		}
		if strings.Contains(n.Log(), "panic") || strings.Contains(n.Log(), "invariant:") {
			t.Errorf("%s:\n%s", what, lastLines(n.Log(), 40))
		}
	}
	if served == 0 {
		t.Errorf("the node served after none of %d damages", rounds)
	}
}

// readTree returns the contents of all files below a folder that hold anything worth damaging.
func readTree(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	whole := make(map[string][]byte)
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() == ".lock" || entry.Name() == "moldau.reserve" {
			return err
		}
		whole[path], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return whole
}

// damage puts the files back and damages one of them.
func damage(t *testing.T, rng *rand.Rand, dir string, whole map[string][]byte) (what string) {
	t.Helper()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	put := func(path string, content []byte) {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for path, content := range whole {
		put(path, content)
	}
	paths := slices.Sorted(maps.Keys(whole))
	path := paths[rng.IntN(len(paths))]
	b := bytes.Clone(whole[path])
	switch kind := rng.IntN(5); {
	case kind == 0 || len(b) == 0:
		what = "removed"
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	case kind == 1:
		what = "cut"
		put(path, b[:rng.IntN(len(b))])
	case kind == 2:
		what = "bits flipped"
		for range 3 {
			b[rng.IntN(len(b))] ^= 1 << rng.IntN(8)
		}
		put(path, b)
	case kind == 3:
		what = "zeros appended"
		put(path, append(b, make([]byte, 50+rng.IntN(5000))...))
	default:
		what = "garbage"
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		put(path, b)
	}
	if rng.IntN(2) == 0 {
		what += " after a crash"
		if err := os.RemoveAll(filepath.Join(dir, ".kafka_cleanshutdown")); err != nil {
			t.Fatal(err)
		}
	}
	return fmt.Sprintf("%s of %s", what, strings.TrimPrefix(path, dir))
}

// runOnce starts the node, uses it and stops it. It returns the reason that a node gave which did not start.
func runOnce(t *testing.T, n *harness.Node) (end string) {
	t.Helper()
	n.Spawn(t)
	for deadline := time.Now().Add(30 * time.Second); ; {
		select {
		case <-n.Done():
			_, reason, _ := strings.Cut("\n"+n.Log(), "\nmoldau: ")
			return "ended: " + reason
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("neither served nor ended:\n%s", lastLines(n.Log(), 20))
		}
		if !strings.Contains(n.Log(), "Kafka Server started") {
			continue
		}
		if code, _ := n.Get(t, "/readyz"); code == 200 {
			break
		}
	}
	for _, topic := range []string{"attack-plain", "attack-compact"} {
		l := lie{topic: topic, batch: func() []byte { return sealed(plainBatch(time.Now(), "z")) }}
		if got := l.tell(t, n.Addr); got != "accepted" && got != "not led" { // its topic may be gone with the metadata
			t.Errorf("produce to %s: %s", topic, got)
		}
		for _, timestamp := range []int64{-1, -2, -3, 0} {
			r := dialRaw(t, n.Addr)
			code, err := listedIn(topic, 0, timestamp, -1)(r)
			if err != nil || code != 0 && answerName(code) != "UNKNOWN_TOPIC_OR_PARTITION" {
				t.Errorf("offset at %d in %s: %s, %v", timestamp, topic, answerName(code), err)
			}
			r.conn.Close()
		}
	}
	n.Stop(t)
	return ""
}
