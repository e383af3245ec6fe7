package compat

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"moldau/test/harness"
)

const clientMetrics = "org.apache.kafka.tools.ClientMetricsCommand"

// TestClientMetrics: Apache Kafka's tool says which metrics are wanted, its clients push them, and they are among the
// node's own; our tool prints what Apache Kafka's does.
func TestClientMetrics(t *testing.T) {
	kafka := harness.ApacheKafka(t, harness.KafkaVersion)
	n := harness.Start(t)
	at := func(args ...string) []string { return append([]string{"--bootstrap-server", n.Addr}, args...) }
	kafka.Run(t, "", clientMetrics, at("--alter", "--name", "billing", "--metrics", "org.apache.kafka.consumer.", "--interval", "300", "--match", "client_id=billing-.*,client_software_name=apache-kafka-java")...)
	mustOwnTool(t, "", "client-metrics", at("--alter", "--name", "slow", "--metrics", "*", "--match", "client_source_address=10\\..*")...)
	for _, args := range [][]string{{"--list"}, {"--describe"}, {"--describe", "--name", "billing"}} {
		theirs, ours := kafka.Run(t, "", clientMetrics, at(args...)...), mustOwnTool(t, "", "client-metrics", at(args...)...)
		if lines(theirs) != lines(ours) || !strings.Contains(ours, "billing") {
			t.Errorf("client-metrics %v prints:\n%s\nApache Kafka's:\n%s", args, ours, theirs)
		}
	}

	mustOwnTool(t, "one\n", "console-producer", at("--topic", "orders")...)
	ctx, stop := context.WithCancel(context.Background())
	running := make(chan error, 2)
	for _, id := range []string{"billing-7", "audit-1"} {
		cmd := kafka.Command(ctx, consoleConsumer, at("--topic", "orders", "--from-beginning", "--consumer-property", "client.id="+id)...)
		go func() { running <- cmd.Run() }()
	}
	defer func() {
		stop()
		<-running
		<-running
	}()
	consumed := regexp.MustCompile(`(?m)^kafka_client_consumer_fetch_manager_records_consumed_total\{[^}]*client_id="billing-7"[^}]*\} 1$`)
	var metrics string
	for deadline := time.Now().Add(90 * time.Second); !consumed.MatchString(metrics); time.Sleep(200 * time.Millisecond) {
		_, metrics = n.Get(t, "/metrics")
		if time.Now().After(deadline) {
			t.Fatalf("a Java consumer has not pushed %v:\n%s", consumed, pushedOnly(metrics))
		}
	}
	pushed := pushedOnly(metrics)
	for _, want := range []string{`client_software_name="apache-kafka-java"`, fmt.Sprintf("client_software_version=%q", harness.KafkaVersion), "# TYPE kafka_client_consumer_fetch_manager_records_consumed_total counter"} {
		if !strings.Contains(pushed, want) {
			t.Errorf("there is no %s in\n%s", want, pushed)
		}
	}
	if strings.Contains(pushed, "audit-1") || strings.Contains(pushed, "kafka_client_producer_") {
		t.Errorf("something that nobody wanted is there:\n%s", pushed)
	}

	mustOwnTool(t, "", "client-metrics", at("--delete", "--name", "billing")...)
	if got := kafka.Run(t, "", clientMetrics, at("--list")...); strings.TrimSpace(got) != "slow" {
		t.Errorf("after its deletion Apache Kafka's tool lists %q", got)
	}
}

// pushedOnly are the lines about what clients pushed.
func pushedOnly(metrics string) string {
	var b strings.Builder
	for line := range strings.Lines(metrics) {
		if strings.Contains(line, "kafka_client_") || strings.Contains(line, "moldau_telemetry_") {
			b.WriteString(line)
		}
	}
	return b.String()
}
