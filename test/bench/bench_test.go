package main

import (
	"context"
	"encoding/xml"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/batch"
	"moldau/internal/wire"
)

// fakeBroker answers Produce requests and refuses the n-th, if n > 0. It waits before its first answer until a client has
// sent all that its depth allows.
type fakeBroker struct {
	addr     string
	refuse   int64
	depth    int
	requests atomic.Int64
	records  atomic.Int64
}

func startFake(t *testing.T, refuse int64, depth int) *fakeBroker {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	f := &fakeBroker{addr: ln.Addr().String(), refuse: refuse, depth: depth}
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go f.serve(t, conn)
		}
	}()
	return f
}

// topic is a topic whose partitions all are the fake's.
func (f *fakeBroker) topic(partitions int32) topic {
	t := topic{name: "x", partitions: partitions, leaders: []leader{{addr: f.addr}}}
	for p := range partitions {
		t.leaders[0].partitions = append(t.leaders[0].partitions, p)
	}
	return t
}

func (f *fakeBroker) serve(t *testing.T, conn net.Conn) {
	defer conn.Close()
	var held [][]byte
	for {
		frame, err := wire.ReadFrame(conn, 1<<20, nil)
		if err != nil {
			return
		}
		if h, err := wire.ParseHeader(frame); err == nil && h.Key == kmsg.ApiVersions.Int16() {
			resp := kmsg.NewPtrApiVersionsResponse()
			resp.SetVersion(h.Version)
			if _, err := conn.Write(wire.AppendResponse(nil, h.CorrelationID, resp)); err != nil {
				return
			}
			continue
		}
		held = append(held, f.answer(t, frame))
		if len(held) < f.depth {
			continue // a client that pipelines less deeply hangs here, and its deadline ends the test
		}
		if _, err := conn.Write(held[0]); err != nil {
			return
		}
		held = held[1:]
	}
}

func (f *fakeBroker) answer(t *testing.T, frame []byte) []byte {
	h, err := wire.ParseHeader(frame)
	if err != nil {
		t.Error(err)
		return nil
	}
	req, err := wire.DecodeRequest(h, frame[h.BodyOffset:])
	if err != nil {
		t.Error(err)
		return nil
	}
	n := f.requests.Add(1)
	resp := kmsg.NewPtrProduceResponse()
	resp.SetVersion(h.Version)
	for _, topic := range req.(*kmsg.ProduceRequest).Topics {
		answered := kmsg.NewProduceResponseTopic()
		for _, p := range topic.Partitions {
			b, err := batch.Single(p.Records)
			if err != nil {
				t.Errorf("partition %d: %v", p.Partition, err)
				continue
			}
			if _, err := batch.Check(b, batch.CheckOptions{MaxMessageBytes: 1 << 20, Now: time.Now().UnixMilli(),
				BeforeMaxMs: 1 << 60, AfterMaxMs: 1 << 60, Deep: true, Client: true}); err != nil {
				t.Errorf("partition %d: %v", p.Partition, err)
			}
			f.records.Add(int64(b.Count()))
			good := kmsg.NewProduceResponseTopicPartition()
			good.Partition = p.Partition
			if n == f.refuse {
				good.ErrorCode = kerr.KafkaStorageError.Code
			}
			answered.Partitions = append(answered.Partitions, good)
		}
		resp.Topics = append(resp.Topics, answered)
	}
	return wire.AppendResponse(nil, h.CorrelationID, resp)
}

// TestReplayProduce: the replayer sends what it says, in batches that a broker accepts, and keeps depth requests on the
// way.
func TestReplayProduce(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	f := startFake(t, 0, 1)
	l := load{recordBytes: 100, batchBytes: 4096, records: 50_000, acks: -1, connections: 3, depth: 4}
	o, err := replayProduce(ctx, f.topic(5), l)
	if err != nil {
		t.Fatal(err)
	}
	if got := f.records.Load(); got != o.records || got > l.records || got < l.records*9/10 {
		t.Errorf("the broker got %d records, the replayer counts %d, wanted were about %d", got, o.records, l.records)
	}
	if o.latency.p50 <= 0 || o.latency.p50 > o.latency.p999 {
		t.Errorf("latencies %+v", o.latency)
	}
}

func TestReplayProducePipelines(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	const depth = 5
	f := startFake(t, 0, depth)
	// The last depth-1 answers never come, so the run must end by the deadline of its own context, not before.
	l := load{recordBytes: 100, batchBytes: 200, records: 20, acks: -1, connections: 1, depth: depth}
	short, stop := context.WithCancel(ctx)
	go func() {
		for f.requests.Load() < l.records && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		stop()
	}()
	_, err := replayProduce(short, f.topic(1), l)
	if err == nil {
		t.Error("no error although answers are missing")
	}
	if got := f.requests.Load(); got != l.records {
		t.Errorf("%d requests arrived, want %d: fewer than %d were on the way", got, l.records, depth)
	}
}

func TestReplayProduceTellsErrors(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	f := startFake(t, 7, 1)
	l := load{recordBytes: 100, batchBytes: 200, records: 10_000, acks: 1, connections: 2, depth: 5}
	_, err := replayProduce(ctx, f.topic(2), l)
	if !errors.Is(err, kerr.KafkaStorageError) {
		t.Errorf("error %v, want %v", err, kerr.KafkaStorageError)
	}
}

func TestSkim(t *testing.T) {
	var log []byte
	for i := range 3 {
		b := batch.NewBuilder(batch.BuildOptions{BaseOffset: int64(10 + 2*i)})
		b.Add(batch.Record{Value: []byte("a")})
		b.Add(batch.Record{Value: []byte("b")})
		log = append(log, b.Build()...)
	}
	if n, next, err := skim(log, 10); n != 6 || next != 16 || err != nil {
		t.Errorf("whole: %d records, next offset %d, %v", n, next, err)
	}
	if n, next, err := skim(log[:len(log)-1], 10); n != 4 || next != 14 || err != nil {
		t.Errorf("cut off: %d records, next offset %d, %v", n, next, err)
	}
	if _, _, err := skim(log, 9); err == nil {
		t.Error("a gap before the first batch went unseen")
	}
}

func TestParseProducerPerformance(t *testing.T) {
	const text = `64001 records sent, 12797.6 records/sec (12.50 MB/sec), 1203.1 ms avg latency, 1512.0 ms max latency.
65536 records sent, 32768.5 records/sec (32.00 MB/sec), 700.10 ms avg latency, 1500.00 ms max latency, 650 ms 50th, 1400 ms 95th, 1450 ms 99th, 1490 ms 99.9th.
43691 records sent, 46088.6 records/sec (45.01 MB/sec), 391.77 ms avg latency, 440.00 ms max latency, 390 ms 50th, 416 ms 95th, 431 ms 99th, 438 ms 99.9th.

Metric Name                                                                                 Value
producer-node-metrics:request-rate:{client-id=perf-producer-client, node-id=node-1}         : 812.113
producer-node-metrics:request-total:{client-id=perf-producer-client, node-id=node--1}       : 3.000
producer-node-metrics:request-total:{client-id=perf-producer-client, node-id=node-1}        : 1201.000
producer-node-metrics:request-total:{client-id=perf-producer-client, node-id=node-2}        : 77.000
`
	o, err := parseProducerPerformance(text)
	if err != nil {
		t.Fatal(err)
	}
	want := latencies{390 * time.Millisecond, 416 * time.Millisecond, 431 * time.Millisecond, 438 * time.Millisecond}
	if o.perSecond != 46088.6 || o.latency != want || o.requests != 1278 {
		t.Errorf("%v records/s, %+v, %d requests", o.perSecond, o.latency, o.requests)
	}
	if _, err := parseProducerPerformance("org.apache.kafka.common.errors.TimeoutException"); err == nil {
		t.Error("a text without a summary was read")
	}
}

func TestParseConsumerPerformance(t *testing.T) {
	const text = "2026-11-30 07:20:01:123, 2026-11-30 07:20:04:123, 1024.0000, 341.3333, 1048576, 349525.3333, 1100, 1900, 538.9474, 551882.1053\n"
	records, perSecond, err := parseConsumerPerformance(text)
	if records != 1048576 || perSecond != 551882.1053 || err != nil {
		t.Errorf("%d records, %v records/s, %v", records, perSecond, err)
	}
	if _, _, err := parseConsumerPerformance("WARNING: Exiting before consuming the expected number of records\n"); err == nil {
		t.Error("a text without a summary was read")
	}
}

// TestPipelineEnds: a pipeline ends without an error when enough has been answered, although more is on the way.
func TestPipelineEnds(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	f := startFake(t, 0, 1)
	frames := recoveryFrames([]topic{f.topic(3)}, load{recordBytes: 100, batchBytes: 1000, acks: -1})
	conn, err := dial(ctx, f.addr)
	if err != nil {
		t.Fatal(err)
	}
	answered := int64(0)
	err = pipeline(ctx, conn, 5, func(int) []byte { return frames[0].bytes }, func(_ int, took time.Duration) bool {
		if took <= 0 {
			t.Error("an answer before its request")
		}
		answered += frames[0].records
		return answered < 1000
	})
	if err != nil || answered < 1000 || f.records.Load() < answered {
		t.Errorf("%d records answered, the broker had %d: %v", answered, f.records.Load(), err)
	}
}

// TestChart: the chart is a well-formed document that has every figure and both systems.
func TestChart(t *testing.T) {
	systems := []system{{name: "a<b"}, {name: "c"}}
	var r results
	r.add(workload{name: "w"}, "a<b", []figure{{"speed", "MB/s", false, 3}, {"none", "", true, 0}})
	r.add(workload{name: "w"}, "c", []figure{{"speed", "MB/s", false, 6}})
	text := chart(systems, r.rows)
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
	}
	for _, want := range []string{"speed, MB/s", "ratio 0.50, more is better", "a&lt;b", "none"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestSpread(t *testing.T) {
	for _, c := range []struct {
		samples []float64
		want    spread
	}{
		{[]float64{3}, spread{3, 3, 3}},
		{[]float64{9, 1, 2}, spread{2, 1, 9}},
		{[]float64{4, 1, 2, 3}, spread{2.5, 1, 4}},
	} {
		if got, ok := spreadOf(c.samples); got != c.want || !ok {
			t.Errorf("spread of %v is %v", c.samples, got)
		}
	}
}

func TestPercentile(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(i + 1)
	}
	got := summarise(hundred)
	if want := (latencies{50, 95, 99, 100}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestChooseWorkloads(t *testing.T) {
	all := []workload{{name: "start"}, {name: "replay-a"}, {name: "replay-b", full: true}, {name: "java-a"}}
	for _, c := range []struct {
		words string
		quick bool
		want  string
	}{
		{"", false, "start replay-a replay-b java-a"},
		{"", true, "start replay-a java-a"},
		{"replay", true, "replay-a replay-b"},
		{"java,start", false, "start java-a"},
	} {
		chosen, err := chooseWorkloads(all, c.words, c.quick)
		if err != nil {
			t.Errorf("%q: %v", c.words, err)
		}
		var names []string
		for _, w := range chosen {
			names = append(names, w.name)
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%q quick=%v: %s, want %s", c.words, c.quick, got, c.want)
		}
	}
	if _, err := chooseWorkloads(all, "start,repaly", false); err == nil {
		t.Error("a misspelt workload went unnoticed")
	}
}
