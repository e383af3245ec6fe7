package foreign

import (
	"testing"
	"time"

	"moldau/test/harness"
)

// TestFranzGo: the tests of franz-go's client, kgo, in the version that our own tests use. A third of them drives a broker.
func TestFranzGo(t *testing.T) {
	wanted(t)
	const suite = "franz-go"
	e := readExpectation(t, suite)
	n := harness.Start(t, "offsets.topic.num.partitions=5", "group.initial.rebalance.delay.ms=0")
	results := goSuite{
		pkg:     "github.com/twmb/franz-go/pkg/kgo",
		skip:    either(e.leaveOut()),
		env:     []string{"KGO_SEEDS=" + n.Addr, "KGO_TEST_RF=1", "KGO_TEST_RECORDS=50000", "KGO_LOG_LEVEL=none"},
		timeout: 8 * time.Minute,
	}.results(t, "kgo")
	e.check(t, suite, []string{"kgo"}, results)
}
