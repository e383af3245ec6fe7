package crash

import (
	"os"
	"testing"

	"moldau/test/harness"
)

func TestMain(m *testing.M) {
	if code, done := harness.InOwnMounts(); done {
		os.Exit(code)
	}
	harness.Main(m)
}

// rounds returns how often to do harm at each effort.
func rounds(normal, ci, night int) int {
	switch os.Getenv("MOLDAU_EFFORT") {
	case "ci":
		return ci
	case "night":
		return night
	}
	return normal
}
