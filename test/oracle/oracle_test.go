package oracle

import (
	"flag"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"moldau/test/harness"
)

var (
	renew  = flag.Bool("renew", false, "ask Apache Kafka and write its answers anew")
	accept = flag.String("accept", "", "write what we say otherwise as ours, for this row of docs/divergences.md")
	about  = flag.String("about", ".", "a pattern of the questions that -accept is for")
)

func TestMain(m *testing.M) { harness.Main(m) }

// TestVersions: what Apache Kafka's clients can ask for here and what they cannot.
func TestVersions(t *testing.T) {
	ours := moldau(t).ask(t)
	for _, r := range releases() {
		t.Run(r.version, func(t *testing.T) {
			if *renew {
				r.renew(t, r.run(t))
			}
			theirs := r.serves(t)
			compareRanges(t, ours.broker, theirs.broker)
			if r.version == harness.KafkaVersion { // clients of all times ask brokers, only tools and nodes of today ask controllers
				compareRanges(t, ours.controller, theirs.controller)
			}
		})
	}
}

func compareRanges(t *testing.T, ours, theirs ranges) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(theirs)) {
		kafka := theirs[name]
		if v, ok := ours[name]; ok && (v.from > kafka.from || v.to < kafka.to) {
			t.Errorf("%s: versions %s are served, Apache Kafka serves %s", name, showRange(v.from, v.to), showRange(kafka.from, kafka.to))
		}
	}
}

// TestScenes plays each file of testdata/scenes.
func TestScenes(t *testing.T) {
	paths, err := filepath.Glob("testdata/scenes/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scenes: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			compare(t, path, &scene{readBook(t, path)})
		})
	}
}

// script is what is asked, and the book of what was answered.
type script interface {
	book() []*entry
	// asks reports whether there is anything to ask of a release for these versions.
	asks(r release, s served) bool
	// play asks, and tells what was said to each entry.
	play(s *stage, said func(*entry, answers))
}

// scene is a script that plays the entries of its book in order.
type scene struct{ entries []*entry }

func (s *scene) book() []*entry { return s.entries }

func (s *scene) asks(_ release, versions served) bool {
	serves := versions.broker
	for _, e := range s.entries {
		switch verb, _, _ := strings.Cut(e.line, " "); verb {
		case "client":
			serves = versions.broker
		case "controller":
			serves = versions.controller
		case "ask", "send", "hear":
			if q, err := readQuestion(e.line); err == nil && len(q.versionsOf(serves)) > 0 {
				return true
			}
		}
	}
	return false
}

func (s *scene) play(st *stage, said func(*entry, answers)) {
	for _, e := range s.entries {
		if e.line != "" {
			said(e, st.play(e))
		}
	}
}

// compare plays a script on a node, for each release anew, and compares what was said with the book; with -renew it plays
// it on Apache Kafka first and writes the book anew.
func compare(t *testing.T, path string, s script) {
	t.Helper()
	c := comparison{script: s, ours: moldau(t).ask(t), asked: map[*entry][]int16{}}
	for _, r := range releases() {
		t.Run(r.version, func(t *testing.T) { c.with(t, r) })
	}
	if c.played == len(releases()) { // and not only some of them, by -run
		c.forgetUnasked(t)
	}
	if *renew || *accept != "" {
		writeBook(t, path, s.book())
	}
}

// comparison is of what a script hears from all releases.
type comparison struct {
	script
	ours   served
	asked  map[*entry][]int16
	played int // releases
}

func (c *comparison) with(t *testing.T, r release) {
	c.played++
	common := r.answersFor(t).both(c.ours)
	if !c.asks(r, common) {
		return
	}
	if *renew {
		c.play(newStage(t, r.run(t), r.serves(t), common), func(e *entry, said answers) {
			if e.asked = said != nil; e.asked && e.kafka == nil {
				e.kafka = answers{}
			}
			maps.Copy(e.kafka, said)
		})
	}
	c.play(newStage(t, moldau(t), r.serves(t), common), func(e *entry, said answers) {
		for _, v := range slices.Sorted(maps.Keys(said)) {
			if slices.Contains(c.asked[e], v) {
				t.Errorf("%s: version %d is asked twice", e.line, v)
			}
			if _, ok := e.kafka[v]; !ok {
				t.Errorf("%s: no answer of version %d is kept: run with -renew", e.line, v)
			}
			c.asked[e] = append(c.asked[e], v)
		}
		e.compare(t, said)
	})
}

// forgetUnasked takes answers to what is not asked any more out of the book, or complains about them.
func (c *comparison) forgetUnasked(t *testing.T) {
	for _, e := range c.book() {
		for _, v := range slices.Sorted(maps.Keys(e.kafka)) {
			switch {
			case slices.Contains(c.asked[e], v):
			case *renew:
				delete(e.kafka, v)
			default:
				t.Errorf("%s: an answer of version %d is kept, and nobody asks for it: run with -renew", e.line, v)
			}
		}
	}
}
