package api

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/replica"
)

// setOf is count records as a message set.
func setOf(t *testing.T, magic int8, count int, o batch.BuildOptions) []byte {
	t.Helper()
	set, err := batch.Batch(records(count, o)).Messages(magic, batch.DownOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// oldFetch is a Fetch of one partition in any version, as clients without sessions send it.
func (n *testNode) oldFetch(version int16, topic string, from int64, maxBytes int32) kmsg.FetchResponseTopicPartition {
	n.t.Helper()
	req := n.fetchRequest(fetchOptions{version: 12, epoch: finalEpoch, partitionMax: maxBytes}, topic, map[int32]int64{0: from})
	req.Version = version
	return told(n.ask(req).(*kmsg.FetchResponse))[0]
}

// read is what an old reader makes of a set: offsets and values, without what does not fit.
func read(t *testing.T, set []byte, magic int8) (got []string) {
	t.Helper()
	for len(set) >= 12 {
		size := 12 + int(int32(binary.BigEndian.Uint32(set[8:])))
		if size > len(set) {
			break
		}
		if set[16] != byte(magic) {
			t.Fatalf("format %d for a reader of format %d", set[16], magic)
		}
		b, err := batch.FromMessages(set[:size], batch.UpOptions{})
		if err != nil {
			t.Fatal(err)
		}
		last := int64(binary.BigEndian.Uint64(set))
		if err := b.Each(func(r batch.Record) error {
			got = append(got, fmt.Sprintf("%d=%s", last-int64(b.LastOffsetDelta())+r.Offset, r.Value))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		set = set[size:]
	}
	return got
}

func numbered(from, to int) (want []string) {
	for i := from; i < to; i++ {
		want = append(want, fmt.Sprintf("%d=v%d", i, i%3))
	}
	return want
}

// TestOldFormatsBothWays: writers of each format and codec, in each version that is theirs, and readers of each.
func TestOldFormatsBothWays(t *testing.T) {
	inNode(t, nodeOptions{}, func(n *testNode) {
		n.create("t", 1)
		total := 0
		for version := range int16(3) {
			for magic := int8(0); magic <= 2; magic++ {
				for _, codec := range []batch.Codec{batch.None, batch.Gzip, batch.Snappy, batch.LZ4} {
					o := batch.BuildOptions{Codec: codec}
					data := records(3, o)
					if magic < 2 {
						data = setOf(t, magic, 3, o)
					}
					p := n.ask(n.produceRequest(version, -1, "t", 0, data)).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
					if p.ErrorCode != 0 || p.BaseOffset != int64(total) {
						t.Fatalf("Produce %d, format %d, %v: error %d, offset %d, want %d", version, magic, codec, p.ErrorCode, p.BaseOffset, total)
					}
					total += 3
				}
			}
		}
		want := strings.Join(numbered(0, total), " ")
		for version := range int16(4) {
			var got []string
			for len(got) < total { // an answer is as long as what lies in the log, and the same in an older format may be longer
				p := n.oldFetch(version, "t", int64(len(got)), 1<<20)
				more := read(t, p.RecordBatches, int8(version/2))
				if p.ErrorCode != 0 || p.HighWatermark != int64(total) || len(more) == 0 {
					t.Fatalf("Fetch %d from %d: error %d, high watermark %d, %d messages", version, len(got), p.ErrorCode, p.HighWatermark, len(more))
				}
				got = append(got, more...)
			}
			if got := strings.Join(got, " "); got != want {
				t.Errorf("Fetch %d: %s", version, got)
			}
			// From within a batch: single messages begin where they are asked for, compressed ones with the batch.
			if got := read(t, n.oldFetch(version, "t", 1, 1<<20).RecordBatches, int8(version/2)); got[0] != "1=v1" {
				t.Errorf("Fetch %d from 1 begins with %s", version, got[0])
			}
			if got := read(t, n.oldFetch(version, "t", 4, 1<<20).RecordBatches, int8(version/2)); got[0] != "3=v0" {
				t.Errorf("Fetch %d from 4 begins with %s", version, got[0])
			}
		}
		if got := count(n.oldFetch(4, "t", 0, 1<<20).RecordBatches); got != total {
			t.Errorf("Fetch 4: %d records of %d", got, total)
		}
	})
}

// TestModernClientsAreNotConverted: what no old client touches stays as it is, on the topic of an old one, too.
func TestModernClientsAreNotConverted(t *testing.T) {
	inNode(t, nodeOptions{}, func(n *testNode) {
		n.create("t", 1)
		for _, codec := range []batch.Codec{batch.None, batch.Gzip, batch.Snappy, batch.LZ4, batch.Zstd} {
			n.produce("t", 0, records(3, batch.BuildOptions{Codec: codec}))
			for version := int16(4); version <= 18; version++ {
				n.ask(n.fetchRequest(fetchOptions{version: version, epoch: finalEpoch}, "t", map[int32]int64{0: 0}))
			}
		}
		if got := n.metric("moldau_conversions_total"); got != 0 {
			t.Errorf("%v conversions for modern clients", got)
		}
		n.ask(n.produceRequest(2, -1, "t", 0, setOf(t, 1, 3, plain())))
		if got := n.metric("moldau_conversions_total"); got != 1 {
			t.Errorf("%v conversions of one old set", got)
		}
		n.oldFetch(3, "t", 0, 1<<20)
		if got := n.metric("moldau_conversions_total"); got != 5 { // zstd ends the answer after four batches
			t.Errorf("%v conversions after an old fetch, want 5", got)
		}
		n.oldFetch(3, "t", 0, 1<<20)
		if got := n.metric("moldau_conversions_total"); got != 5 {
			t.Errorf("%v conversions after the same fetch again", got)
		}
		if got := n.metric("moldau_conversions_reused_total"); got == 0 {
			t.Error("the cache was not used")
		}
		for _, c := range n.api.Clients() {
			if c.ID == "test" && !slices.Equal(c.TooOld, []string{"Produce 2", "Fetch 3"}) {
				t.Errorf("too old for Kafka 4: %v", c.TooOld)
			}
			if c.ID == "test" && (c.Produced.Batches != 1 || c.Produced.Records != 3 || c.Fetched.Batches != 4 || c.Fetched.Records != 12) {
				t.Errorf("costs of the client: %+v", c)
			}
		}
	})
}

// metric is the sum of a metric over its labels.
func (n *testNode) metric(name string) (sum float64) {
	n.t.Helper()
	families, err := n.metrics.Gatherer().Gather()
	if err != nil {
		n.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// TestOldReadersAndSmallBuffers: versions to 2 take their sizes as they are, version 3 gets one batch of any size (KIP-74).
func TestOldReadersAndSmallBuffers(t *testing.T) {
	inNode(t, nodeOptions{}, func(n *testNode) {
		n.create("plain", 1)
		n.create("packed", 1)
		n.mustProduce("plain", 0, 3)
		n.produce("packed", 0, records(3, batch.BuildOptions{Codec: batch.Gzip}))
		for version := range int16(4) {
			magic := int8(version / 2)
			one := len(setOf(t, magic, 1, plain()))
			p := n.oldFetch(version, "plain", 0, int32(one+5))
			got := read(t, p.RecordBatches, magic)
			switch {
			case version < 3 && (len(p.RecordBatches) != one+5 || len(got) != 1):
				t.Errorf("Fetch %d: %d bytes with %d messages, want %d with 1", version, len(p.RecordBatches), len(got), one+5)
			case version == 3 && len(got) != 3:
				t.Errorf("Fetch 3: %d messages, want the whole batch", len(got))
			}
			// It goes on from there.
			if got := read(t, n.oldFetch(version, "plain", 1, int32(one+5)).RecordBatches, magic); got[0] != "1=v1" {
				t.Errorf("Fetch %d goes on with %v", version, got)
			}
			p = n.oldFetch(version, "packed", 0, 20)
			got = read(t, p.RecordBatches, magic)
			switch {
			case version < 3 && (len(p.RecordBatches) != 20 || len(got) != 0):
				t.Errorf("Fetch %d: %d bytes with %d messages, want 20 bytes of one", version, len(p.RecordBatches), len(got))
			case version == 3 && len(got) != 3:
				t.Errorf("Fetch 3: %d messages, want the whole set", len(got))
			}
			if p := n.oldFetch(version, "plain", 0, -1); len(p.RecordBatches) != 0 && version < 3 {
				t.Errorf("Fetch %d of no bytes: %d bytes", version, len(p.RecordBatches))
			}
		}
	})
}

// TestOldReadersOfWhatTheyCannotRead: markers are passed over, zstd is an error once it is what comes next, and so is damage.
func TestOldReadersOfWhatTheyCannotRead(t *testing.T) {
	inNode(t, nodeOptions{}, func(n *testNode) {
		n.create("t", 1)
		n.mustProduce("t", 0, 3)
		p, err := n.set.Partition(kafka.TopicPartition{Topic: "t", Partition: 0})
		if err != nil {
			t.Fatal(err)
		}
		marker := batch.NewBuilder(batch.BuildOptions{Control: true, Transactional: true, Producer: &batch.Producer{ID: 1, BaseSequence: -1}})
		marker.Add(batch.Record{Key: []byte{0, 0, 0, 1}, Value: []byte{0, 0, 0, 0, 0, 0}})
		if _, _, err := p.Append(marker.Build(), replica.AppendOptions{Acks: kafka.AcksLeader, LeaderEpoch: kafka.NoEpoch}); err != nil {
			t.Fatal(err)
		}
		n.produce("t", 0, records(1, plain())) // its acknowledgement means that the marker is committed, too
		for version := range int16(4) {
			magic := int8(version / 2)
			if got := strings.Join(read(t, n.oldFetch(version, "t", 0, 1<<20).RecordBatches, magic), " "); got != "0=v0 1=v1 2=v2 4=v0" {
				t.Errorf("Fetch %d over a marker: %s", version, got)
			}
			// Its buffer has room for the marker alone: the reader is told of what comes after it.
			if got := strings.Join(read(t, n.oldFetch(version, "t", 3, 80).RecordBatches, magic), " "); got != "4=v0" {
				t.Errorf("Fetch %d from a marker: %s", version, got)
			}
		}
		n.produce("t", 0, records(2, batch.BuildOptions{Codec: batch.Zstd}))
		for version := range int16(4) {
			magic := int8(version / 2)
			if got := read(t, n.oldFetch(version, "t", 4, 1<<20).RecordBatches, magic); len(got) != 1 {
				t.Errorf("Fetch %d with zstd behind: %v", version, got)
			}
			p := n.oldFetch(version, "t", 5, 1<<20)
			if wantError(t, p.ErrorCode, kerr.UnsupportedCompressionType); len(p.RecordBatches) != 0 || p.HighWatermark != -1 {
				t.Errorf("Fetch %d of zstd: %d bytes, high watermark %d", version, len(p.RecordBatches), p.HighWatermark)
			}
		}
	})
}

// TestBadMessageSets: what is wrong with a set is told, nothing of it is appended, and a bomb is written down once.
func TestBadMessageSets(t *testing.T) {
	inNode(t, nodeOptions{}, func(n *testNode) {
		n.create("t", 1)
		n.create("compact", 1, "cleanup.policy=compact")
		good := setOf(t, 1, 2, plain())
		flipped := bytes.Clone(good)
		flipped[len(flipped)-1] ^= 1
		keyed := func(key []byte) []byte {
			set, err := batch.Batch(recordsAt(recordTime, key, 1, plain())).Messages(0, batch.DownOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return set
		}
		n.create("small", 1, "max.message.bytes=200")
		many := setOf(t, 0, 20, plain())
		for _, c := range []struct {
			what, topic string
			set         []byte
			want        *kerr.Error
		}{
			{"cut", "t", good[:len(good)-3], kerr.CorruptMessage},
			{"a flipped bit", "t", flipped, kerr.CorruptMessage},
			{"no key on a compacted topic", "compact", keyed(nil), kerr.InvalidRecord},
			{"messages longer than max.message.bytes together", "small", many, kerr.MessageTooLarge},
			{"a message longer than that", "small", keyed(make([]byte, 300)), kerr.MessageTooLarge},
		} {
			p := n.ask(n.produceRequest(2, -1, c.topic, 0, c.set)).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
			if wantError(t, p.ErrorCode, c.want); p.BaseOffset != -1 {
				t.Errorf("%s: base offset %d", c.what, p.BaseOffset)
			}
		}
		if p := n.ask(n.produceRequest(1, -1, "t", 0, nil)).(*kmsg.ProduceResponse).Topics[0].Partitions[0]; p.ErrorCode != 0 || p.BaseOffset != -1 {
			t.Errorf("nothing: error %d, base offset %d", p.ErrorCode, p.BaseOffset)
		}
		inner, err := batch.Compress(batch.Gzip, 0, make([]byte, 80<<20))
		if err != nil {
			t.Fatal(err)
		}
		bomb, err := batch.Batch(records(1, batch.BuildOptions{Codec: batch.Gzip})).Messages(1, batch.DownOptions{})
		if err != nil {
			t.Fatal(err)
		}
		bomb = sealMessage(append(bomb[:34:34], inner...))
		p := n.ask(n.produceRequest(2, -1, "t", 0, bomb)).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
		wantError(t, p.ErrorCode, kerr.InvalidRecord)
		n.log.mu.Lock()
		defer n.log.mu.Unlock()
		if got := strings.Count(n.log.buf.String(), "than they let on"); got != 1 {
			t.Errorf("the bomb is written down %d times", got)
		}
	})
}

// sealMessage makes lengths and CRC of a wrapper of format 1 those of its bytes.
func sealMessage(b []byte) []byte {
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	binary.BigEndian.PutUint32(b[30:], uint32(len(b)-34))
	binary.BigEndian.PutUint32(b[12:], crc32.ChecksumIEEE(b[16:]))
	return b
}

// TestOldTimestamps: format 0 has none, and a topic's append time reaches readers of format 1.
func TestOldTimestamps(t *testing.T) {
	inNode(t, nodeOptions{}, func(n *testNode) {
		n.create("create", 1)
		n.create("append", 1, "message.timestamp.type=LogAppendTime")
		for topic, appendTime := range map[string]bool{"create": false, "append": true} {
			for magic := int8(0); magic <= 1; magic++ {
				p := n.ask(n.produceRequest(2, -1, topic, 0, setOf(t, magic, 1, plain()))).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
				if p.ErrorCode != 0 || (p.LogAppendTime >= 0) != appendTime {
					t.Errorf("%s, format %d: error %d, append time %d", topic, magic, p.ErrorCode, p.LogAppendTime)
				}
			}
			set := n.oldFetch(3, topic, 0, 1<<20).RecordBatches
			for i := range 2 {
				want, attributes := int64(-1), byte(0)
				switch {
				case appendTime:
					want, attributes = n.api.nowMs(), 8
				case i == 1:
					want = recordTime
				}
				if got := int64(binary.BigEndian.Uint64(set[18:])); got != want || set[17] != attributes {
					t.Errorf("%s, record %d: timestamp %d, attributes %d; want %d, %d", topic, i, got, set[17], want, attributes)
				}
				set = set[12+int(binary.BigEndian.Uint32(set[8:])):]
			}
		}
	})
}

// TestClients: names, software and versions are remembered, and no more clients than there is room for.
func TestClients(t *testing.T) {
	inNode(t, nodeOptions{}, func(n *testNode) {
		n.create("t", 1)
		c := n.dial(n.broker)
		defer c.close()
		for _, version := range []int16{0, 12, 3} {
			req := kmsg.NewPtrMetadataRequest()
			req.Version = version
			c.do(req)
		}
		hello := kmsg.NewPtrApiVersionsRequest()
		hello.Version, hello.ClientSoftwareName, hello.ClientSoftwareVersion = 4, "some-client", "1.2.3"
		c.do(hello)
		var silent, told Client
		for _, client := range n.api.Clients() {
			if client.Software == "" {
				silent = client
			} else {
				told = client
			}
		}
		if got := silent.APIs["Metadata"]; silent.ID != "test" || got != (VersionsUsed{0, 12}) {
			t.Errorf("before it said what it is: %+v", silent)
		}
		if got := told.APIs["ApiVersions"]; told.Software != "some-client" || told.Version != "1.2.3" || got != (VersionsUsed{4, 4}) || told.Address == "" {
			t.Errorf("after: %+v", told)
		}
		for i := range clientSlots + 50 {
			n.api.clients.find(clientKey{id: fmt.Sprint(i)}).seenMs.Store(int64(i))
		}
		if got := n.api.Clients(); len(got) != clientSlots {
			t.Errorf("%d clients are remembered", len(got))
		}
		if known := n.api.clients.byKey[clientKey{id: "7"}]; known != nil {
			t.Error("one that was silent for long is remembered")
		}
	})
}

// TestConversionsKeepLittle: memory for a batch that was larger than most is not kept for the next.
func TestConversionsKeepLittle(t *testing.T) {
	inNode(t, nodeOptions{}, func(n *testNode) {
		c := n.api.conversions
		for range 10 {
			c.keep(c.raw(keptRawBytes + 1))
		}
		if raw, ok := c.raws.Get().(*[]byte); ok {
			t.Errorf("%d bytes are kept", cap(*raw))
		}
	})
}

// TestDebugReader: replica id -2 reads up to the log end.
func TestDebugReader(t *testing.T) {
	inNode(t, nodeOptions{}, func(n *testNode) {
		n.create("t", 1)
		n.mustProduce("t", 0, 2)
		req := n.fetchRequest(fetchOptions{version: 12, epoch: finalEpoch}, "t", map[int32]int64{0: 0})
		req.Version, req.ReplicaID = 0, -2
		if got := read(t, told(n.ask(req).(*kmsg.FetchResponse))[0].RecordBatches, 0); len(got) != 2 {
			t.Errorf("it reads %v", got)
		}
	})
}
