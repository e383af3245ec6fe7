package goclients

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/fetch"
	"github.com/segmentio/kafka-go/protocol/listoffsets"
	"github.com/segmentio/kafka-go/protocol/produce"
)

// TestOldKafkaGo: kafka-go's own encoding of old requests, whatever it would agree on with a broker.
func TestOldKafkaGo(t *testing.T) {
	addr := os.Getenv("MOLDAU_ADDRESS")
	if addr == "" {
		t.Skip("MOLDAU_ADDRESS is not set: see test/compat")
	}
	const topic = "old-kafka-go"
	conn, err := kafka.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.CreateTopics(kafka.TopicConfig{Topic: topic, NumPartitions: 1, ReplicationFactor: 1}); err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	c, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(context.Background(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var want []string
	for version := int16(0); version < 3; version++ {
		for _, codec := range []protocol.Attributes{0, protocol.Gzip, protocol.Snappy, protocol.Lz4} {
			var records []protocol.Record
			for i := range 5 {
				value := fmt.Sprintf("%d/%d/%d", version, codec, i)
				records = append(records, protocol.Record{Time: time.UnixMilli(1_700_000_000_000), Key: protocol.NewBytes([]byte("k")), Value: protocol.NewBytes([]byte(value))})
				want = append(want, value)
			}
			resp, err := protocol.RoundTrip(c, version, 1, "old", &produce.Request{Acks: -1, Timeout: 5000, Topics: []produce.RequestTopic{{
				Topic: topic, Partitions: []produce.RequestPartition{{RecordSet: protocol.RecordSet{Version: 1, Attributes: codec, Records: protocol.NewRecordReader(records...)}}},
			}}})
			if err != nil {
				t.Fatalf("Produce %d, %v: %v", version, codec, err)
			}
			if p := resp.(*produce.Response).Topics[0].Partitions[0]; p.ErrorCode != 0 || p.BaseOffset != int64(len(want)-5) {
				t.Fatalf("Produce %d, %v: %+v", version, codec, p)
			}
		}
	}
	resp, err := protocol.RoundTrip(c, 1, 2, "old", &listoffsets.Request{ReplicaID: -1, Topics: []listoffsets.RequestTopic{{
		Topic: topic, Partitions: []listoffsets.RequestPartition{{Timestamp: -1}},
	}}})
	if err != nil || resp.(*listoffsets.Response).Topics[0].Partitions[0].Offset != int64(len(want)) {
		t.Errorf("ListOffsets: %+v, %v", resp, err)
	}
	for version := int16(2); version < 4; version++ { // it cannot read format 0
		var got []string
		for len(got) < len(want) {
			resp, err := protocol.RoundTrip(c, version, 3, "old", &fetch.Request{ReplicaID: -1, MaxWaitTime: 100, MinBytes: 1, MaxBytes: 1 << 20, Topics: []fetch.RequestTopic{{
				Topic: topic, Partitions: []fetch.RequestPartition{{FetchOffset: int64(len(got)), PartitionMaxBytes: 1 << 20}},
			}}})
			if err != nil {
				t.Fatalf("Fetch %d: %v", version, err)
			}
			before := len(got)
			p := resp.(*fetch.Response).Topics[0].Partitions[0]
			for p.RecordSet.Records != nil {
				r, err := p.RecordSet.Records.ReadRecord()
				if err != nil {
					if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
						t.Fatalf("Fetch %d: %v", version, err)
					}
					break
				}
				value, err := protocol.ReadAll(r.Value)
				if err != nil {
					t.Fatal(err)
				}
				if r.Offset >= int64(len(got)) {
					got = append(got, string(value))
				}
			}
			if len(got) == before {
				t.Fatalf("Fetch %d: nothing new from %d on, error %d", version, before, p.ErrorCode)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("Fetch %d: %s", version, strings.Join(got, " "))
		}
	}
}
