package wire

import (
	"io"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func BenchmarkDecodeProduce(b *testing.B) {
	req := kmsg.NewPtrProduceRequest()
	req.Version = 11
	req.Topics = []kmsg.ProduceRequestTopic{{Topic: "topic"}}
	for i := range int32(32) {
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, kmsg.ProduceRequestTopicPartition{Partition: i, Records: make([]byte, 16<<10)})
	}
	body := req.AppendTo(nil)
	b.Run("guard", func(b *testing.B) {
		for b.Loop() {
			if _, err := guard(req, body); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("whole", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := DecodeRequest(Header{Key: 0, Version: 11}, body); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkFetchResponse(b *testing.B) {
	for _, c := range []struct {
		name       string
		partitions int32
		records    int // bytes in each
	}{{"32 of 1 MiB", 32, 1 << 20}, {"one of 1 KiB", 1, 1 << 10}, {"1000 without", 1000, 0}} {
		b.Run(c.name, func(b *testing.B) {
			topic := FetchTopic{Topic: "topic"}
			for i := range c.partitions {
				p := NewFetchPartition(i)
				if c.records > 0 {
					p.Records = []Region{Bytes(make([]byte, c.records))}
				}
				topic.Partitions = append(topic.Partitions, p)
			}
			r := FetchResponse{Version: 17, Topics: []FetchTopic{topic}}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := r.WriteTo(io.Discard); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
