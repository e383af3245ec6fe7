package cluster

import (
	"testing"

	"moldau/test/harness"
)

// thorough marks a test that a change of something else can spare: MOLDAU_EFFORT=ci and night run it.
func thorough(t *testing.T) {
	t.Helper()
	if harness.Thorough() == 1 {
		t.Skip("run with MOLDAU_EFFORT=ci")
	}
}
