//go:build !linux

package crash

import (
	"testing"

	"moldau/test/harness"
)

func inOwnMounts() (int, bool) { return 0, false }

type disk struct{}

func newDisk(t *testing.T, _ string, _ int64) *disk {
	harness.Missing(t, "cutting the power of a disk takes Linux")
	return nil
}

func (*disk) cutPower(*testing.T) {}
func (*disk) powerOn(*testing.T)  {}
