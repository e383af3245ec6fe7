package mission

import (
	"testing"

	"moldau/test/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
