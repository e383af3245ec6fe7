package controller

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

// nullLog takes everything.
type nullLog struct{ next int64 }

func (l *nullLog) Propose(_ int32, values [][]byte) (int64, <-chan error, error) {
	l.next += int64(len(values))
	return l.next - 1, make(chan error), nil
}

// largeCluster is a loop that leads three brokers and partitions in topics of 100, with three replicas each.
func largeCluster(b *testing.B, partitions int) *loop {
	d := metadata.NewDelta(metadata.EmptyImage())
	replay := func(r metadata.Record) {
		if err := d.Replay(r); err != nil {
			b.Fatal(err)
		}
	}
	for _, r := range bootstrap(Config{InitialMetadataVersion: metadata.MaxMetadataVersion}) {
		replay(r)
	}
	for id := range int32(3) {
		replay(&metadata.RegisterBrokerRecord{BrokerID: id, BrokerEpoch: int64(id), LogDirs: []kafka.DirID{testID(int(id) + 1)}})
	}
	for n := range partitions / 100 {
		id := kafka.NewUUID()
		replay(&metadata.TopicRecord{Name: id.String(), TopicID: id})
		for i := range int32(100) {
			first := (int32(n)*100 + i) % 3
			replicas := []kafka.NodeID{first, (first + 1) % 3, (first + 2) % 3}
			replay(&metadata.PartitionRecord{
				TopicID: id, PartitionID: i, Replicas: replicas, ISR: replicas, Leader: first,
				Directories: []kafka.DirID{testID(int(replicas[0]) + 1), testID(int(replicas[1]) + 1), testID(int(replicas[2]) + 1)},
			})
		}
	}
	image := d.Image(1_000_000, 1)
	l := newLoop(New(Options{NodeID: 9, ClusterID: "test", Log: &nullLog{next: image.Offset + 1}, Features: testFeatures()}))
	l.published, l.working, l.leading, l.epoch, l.nextOffset = image, image, true, 1, image.Offset+1
	return l
}

// A stopping broker of 30,000 partitions, of which it leads 10,000 and follows the rest.
func BenchmarkControlledShutdownOf10000Leaders(b *testing.B) {
	l := largeCluster(b, 30_000)
	image := l.working
	q := &kmsg.BrokerHeartbeatRequest{Version: 1, BrokerID: 1, BrokerEpoch: 1, CurrentMetadataOffset: 1 << 40, WantShutdown: true}
	b.ReportAllocs()
	for b.Loop() {
		l.working, l.proposals = image, nil
		result, err := decide(l.state(), Request{Body: q})
		if err != nil {
			b.Fatal(err)
		}
		if len(result.Records) != 30_001 {
			b.Fatalf("%d records", len(result.Records))
		}
		if err := l.propose(result.Records, false); err != nil {
			b.Fatal(err)
		}
	}
}

// While a broker waits to stop it asks often.
func BenchmarkHeartbeatWhileShuttingDown(b *testing.B) {
	l := largeCluster(b, 100_000)
	q := &kmsg.BrokerHeartbeatRequest{Version: 1, BrokerID: 1, BrokerEpoch: 1, CurrentMetadataOffset: 1 << 40, WantShutdown: true}
	result, err := decide(l.state(), Request{Body: q})
	if err != nil {
		b.Fatal(err)
	}
	if err := l.propose(result.Records, false); err != nil {
		b.Fatal(err)
	}
	l.sessions.note(result.Contact, l.nextOffset-1)
	l.sessions.touch(0, 1)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := decide(l.state(), Request{Body: q}); err != nil {
			b.Fatal(err)
		}
	}
}

// A broker comes into service: every partition without a leader is looked at.
func BenchmarkUnfenceAmong100000Partitions(b *testing.B) {
	l := largeCluster(b, 100_000)
	d := metadata.NewDelta(l.working)
	if err := d.Replay(&metadata.BrokerRegistrationChangeRecord{BrokerID: 2, BrokerEpoch: 2, Fenced: metadata.Fence}); err != nil {
		b.Fatal(err)
	}
	l.working = d.Image(l.working.Offset+1, 1)
	q := &kmsg.BrokerHeartbeatRequest{Version: 1, BrokerID: 2, BrokerEpoch: 2, CurrentMetadataOffset: 1 << 40}
	b.ReportAllocs()
	for b.Loop() {
		result, err := decide(l.state(), Request{Body: q})
		if err != nil || len(result.Records) == 0 {
			b.Fatal(result, err)
		}
	}
}
