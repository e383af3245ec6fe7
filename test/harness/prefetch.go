package harness

import "os/exec"

// Prefetch fetches Apache Kafka and a Python with the given packages, and builds the binary, for suites that run without a
// network. What cannot be had is said by the test that needs it.
func Prefetch(packages ...string) {
	if maven, err := exec.LookPath("mvn"); err == nil {
		_, _ = fetchKafka(maven, KafkaVersion)
	}
	if python, err := exec.LookPath("python3"); err == nil {
		_, _ = fetchPython(python, packages)
	}
	_, _ = build()
}

// PrefetchKafka fetches releases of Apache Kafka for the same purpose.
func PrefetchKafka(versions ...string) {
	maven, err := exec.LookPath("mvn")
	if err != nil {
		return
	}
	for _, version := range versions {
		_, _ = fetchKafka(maven, version)
	}
}
