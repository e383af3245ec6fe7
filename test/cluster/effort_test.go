package cluster

import (
	"os"
	"testing"

	"moldau/test/harness"
)

// scale returns how much of something a test takes: MOLDAU_EFFORT=night has the time for more.
func scale(normal, night int) int {
	if os.Getenv("MOLDAU_EFFORT") == "night" {
		return night
	}
	return normal
}

// thorough marks a test that a change of something else can spare: MOLDAU_EFFORT=ci and night run it.
func thorough(t *testing.T) {
	t.Helper()
	if harness.Thorough() == 1 {
		t.Skip("run with MOLDAU_EFFORT=ci")
	}
}
