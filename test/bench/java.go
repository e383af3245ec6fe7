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
		"--print-metrics",
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
	// The client's own count of what it has sent to each broker; the seeds have negative ids.
	performanceRequests = regexp.MustCompile(`(?m)^producer-node-metrics:request-total:\{[^}]*node-id=node-[0-9][^}]*\} *: ([0-9.]+)`)
)

// parseProducerPerformance reads the last summary that the tool prints: that of the records after the warm-up. The requests are
// those of the whole run.
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
	for _, m := range performanceRequests.FindAllStringSubmatch(text, -1) {
		n, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			return o, err
		}
		o.requests += int64(n)
	}
	return o, nil
}

// javaConsumeWorkload is a catch-up read by Apache Kafka's own consumer.
func javaConsumeWorkload() workload {
	return workload{
		name:  "java-consume",
		about: "catch-up read by Apache Kafka's ConsumerPerformance: 1 KiB records, batches of 16 KiB, 6 partitions, page cache warm",
		nodes: 1,
		run: func(ctx context.Context, t harness.T, c *cluster, s scale) ([]figure, error) {
			return c.onFilledTopic(ctx, fullBatches(s), func(to topic, filled outcome) ([]figure, error) {
				return c.measure(func() (outcome, error) {
					return javaConsume(ctx, harness.ApacheKafka(t, harness.KafkaVersion), c.addrs(), to, filled)
				})
			})
		},
	}
}

const consumerPerformance = "org.apache.kafka.tools.ConsumerPerformance"

// javaConsume reads a topic with Apache Kafka's own ConsumerPerformance. Its throughput is that after the group has been joined.
func javaConsume(ctx context.Context, kafka *harness.Kafka, addrs string, t topic, filled outcome) (outcome, error) {
	cmd := kafka.CommandJVM(ctx, harness.ClientJVM(), consumerPerformance,
		"--topic", t.name,
		"--num-records", strconv.FormatInt(filled.records, 10),
		"--bootstrap-server", addrs,
		"--hide-header",
		"--timeout", "30000")
	text, err := harness.Output(cmd, "")
	if err != nil {
		return outcome{}, fmt.Errorf("ConsumerPerformance: %w\n%s", err, text)
	}
	records, perSecond, err := parseConsumerPerformance(text)
	if err != nil {
		return outcome{}, fmt.Errorf("%w in\n%s", err, text)
	}
	if records != filled.records {
		return outcome{}, fmt.Errorf("ConsumerPerformance read %d records of %d", records, filled.records)
	}
	return outcome{records: records, bytes: filled.bytes, perSecond: perSecond,
		clientCPU: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}, nil
}

// parseConsumerPerformance reads the tool's only line without header: start, end, MB, MB/s, records, records/s, ms of
// rebalancing, ms of fetching, and MB/s and records/s of fetching.
func parseConsumerPerformance(text string) (records int64, perSecond float64, err error) {
	for line := range strings.Lines(text) {
		fields := strings.Split(strings.TrimSpace(line), ", ")
		if len(fields) != 10 {
			continue
		}
		if records, err = strconv.ParseInt(fields[4], 10, 64); err != nil {
			return 0, 0, err
		}
		perSecond, err = strconv.ParseFloat(fields[9], 64)
		return records, perSecond, err
	}
	return 0, 0, errors.New("no summary")
}

const endToEndLatency = "org.apache.kafka.tools.EndToEndLatency"

// javaEndToEnd sends one record after the other with Apache Kafka's own EndToEndLatency, each when the one before has come out
// at its consumer. Its percentiles are whole milliseconds.
func javaEndToEnd(ctx context.Context, kafka *harness.Kafka, addrs string, t topic, records int) ([]figure, error) {
	cmd := kafka.CommandJVM(ctx, harness.ClientJVM(), endToEndLatency, addrs, t.name, strconv.Itoa(records), "all", "1024")
	text, err := harness.Output(cmd, "")
	if err != nil {
		return nil, fmt.Errorf("EndToEndLatency: %w\n%s", err, text)
	}
	average, percentiles := endToEndAverage.FindStringSubmatch(text), endToEndPercentiles.FindStringSubmatch(text)
	if average == nil || percentiles == nil {
		return nil, fmt.Errorf("no summary in\n%s", text)
	}
	var figures []figure
	values := append([]string{average[1]}, percentiles[1:]...)
	for i, name := range []string{"latency average", "latency p50", "latency p99", "latency p99.9"} {
		ms, err := strconv.ParseFloat(values[i], 64)
		if err != nil {
			return nil, err
		}
		figures = append(figures, figure{name, "ms", true, ms})
	}
	return figures, nil
}

var (
	endToEndAverage     = regexp.MustCompile(`Avg latency: ([0-9.]+) ms`)
	endToEndPercentiles = regexp.MustCompile(`50th = ([0-9]+), 99th = ([0-9]+), 99\.9th = ([0-9]+)`)
)
