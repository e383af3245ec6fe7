package replica

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/vfs"
)

// TestAckedSurvivesPowerCut is the promise of log.flush.before.ack: at any moment, what acks=all has answered and what a
// consumer could read is on the disk.
func TestAckedSurvivesPowerCut(t *testing.T) {
	w := newWorld(t, true)
	p := w.lead("t")
	var acked atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 50 {
				a, waiter, err := p.Append(records(3, 1), AppendOptions{Acks: kafka.AcksAll, LeaderEpoch: kafka.NoEpoch})
				if err != nil {
					t.Error(err)
					return
				}
				if waiter != nil {
					<-waiter.Done()
					if waiter.Err() != nil {
						t.Error(waiter.Err())
					}
				}
				for old := acked.Load(); old <= a.Last && !acked.CompareAndSwap(old, a.Last+1); old = acked.Load() {
				}
			}
		})
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		seen := max(p.HighWatermark(), acked.Load())
		after := &world{t: t, id: self, disk: w.disk.CrashClone(rng, 0), gate: &vfs.Gate{}, flush: true, image: metadata.EmptyImage(), dirs: w.dirs}
		after.now.Store(w.now.Load())
		after.start()
		q := after.lead("t")
		if q.LogEnd() < seen || q.HighWatermark() != q.LogEnd() {
			t.Fatalf("%d was acked or visible; after a power cut the log ends at %d with watermark %d", seen, q.LogEnd(), q.HighWatermark())
		}
		after.stop(false)
	}
	wg.Wait()
	if p.HighWatermark() != 600 {
		t.Fatalf("in the end the watermark is %d", p.HighWatermark())
	}
	w.stop(true)
}

// TestRoleChangesUnderLoad moves leadership away and back while producers and consumers are busy: every waiter ends, no
// record that was acked is lost, and every error is one that a client retries.
func TestRoleChangesUnderLoad(t *testing.T) {
	w := newWorld(t, true)
	p := w.lead("t")
	stop := make(chan struct{})
	stopped := func() bool {
		select {
		case <-stop:
			return true
		default:
			return false
		}
	}
	progress := make(chan kafka.Offset) // the last offset of every append that was acked
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for !stopped() {
				a, waiter, err := p.Append(records(1, 1), AppendOptions{Acks: kafka.AcksAll, LeaderEpoch: kafka.NoEpoch})
				if err == nil && waiter != nil {
					<-waiter.Done()
					err = waiter.Err()
				}
				switch {
				case err == nil:
					select {
					case progress <- a.Last:
					case <-stop:
					}
				case !errors.Is(err, kerr.NotLeaderForPartition):
					t.Error(err)
					return
				}
			}
		})
		wg.Go(func() {
			for !stopped() {
				r, err := p.Read(ReadOptions{MaxBytes: 100, AtLeastOne: true, Replica: kafka.ConsumerReplica, CurrentEpoch: kafka.NoEpoch, LastFetchedEpoch: kafka.NoEpoch})
				if r.Region != nil {
					r.Region.Release()
				}
				if err != nil && !errors.Is(err, kerr.NotLeaderForPartition) {
					t.Error(err)
					return
				}
				if waiter := p.AwaitEnd(); waiter != nil {
					<-waiter.Done()
				}
			}
		})
	}
	last := kafka.Offset(-1)
	for epoch := kafka.Epoch(1); epoch < 24; epoch++ {
		leader := self
		if epoch%3 == 0 {
			leader = 2
		}
		w.apply(partitionRecord("t", epoch, leader, []kafka.NodeID{leader}, 3-leader))
		for range 8 * leader % 16 { // none while node 2 leads
			last = max(last, <-progress)
		}
	}
	close(stop)
	wg.Wait()
	if p.HighWatermark() <= last {
		t.Errorf("offset %d was acked, the watermark is %d", last, p.HighWatermark())
	}
	w.stop(true)
}

// TestEpochEndsDuringAppend: an append whose epoch ends while the disk writes is not acked, whatever its acks, and gives
// no record away to waiters.
func TestEpochEndsDuringAppend(t *testing.T) {
	for _, acks := range []kafka.Acks{kafka.AcksLeader, kafka.AcksAll} {
		w := newWorld(t, false)
		p := w.lead("t")
		writing, goOn := make(chan struct{}), make(chan struct{})
		w.fs.SetRules(func(op vfs.Op) error {
			if op.Kind == vfs.OpWrite && strings.HasSuffix(op.Path, ".log") {
				close(writing)
				<-goOn
			}
			return nil
		})
		result := make(chan error)
		go func() {
			_, waiter, err := p.Append(records(1, 1), AppendOptions{Acks: acks, LeaderEpoch: kafka.NoEpoch})
			if waiter != nil {
				t.Error("a waiter for an epoch that is over")
			}
			result <- err
		}()
		<-writing
		w.applyOnly(partitionRecord("t", 1, 2, []kafka.NodeID{2}, self)) // does not wait for the disk
		close(goOn)
		if err := <-result; !errors.Is(err, kerr.NotLeaderForPartition) {
			t.Errorf("acks=%d: %v", acks, err)
		}
		if p.HighWatermark() != 0 {
			t.Errorf("acks=%d: the watermark moved to %d", acks, p.HighWatermark())
		}
		w.settle(p.tp)
		w.stop(true)
	}
}

func TestLookups(t *testing.T) {
	w := newWorld(t, true)
	defer w.stop(true)
	p := w.lead("here")
	w.apply(&metadata.TopicRecord{Name: "there", TopicID: topicID("there")}, partitionRecord("there", 0, 2, []kafka.NodeID{2}))
	check := func(what string, got *Partition, err error, want *Partition, wantErr error) {
		t.Helper()
		if got != want || !errors.Is(err, wantErr) || (err == nil) != (wantErr == nil) {
			t.Errorf("%s: %v, %v; want error %v", what, got, err, wantErr)
		}
	}
	q, err := w.set.Partition(kafka.TopicPartition{Topic: "here"})
	check("a partition here", q, err, p, nil)
	q, err = w.set.ByID(topicID("here"), 0)
	check("the same by id", q, err, p, nil)
	q, err = w.set.Partition(kafka.TopicPartition{Topic: "here", Partition: 1})
	check("no such partition", q, err, nil, kerr.UnknownTopicOrPartition)
	q, err = w.set.ByID(topicID("here"), 1)
	check("no such partition by id", q, err, nil, kerr.UnknownTopicOrPartition)
	q, err = w.set.Partition(kafka.TopicPartition{Topic: "there"})
	check("a partition elsewhere", q, err, nil, kerr.NotLeaderForPartition)
	q, err = w.set.ByID(topicID("there"), 0)
	check("the same by id", q, err, nil, kerr.NotLeaderForPartition)
	q, err = w.set.Partition(kafka.TopicPartition{Topic: "nowhere"})
	check("no such topic", q, err, nil, kerr.UnknownTopicOrPartition)
	q, err = w.set.ByID(topicID("nowhere"), 0)
	check("no such topic id", q, err, nil, kerr.UnknownTopicID)
}

// TestTopicMadeAgain: in one delta a topic is deleted and another of the same name is made. Old handles end, the new one
// is empty.
func TestTopicMadeAgain(t *testing.T) {
	w := newWorld(t, true)
	defer w.stop(true)
	old := w.lead("t")
	_, waiter, err := old.Append(records(5, 1), AppendOptions{Acks: kafka.AcksAll, LeaderEpoch: kafka.NoEpoch})
	w.must(err)
	w.must(old.syncAll())
	again := kafka.TopicID{0: 8}
	r := partitionRecord("t", 0, self, []kafka.NodeID{self})
	r.TopicID = again
	w.apply(&metadata.RemoveTopicRecord{TopicID: topicID("t")}, &metadata.TopicRecord{Name: "t", TopicID: again}, r)
	p, err := w.set.Partition(old.tp)
	w.must(err)
	<-p.Opened()
	if p == old || p.TopicID() != again || p.LogEnd() != 0 {
		t.Fatalf("the new topic is %s with %d records", p.TopicID(), p.LogEnd())
	}
	if _, err := w.set.ByID(topicID("t"), 0); !errors.Is(err, kerr.UnknownTopicID) {
		t.Fatalf("the old id: %v", err)
	}
	if _, _, err := old.Append(records(1, 1), AppendOptions{LeaderEpoch: kafka.NoEpoch}); !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Fatalf("append by the old handle: %v", err)
	}
	if waiter != nil {
		<-waiter.Done()
	}
}

// TestRestartApplies brings all partitions of a whole image up again, in any order of workers, and puts aside the folder
// of a topic that was deleted while the node was down.
func TestRestartApplies(t *testing.T) {
	w := newWorld(t, true)
	names := []string{"a", "b", "c", "d", "e"}
	for i, name := range names {
		p := w.lead(name)
		for range i + 1 {
			_, _, err := p.Append(records(1, 1), AppendOptions{LeaderEpoch: kafka.NoEpoch})
			w.must(err)
		}
		w.must(p.syncAll())
	}
	w.stop(true)
	w.start()
	delta := metadata.NewDelta(w.image)
	w.must(delta.Replay(&metadata.RemoveTopicRecord{TopicID: topicID("c")}))
	image := delta.Image(99, 1)
	w.must(w.set.SetAsideStrays(image))
	w.set.Apply(metadata.Between(metadata.EmptyImage(), image), image)
	for i, name := range names {
		p, err := w.set.Partition(kafka.TopicPartition{Topic: name})
		if name == "c" {
			if !errors.Is(err, kerr.UnknownTopicOrPartition) {
				t.Fatalf("deleted topic: %v", err)
			}
			continue
		}
		w.must(err)
		<-p.Opened()
		w.settle(p.tp)
		if p.LogEnd() != int64(i+1) || p.HighWatermark() != int64(i+1) {
			t.Fatalf("%s ends at %d with watermark %d", name, p.LogEnd(), p.HighWatermark())
		}
	}
	if exists, err := w.disk.Stat("/data/c-0"); err == nil {
		t.Fatalf("the folder of the deleted topic is still %v", exists)
	}
	w.stop(true)
}

// TestWhoIsAskedForIsOpenedFirst: after a start a partition that a client asks for does not wait until all others are open.
func TestWhoIsAskedForIsOpenedFirst(t *testing.T) {
	w := newWorld(t, true)
	for i := range 30 {
		w.lead(fmt.Sprintf("t%d", 10+i))
	}
	w.stop(false)
	w.start()
	begun, goOn := make(chan string, 100), make(chan struct{})
	w.fs.SetRules(func(op vfs.Op) error {
		if op.Kind == vfs.OpOpen && strings.HasSuffix(op.Path, "leader-epoch-checkpoint") {
			begun <- op.Path
			<-goOn
		}
		return nil
	})
	w.set.Apply(metadata.Between(metadata.EmptyImage(), w.image), w.image)
	<-begun
	<-begun // as many as are opened at once
	wanted, err := w.set.Partition(kafka.TopicPartition{Topic: "t39"})
	w.must(err)
	if _, _, err := wanted.Append(records(1, 1), AppendOptions{LeaderEpoch: kafka.NoEpoch}); !errors.Is(err, kerr.NotLeaderForPartition) {
		t.Fatalf("append before the partition is open: %v", err)
	}
	goOn <- struct{}{}
	if next := <-begun; next != "/data/t39-0/leader-epoch-checkpoint" {
		t.Errorf("asked for t39-0, and %s is opened", next)
	}
	close(goOn)
	w.stop(false)
}

// TestTopicMadeOnFullDisk: a partition that could not be made for lack of space is made when there is some.
func TestTopicMadeOnFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, true)
		w.disk.SetCapacity(80 << 20)
		ballast, err := w.disk.Open("/ballast", vfs.Create)
		w.must(err)
		w.must(ballast.Allocate(60 << 20))
		w.must(ballast.Close())
		w.lead("first") // its making lets the store look at the space
		time.Sleep(5 * time.Second)
		p := w.lead("t")
		<-p.Opened()
		if _, _, err := p.Append(records(1, 1), AppendOptions{LeaderEpoch: kafka.NoEpoch}); !errors.Is(err, kerr.KafkaStorageError) {
			t.Fatalf("append to a partition on a full disk: %v", err)
		}
		w.must(w.disk.Remove("/ballast"))
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if _, _, err := p.Append(records(1, 1), AppendOptions{LeaderEpoch: kafka.NoEpoch}); err != nil {
			t.Fatalf("append when there is space again: %v", err)
		}
		w.stop(true)
	})
}

// TestAppendAllocations bounds what one append costs on the heap, log included.
func TestAppendAllocations(t *testing.T) {
	w := newWorld(t, false)
	defer w.stop(false)
	p := w.lead("t")
	b := records(1, 1)
	one := testing.AllocsPerRun(300, func() {
		if _, _, err := p.Append(b, AppendOptions{Acks: kafka.AcksLeader, LeaderEpoch: kafka.NoEpoch}); err != nil {
			t.Fatal(err)
		}
	})
	if one > 6 {
		t.Errorf("an append with acks=1 allocates %v times", one)
	}
	read := testing.AllocsPerRun(300, func() {
		r, err := p.Read(ReadOptions{MaxBytes: 100, AtLeastOne: true, Replica: kafka.ConsumerReplica, CurrentEpoch: kafka.NoEpoch, LastFetchedEpoch: kafka.NoEpoch})
		if err != nil {
			t.Fatal(err)
		}
		r.Region.Release()
	})
	if read > 6 {
		t.Errorf("a read allocates %v times", read)
	}
	t.Logf("append %v, read %v", one, read)
}

// TestDirectoryFailsMeanwhile: who begins to wait when the directory has just failed is not forgotten.
func TestDirectoryFailsMeanwhile(t *testing.T) {
	for _, test := range []struct {
		name string
		op   vfs.OpKind
		file string
		do   func(w *world, p *Partition) (*Waiter, error)
	}{
		{"follower", vfs.OpWrite, ".log", func(_ *world, p *Partition) (*Waiter, error) {
			b := batch.Batch(records(1, 1))
			b.Assign(1, 1)
			_, waiter, err := p.AppendFetched(b, 0, 0, 1)
			return waiter, err
		}},
		{"delete records", vfs.OpSyncData, "moldau.journal", func(_ *world, p *Partition) (*Waiter, error) {
			_, waiter, err := p.DeleteRecords(1)
			return waiter, err
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, true)
			w.apply(&metadata.RegisterBrokerRecord{BrokerID: 2})
			p := w.lead("t")
			_, _, err := p.Append(records(1, 1), AppendOptions{Acks: kafka.AcksLeader, LeaderEpoch: kafka.NoEpoch})
			w.must(err)
			w.must(p.syncAll())
			leader := self
			if test.name == "follower" {
				leader = 2
			}
			w.apply(partitionRecord("t", 1, leader, []kafka.NodeID{leader}, 3-leader))
			at, goOn := make(chan struct{}), make(chan struct{})
			var once sync.Once
			w.fs.SetRules(func(op vfs.Op) error {
				if op.Kind == test.op && strings.Contains(op.Path, test.file) {
					once.Do(func() {
						close(at)
						<-goOn
					})
				}
				return nil
			})
			type outcome struct {
				waiter *Waiter
				err    error
			}
			result := make(chan outcome)
			go func() {
				waiter, err := test.do(w, p)
				result <- outcome{waiter, err}
			}()
			<-at
			p.failed(fmt.Errorf("the disk is gone: %w", kerr.KafkaStorageError))
			close(goOn)
			got := <-result
			if got.err == nil && got.waiter != nil {
				select {
				case <-got.waiter.Done():
					got.err = got.waiter.Err()
				default:
				}
			}
			if !errors.Is(got.err, kerr.KafkaStorageError) {
				t.Errorf("outcome %v, waiter %v", got.err, got.waiter)
			}
			w.stop(false)
		})
	}
}

// TestPlacements: replicas are told of whose directory the metadata do not know, until they do (KIP-858).
func TestPlacements(t *testing.T) {
	w := newWorld(t, true)
	defer w.stop(true)
	p := w.lead("t")
	<-w.set.Placed()
	dir := w.store.Directories()[0].ID()
	for range 2 {
		if got := w.set.Placements(); len(got) != 1 || got[0] != (Placement{p.tp, p.id, dir}) {
			t.Fatalf("placements: %v", got)
		}
	}
	r := partitionRecord("t", 0, self, []kafka.NodeID{self})
	r.PartitionEpoch, r.Directories = 1, []kafka.DirID{dir}
	w.apply(r)
	if got := w.set.Placements(); len(got) != 0 {
		t.Fatalf("the metadata know it, and placements are %v", got)
	}
	// The metadata name a directory that is not here any more. What a replica says then is taken for "it begins anew", so
	// one that has its records keeps silent.
	r.PartitionEpoch, r.Directories = 2, []kafka.DirID{kafka.NewUUID()}
	w.apply(r)
	w.stop(true)
	w.start()
	w.set.Apply(metadata.Between(metadata.EmptyImage(), w.image), w.image)
	w.settle(p.tp)
	if got := w.set.Placements(); len(got) != 0 {
		t.Fatalf("a replica that has its records says that it is in %v", got)
	}
	// One that nobody relies on does say it: it was made on a new disk, and the run ended before the controller heard of it.
	r.PartitionEpoch, r.Leader, r.ISR, r.Replicas = 3, 2, []kafka.NodeID{2}, []kafka.NodeID{2, self}
	r.Directories = []kafka.DirID{kafka.NewUUID(), kafka.NewUUID()}
	w.apply(r)
	w.settle(p.tp)
	if got := w.set.Placements(); len(got) != 1 || got[0] != (Placement{p.tp, p.id, dir}) {
		t.Fatalf("a replica that is out of sync must say where it is: %v", got)
	}
	// Whether it is relied on can change while its role does not.
	r.PartitionEpoch, r.EligibleLeaderReplicas = 4, []kafka.NodeID{self}
	w.apply(r)
	w.settle(p.tp)
	if got := w.set.Placements(); len(got) != 0 {
		t.Fatalf("a replica that is eligible, and has its records, says that it is in %v", got)
	}
	r.PartitionEpoch, r.EligibleLeaderReplicas = 5, nil
	w.apply(r)
	w.settle(p.tp)
	if got := w.set.Placements(); len(got) != 1 {
		t.Fatalf("a replica that is not eligible any more must say where it is: %v", got)
	}
	r.PartitionEpoch, r.Leader, r.ISR, r.Replicas, r.Directories = 6, self, []kafka.NodeID{self}, []kafka.NodeID{self}, []kafka.DirID{dir}
	w.apply(r)
	q := w.lead("u")
	w.apply(&metadata.RemoveTopicRecord{TopicID: q.id})
	w.settle(q.tp)
	if got := w.set.Placements(); len(got) != 0 {
		t.Fatalf("the topic is gone, and placements are %v", got)
	}
}

// TestRoleBeforeOpening: after a start, the role of a partition that is open changes although hundreds of others have yet to be opened.
func TestRoleBeforeOpening(t *testing.T) {
	const many = 300
	w := newWorld(t, true)
	w.lead("a")
	change := []metadata.Record{&metadata.TopicRecord{Name: "many", TopicID: topicID("many")}}
	for i := range int32(many) {
		r := partitionRecord("many", 0, self, []kafka.NodeID{self})
		r.PartitionID = i
		change = append(change, r)
	}
	w.apply(change...)
	w.stop(false)
	w.start()
	defer w.stop(true)
	var changed, looked, ready atomic.Bool
	w.fs.SetRules(func(op vfs.Op) error {
		switch {
		case strings.Contains(op.Path, "/many-100/") && !changed.Swap(true):
			w.applyOnly(&metadata.PartitionChangeRecord{TopicID: topicID("a"), Leader: self})
		case strings.Contains(op.Path, fmt.Sprintf("/many-%d/", many-1)) && !looked.Swap(true):
			p, err := w.set.Partition(kafka.TopicPartition{Topic: "a"})
			w.must(err)
			_, err = p.leading(1)
			ready.Store(err == nil)
		}
		return nil
	})
	w.set.Apply(metadata.Between(metadata.EmptyImage(), w.image), w.image)
	w.settle(kafka.TopicPartition{Topic: "many", Partition: many - 1})
	w.fs.SetRules()
	if !changed.Load() || !looked.Load() || !ready.Load() {
		t.Errorf("role changed: %v; looked when the last was opened: %v, and it was in force: %v", changed.Load(), looked.Load(), ready.Load())
	}
}
