//go:build !linux

package compat

import (
	"testing"

	"moldau/test/harness"
)

func smallDisk(t *testing.T, _ int64) string {
	t.Helper()
	harness.Missing(t, "the small disk of this test is a Linux tmpfs")
	return ""
}
