package harness

import "os/exec"

// Prefetch fetches Apache Kafka and builds the binary, for suites that run without a network. What cannot be had is said by
// the test that needs it.
func Prefetch() {
	if maven, err := exec.LookPath("mvn"); err == nil {
		_, _ = fetchKafka(maven, KafkaVersion)
	}
	_, _ = build()
}
