package foreign

import (
	"flag"
	"os"
	"testing"

	"moldau/test/harness"
)

var (
	update  = flag.Bool("update", false, "write what was seen into testdata")
	classes = flag.String("classes", "", "run only the classes that match this regular expression")
	itself  = flag.Bool("itself", false, "run Apache Kafka's tests on Apache Kafka, and tell how that differs from here")
)

func TestMain(m *testing.M) {
	flag.Parse()
	harness.Main(m)
}

// effort is how much of a suite is to run.
type effort int

const (
	slice effort = iota + 1 // what a landing waits for
	all
)

// wanted ends the test unless suites run at all, and tells how much.
func wanted(t *testing.T) effort {
	t.Helper()
	switch os.Getenv("MOLDAU_EFFORT") {
	case "ci":
		return slice
	case "night":
		return all
	}
	t.Skip("suites of others run with MOLDAU_EFFORT=ci or night")
	return 0
}

// wantedAll ends the test unless everything runs.
func wantedAll(t *testing.T) {
	t.Helper()
	if wanted(t) != all {
		t.Skip("too long for a landing: runs with MOLDAU_EFFORT=night")
	}
}
