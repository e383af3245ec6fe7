package compat

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestBombs: batches of 60 KB that hold 60 MB each, from many connections at once, do not add up.
func TestBombs(t *testing.T) {
	a := underAttack(t)
	r := dialRaw(t, a.Addr)
	createTopics(t, r)
	defer r.conn.Close()
	packed := bomb(60 << 20)
	future := time.Now().Add(2 * time.Hour) // beyond message.timestamp.after.max.ms: this alone has the records looked at
	for _, l := range []lie{
		{topic: "attack-compact", batch: func() []byte {
			b := plainBatch(time.Now(), "x")
			b.Attributes, b.Records = 1, packed
			return sealed(b)
		}},
		{topic: "attack-plain", batch: func() []byte {
			b := plainBatch(future, "x")
			b.Attributes, b.Records = 1, packed
			return sealed(b)
		}},
		{topic: "attack-old", version: 2, batch: oldBomb(24 << 20)},
	} {
		var clients sync.WaitGroup
		for range 24 {
			clients.Go(func() {
				if answer := l.tell(t, a.Addr); answer == "closed" {
					t.Errorf("%s: the connection was closed", l.topic)
				}
			})
		}
		clients.Wait()
	}
	var clients sync.WaitGroup
	for range 24 {
		clients.Go(func() {
			r := dialRaw(t, a.Addr)
			defer r.conn.Close()
			if _, err := listedIn("attack-compact", 0, -3, -1)(r); err != nil {
				t.Error(err)
			}
		})
	}
	clients.Wait()
	// What came in as an old bomb goes out as one.
	for range 24 {
		clients.Go(func() {
			r := dialRaw(t, a.Addr)
			defer r.conn.Close()
			req := kmsg.NewPtrFetchRequest()
			req.Version, req.ReplicaID, req.MaxWaitMillis, req.MinBytes = 1, -1, 100, 1
			topic := kmsg.NewFetchRequestTopic()
			topic.Topic = "attack-old"
			partition := kmsg.NewFetchRequestTopicPartition()
			partition.PartitionMaxBytes = 1 << 20
			topic.Partitions = append(topic.Partitions, partition)
			req.Topics = append(req.Topics, topic)
			resp, err := r.ask(req)
			if err != nil {
				t.Errorf("an old fetch: %v", err)
				return
			}
			if p := resp.(*kmsg.FetchResponse).Topics[0].Partitions[0]; p.ErrorCode != 0 || len(p.RecordBatches) < 20_000 {
				t.Errorf("an old fetch: error %d, %d bytes", p.ErrorCode, len(p.RecordBatches))
			}
		})
	}
	clients.Wait()
	a.unharmed(t, 1000)
}

// oldBomb is a message set of some 60 KB in format 1 whose one message has a value of n zeros.
func oldBomb(n int) func() []byte {
	message := func(m kmsg.MessageV1) []byte {
		m.Magic = 1
		b := m.AppendTo(nil)
		binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
		binary.BigEndian.PutUint32(b[12:], crc32.ChecksumIEEE(b[16:]))
		return b
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write(message(kmsg.MessageV1{Value: make([]byte, n)}))
	_ = w.Close()
	set := message(kmsg.MessageV1{Attributes: 1, Value: packed.Bytes()})
	return func() []byte { return bytes.Clone(set) }
}

// TestHeavyRequests: requests that are millions of names.
func TestHeavyRequests(t *testing.T) {
	a := underAttack(t)
	named := func(topics int) []byte {
		req := kmsg.NewPtrMetadataRequest()
		req.Version = 4
		for i := range topics {
			name := fmt.Sprintf("%x", i)
			req.Topics = append(req.Topics, kmsg.MetadataRequestTopic{Topic: &name})
		}
		return encode(req, 1)
	}
	large, refused := named(400_000), named(5_000_000)
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			r := dialRaw(t, a.Addr)
			defer r.conn.Close()
			if _, err := r.conn.Write(large); err != nil {
				t.Error(err)
				return
			}
			if _, err := r.frame(30 * time.Second); err != nil {
				t.Errorf("400,000 names: %v", err)
			}
		})
		clients.Go(func() {
			r := dialRaw(t, a.Addr)
			defer r.conn.Close()
			_, _ = r.conn.Write(refused)
			if _, err := r.frame(30 * time.Second); err == nil {
				t.Error("5,000,000 names were looked up")
			}
		})
	}
	clients.Wait()
	a.unharmed(t, 1300) // 560 to 1,020 were seen: it depends on when memory is collected
}
