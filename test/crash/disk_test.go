package crash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"moldau/test/harness"
)

// client is one that tries a record once for each answer, and gives it up after a while.
func client(t *testing.T, n *harness.Node, more ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(n.Addr), kgo.MetadataMinAge(50 * time.Millisecond), kgo.UnknownTopicRetries(-1), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.DisableIdempotentWrite(), kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
	}, more...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// told is what a partition's log has to have.
type told map[int64]string

// tell writes a record and notes where it is, if it was acked.
func (o told) tell(ctx context.Context, c *kgo.Client, topic string, partition int32, value string) error {
	r, err := c.ProduceSync(ctx, &kgo.Record{Topic: topic, Partition: partition, Value: []byte(value)}).First()
	if err == nil {
		o[r.Offset] = value
	}
	return err
}

// eventually tries until it works.
func eventually(ctx context.Context, t *testing.T, what string, try func() error) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; pause(ctx, 20*time.Millisecond) {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// TestDiskFillsAgainAndAgain: a disk of 64 MiB is filled and freed in turns by another program and by our own records. Full
// it refuses records and serves those it has; with space again it takes records without a restart (Redpanda #18443).
func TestDiskFillsAgainAndAgain(t *testing.T) {
	n := harness.Prepare(t, "log.segment.bytes=1048576", "log.retention.check.interval.ms=200", "log.segment.delete.delay.ms=0",
		"offsets.topic.num.partitions=1")
	harness.NewDisk(t, n.Dir, 64)
	n.Run(t)
	ctx := t.Context()
	c := client(t, n, kgo.RecordRetries(0))
	admin := kadm.NewClient(c)
	if _, err := admin.CreateTopic(ctx, 2, 1, nil, "full"); err != nil {
		t.Fatal(err)
	}
	kept, passing := told{}, told{} // partition 0 keeps its records
	ballast := filepath.Join(n.Dir, "ballast")
	filled := rounds(4, 20, 20)
	for round := range filled {
		eventually(ctx, t, fmt.Sprintf("round %d: space is there, a record", round), func() error {
			return kept.tell(ctx, c, "full", 0, fmt.Sprint("kept ", round))
		})
		ours := round%2 == 0
		if ours {
			for i := 0; i < 1000; i++ {
				if err := passing.tell(ctx, c, "full", 1, strings.Repeat("x", 500_000)); err != nil {
					break
				}
			}
		} else {
			harness.FillUp(t, ballast)
		}
		eventually(ctx, t, fmt.Sprintf("round %d: the disk is full, a record", round), func() error {
			err := kept.tell(ctx, c, "full", 0, fmt.Sprint("more ", round))
			switch {
			case errors.Is(err, kerr.KafkaStorageError):
				return nil
			case err == nil:
				err = errors.New("was taken")
			}
			return err
		})
		compare(ctx, t, n, "full", 0, kept)
		if ours {
			offsets := kadm.Offsets{}
			offsets.Add(kadm.Offset{Topic: "full", Partition: 1, At: -1})
			eventually(ctx, t, fmt.Sprintf("round %d: records are deleted from a full disk", round), func() error {
				deleted, err := admin.DeleteRecords(ctx, offsets)
				if err == nil {
					err = deleted.Error()
				}
				return err
			})
			clear(passing)
		} else if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
	}
	eventually(ctx, t, "space is there at the end, a record", func() error { return kept.tell(ctx, c, "full", 0, "last") })
	if full := strings.Count(n.Log(), "full; writes are refused"); full < filled {
		t.Errorf("the log tells of %d full disks, there were %d", full, filled)
	}
	n.Stop(t)
	n.Run(t)
	compare(ctx, t, n, "full", 0, kept)
	n.Stop(t)
}

// compare reads a partition: what was told has to be there.
func compare(ctx context.Context, t *testing.T, n *harness.Node, topic string, partition int32, want told) {
	t.Helper()
	reader := client(t, n, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().AtStart()}}))
	defer reader.Close()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for left := len(want); left > 0; {
		fetches := reader.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("%s-%d: %d of %d acked records are not there", topic, partition, left, len(want))
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if value, acked := want[r.Offset]; acked {
				if left--; value != string(r.Value) {
					t.Fatalf("%s-%d: at %d lies %.20q, acked was %.20q", topic, partition, r.Offset, r.Value, value)
				}
			}
		})
	}
}

// twoDisks starts a node whose second log directory is a disk of its own, and makes a topic with partitions on both.
func twoDisks(t *testing.T, extra ...string) (n *harness.Node, second *harness.Disk, path string, on map[string][]int32) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "second")
	n = harness.Prepare(t, extra...)
	text, err := os.ReadFile(n.Properties)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(n.Properties, fmt.Appendf(text, "log.dirs=%s,%s\n", n.Dir, path), 0o644); err != nil {
		t.Fatal(err)
	}
	second = harness.NewDisk(t, path, 128)
	n.Run(t)
	c := client(t, n)
	if _, err := kadm.NewClient(c).CreateTopic(t.Context(), 8, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	for p := range int32(8) {
		if err := (told{}).tell(t.Context(), c, "t", p, "first"); err != nil {
			t.Fatal(err)
		}
	}
	on = lies(t, n, "t")
	if len(on[n.Dir]) != 4 || len(on[path]) != 4 {
		t.Fatalf("partitions lie in %v", on)
	}
	return n, second, path, on
}

// lies tells which partitions of a topic lie in which directory.
func lies(t *testing.T, n *harness.Node, topic string) map[string][]int32 {
	t.Helper()
	dirs, err := kadm.NewClient(client(t, n)).DescribeAllLogDirs(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	on := map[string][]int32{}
	for _, d := range dirs.Sorted() {
		for p := range d.Topics[topic] {
			on[d.Dir] = append(on[d.Dir], p)
		}
	}
	return on
}

// TestDyingDisk: a disk that answers EIO ends its own directory alone. Metrics, log and DescribeLogDirs tell; the other
// directory, and the metadata in it, go on.
func TestDyingDisk(t *testing.T) {
	n, second, path, on := twoDisks(t)
	ctx := t.Context()
	c, brief := client(t, n), client(t, n, kgo.RecordDeliveryTimeout(2*time.Second))
	second.CutPower(t)
	kept := map[int32]told{}
	for _, p := range on[path] {
		if err := (told{}).tell(ctx, brief, "t", p, "lost"); err == nil {
			t.Errorf("a record was acked by a disk that answers EIO")
		}
	}
	for _, p := range on[n.Dir] {
		kept[p] = told{}
		if err := kept[p].tell(ctx, c, "t", p, "second"); err != nil {
			t.Errorf("the other directory: %v", err)
		}
		compare(ctx, t, n, "t", p, kept[p])
	}
	eventually(ctx, t, "the log tells of it", func() error { // a pipe is between the node and what Log returns
		if !strings.Contains(n.Log(), "log directory failed and is offline until the node is restarted") || !strings.Contains(n.Log(), path) {
			return errors.New("it does not")
		}
		return nil
	})
	if _, body := n.Get(t, "/metrics"); !strings.Contains(body, "\nmoldau_log_directories_offline 1\n") {
		t.Error("metrics do not tell of it")
	}
	for page, want := range map[string]int{"/livez": 200, "/readyz": 200} {
		if code, body := n.Get(t, page); code != want {
			t.Errorf("%s: %d %s", page, code, body)
		}
	}
	admin := kadm.NewClient(c)
	dirs, err := admin.DescribeAllLogDirs(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, broker := range dirs {
		if err := broker[path].Err; !errors.Is(err, kerr.KafkaStorageError) {
			t.Errorf("DescribeLogDirs says of the failed directory: %v", err)
		}
		if d := broker[n.Dir]; d.Err != nil || len(d.Topics["t"]) != 4 {
			t.Errorf("DescribeLogDirs says of the other one: %v, %d partitions", d.Err, len(d.Topics["t"]))
		}
	}
	if _, err := admin.CreateTopic(ctx, 2, 1, nil, "afterwards"); err != nil {
		t.Fatal(err)
	}
	eventually(ctx, t, "a topic that is made afterwards takes records", func() error {
		return (told{}).tell(ctx, c, "afterwards", 1, "x")
	})
	n.Kill(t)
}

// TestStalledDisk: a disk that answers nothing for a while holds up what lies on it and nothing else: no other directory,
// not the metadata, not partitions that are made meanwhile elsewhere.
func TestStalledDisk(t *testing.T) {
	n, second, path, on := twoDisks(t)
	ctx := t.Context()
	stalled, c := client(t, n), client(t, n, kgo.RecordDeliveryTimeout(time.Minute))
	second.Freeze(t)
	held := make(chan error, len(on[path]))
	for _, p := range on[path] {
		stalled.Produce(ctx, &kgo.Record{Topic: "t", Partition: p, Value: []byte("held")}, func(_ *kgo.Record, err error) { held <- err })
	}
	for i := range 5 {
		for _, p := range on[n.Dir] {
			if err := (told{}).tell(ctx, c, "t", p, fmt.Sprint("meanwhile ", i)); err != nil {
				t.Fatalf("the other directory: %v", err)
			}
		}
	}
	if _, err := kadm.NewClient(c).CreateTopic(ctx, 20, 1, nil, "meanwhile"); err != nil {
		t.Fatalf("the metadata: %v", err)
	}
	written := make(chan int32, 20)
	for p := range int32(20) {
		c.Produce(ctx, &kgo.Record{Topic: "meanwhile", Partition: p, Value: []byte("x")}, func(r *kgo.Record, err error) {
			if err == nil {
				written <- r.Partition
			}
		})
	}
	late := time.NewTimer(time.Minute)
	defer late.Stop()
	for i := range 10 {
		select {
		case <-written:
		case <-late.C:
			t.Fatalf("of the partitions that are made in the other directory meanwhile %d take records, want 10", i)
		}
	}
	if code, _ := n.Get(t, "/livez"); code != 200 {
		t.Errorf("/livez: %d", code)
	}
	select {
	case err := <-held:
		t.Fatalf("a stalled disk answers: %v", err)
	default:
	}
	second.Thaw(t)
	for range on[path] {
		if err := <-held; err != nil {
			t.Errorf("afterwards: %v", err)
		}
	}
	n.Stop(t)
}
