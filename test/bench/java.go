package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"moldau/test/harness"
)

const producerPerformance = "org.apache.kafka.tools.ProducerPerformance"

// javaProduce sends the load with Apache Kafka's own ProducerPerformance. Its first third warms the client up and does not
// count in its throughput and latency; it counts in outcome.records, which the broker's CPU is divided by.
func javaProduce(ctx context.Context, kafka *harness.Kafka, addrs string, t topic, l load) (outcome, error) {
	throughput := "-1"
	if l.rate > 0 {
		throughput = strconv.FormatFloat(l.rate, 'f', -1, 64)
	}
	cmd := kafka.CommandJVM(ctx, harness.ClientJVM(), producerPerformance,
		"--topic", t.name,
		"--num-records", strconv.FormatInt(l.records, 10),
		"--warmup-records", strconv.FormatInt(l.records/3, 10),
		"--record-size", strconv.Itoa(l.recordBytes),
		"--throughput", throughput,
		"--bootstrap-server", addrs,
		"--command-property",
		fmt.Sprintf("acks=%d", l.acks),
		fmt.Sprintf("batch.size=%d", l.batchBytes),
		fmt.Sprintf("max.in.flight.requests.per.connection=%d", l.depth))
	text, err := harness.Output(cmd, "")
	if err != nil {
		return outcome{}, fmt.Errorf("ProducerPerformance: %w\n%s", err, text)
	}
	o, err := parseProducerPerformance(text)
	if err != nil {
		return outcome{}, fmt.Errorf("%w in\n%s", err, text)
	}
	o.records = l.records
	o.bytes = l.records * int64(l.recordBytes)
	o.clientCPU = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return o, nil
}

var (
	performanceRate    = regexp.MustCompile(`([0-9.]+) records/sec`)
	performancePercent = regexp.MustCompile(`([0-9]+) ms (50th|95th|99th|99\.9th)`)
)

// parseProducerPerformance reads the last summary that the tool prints: that of the records after the warm-up.
func parseProducerPerformance(text string) (o outcome, err error) {
	summary := ""
	for line := range strings.Lines(text) {
		if strings.Contains(line, " ms 99.9th") {
			summary = line
		}
	}
	rate := performanceRate.FindStringSubmatch(summary)
	if rate == nil {
		return o, errors.New("no summary")
	}
	if o.perSecond, err = strconv.ParseFloat(rate[1], 64); err != nil {
		return o, err
	}
	into := map[string]*time.Duration{"50th": &o.latency.p50, "95th": &o.latency.p95, "99th": &o.latency.p99, "99.9th": &o.latency.p999}
	for _, m := range performancePercent.FindAllStringSubmatch(summary, -1) {
		ms, err := strconv.Atoi(m[1])
		if err != nil {
			return o, err
		}
		*into[m[2]] = time.Duration(ms) * time.Millisecond
	}
	return o, nil
}
