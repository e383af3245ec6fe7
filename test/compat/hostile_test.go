package compat

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"moldau/test/harness"
)

// TestHostileFrames: what is not Kafka's protocol closes its own connection with one log line and touches nothing else.
func TestHostileFrames(t *testing.T) {
	n := harness.Start(t)
	frame := func(body ...byte) []byte {
		return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
	}
	cases := map[string][]byte{
		"HTTP":               []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
		"negative length":    {0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4},
		"two gigabytes":      {0x7f, 0xff, 0xff, 0xff, 0, 3, 0, 12},
		"length zero":        {0, 0, 0, 0},
		"unknown key":        frame(0x7f, 0x00, 0, 0, 0, 0, 0, 1, 0xff, 0xff),
		"unknown version":    frame(0, 3, 0, 99, 0, 0, 0, 1, 0xff, 0xff),
		"body of garbage":    frame(append([]byte{0, 3, 0, 9, 0, 0, 0, 1, 0xff, 0xff}, bytes.Repeat([]byte{0xfe}, 200)...)...),
		"absurd array count": frame(0, 3, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff),
		"truncated header":   frame(0, 3),
	}
	for name, input := range cases {
		t.Run(name, func(t *testing.T) {
			said := func() int { return strings.Count(n.Log(), "connection closed") }
			before := said()
			conn, err := net.Dial("tcp", n.Addr)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := conn.Write(input); err != nil {
				t.Fatal(err)
			}
			_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
			if answer, err := io.ReadAll(conn); err != nil && !strings.Contains(err.Error(), "reset") || len(answer) > 0 {
				t.Errorf("answer %x, %v; want the connection closed without one", answer, err)
			}
			// The line is written once the connection is gone.
			for deadline := time.Now().Add(5 * time.Second); said() == before && time.Now().Before(deadline); {
				time.Sleep(time.Millisecond)
			}
			if lines := said() - before; lines != 1 {
				t.Errorf("%d log lines, want 1:\n%s", lines, lastLines(n.Log(), 5))
			}
		})
	}
	if code, _ := n.Get(t, "/livez"); code != 200 {
		t.Errorf("/livez says %d afterwards", code)
	}
}

// TestDeclaredLengthsCostNothing: memory follows the bytes received, not a length that somebody declares.
func TestDeclaredLengthsCostNothing(t *testing.T) {
	n := harness.Start(t)
	before := harness.ResidentKiB(t, n.Pid())
	for range 200 {
		conn, err := net.Dial("tcp", n.Addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		// 100 MB declared, the most that is legal, and 10 bytes sent.
		if _, err := conn.Write([]byte{0x06, 0x40, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1, 0xff, 0xff}); err != nil {
			t.Fatal(err)
		}
	}
	kcat := harness.Tool(t, "kcat", "install the package kcat")
	runKcat(t, kcat, "still here\n", "-P", "-b", n.Addr, "-t", "alive")
	if grown := harness.ResidentKiB(t, n.Pid()) - before; grown > 64<<10 {
		t.Errorf("200 connections that each declare 100 MB grew the node by %d KiB", grown)
	}
}

// TestIdleConnectionsAreClosed: connections.max.idle.ms.
func TestIdleConnectionsAreClosed(t *testing.T) {
	n := harness.Start(t, "connections.max.idle.ms=300")
	conn, err := net.Dial("tcp", n.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := conn.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("read on an idle connection: %v, want it closed", err)
	}
}

// TestConnectionLimitPerAddress: max.connections.per.ip.
func TestConnectionLimitPerAddress(t *testing.T) {
	n := harness.Start(t, "max.connections.per.ip=3")
	for i := range 4 {
		conn, err := net.Dial("tcp", n.Addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
		_, err = conn.Read(make([]byte, 1))
		if closed := err == io.EOF || err != nil && strings.Contains(err.Error(), "reset"); closed != (i == 3) {
			t.Errorf("connection %d: %v", i+1, err)
		}
	}
}

// TestKillUnderLoad: after kill -9 in the middle of a load with acks=all, every acked record is there, once.
func TestKillUnderLoad(t *testing.T) {
	n := harness.Start(t, "num.partitions=4")
	var mu sync.Mutex
	acked := make(map[string]bool) // partition/offset; answers come in until long after a client is closed
	for round := range 3 * harness.Thorough() {
		client, err := kgo.NewClient(kgo.SeedBrokers(n.Addr), kgo.DefaultProduceTopic("load"), kgo.AllowAutoTopicCreation(), kgo.RecordRetries(0))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		enough := make(chan struct{})
		got := 0
		var producing sync.WaitGroup
		producing.Go(func() {
			for i := 0; ctx.Err() == nil && i < 80000; i++ {
				client.Produce(ctx, kgo.StringRecord(fmt.Sprintf("r%d-%d", round, i)), func(r *kgo.Record, err error) {
					if err != nil {
						return
					}
					mu.Lock()
					defer mu.Unlock()
					acked[fmt.Sprintf("%d/%d", r.Partition, r.Offset)] = true
					if got++; got == 2000 {
						close(enough)
					}
				})
			}
		})
		select {
		case <-enough:
		case <-time.After(time.Minute):
			t.Fatal("2000 records were not acked within a minute")
		}
		n.Kill(t)
		cancel()
		producing.Wait()
		client.Close()
		n.Run(t)
	}
	mu.Lock()
	defer mu.Unlock()
	seen, values := readAll(t, n.Addr, "load", 4)
	for key := range acked {
		if !seen[key] {
			t.Errorf("acked record at %s is gone", key)
		}
	}
	for value, times := range values {
		if times > 1 {
			t.Errorf("%s is there %d times", value, times)
		}
	}
	t.Logf("%d acked, %d there", len(acked), len(seen))
}

// readAll reads a topic from its start to its end: the places that hold a record, and how often each value occurs.
func readAll(t *testing.T, address, topic string, partitions int32) (map[string]bool, map[string]int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	starts := make(map[int32]kgo.Offset)
	for p := range partitions {
		starts[p] = kgo.NewOffset().AtStart()
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: starts}))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ends := endOffsets(ctx, t, address, topic)
	seen, values := make(map[string]bool), make(map[string]int)
	left := len(ends)
	for p, end := range ends {
		if end == 0 {
			left--
			delete(ends, p)
		}
	}
	for left > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			seen[fmt.Sprintf("%d/%d", r.Partition, r.Offset)] = true
			values[string(r.Value)]++
			if r.Offset+1 == ends[r.Partition] {
				left--
			}
		})
	}
	return seen, values
}
