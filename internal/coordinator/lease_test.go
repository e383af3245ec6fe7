package coordinator

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/replica"
)

const other kafka.NodeID = 2

// shared has partition 0 led by a node, with a second replica in sync or without.
func (w *world) shared(leader kafka.NodeID, isr ...kafka.NodeID) {
	w.Epoch++
	p := w.partition(0, leader)
	p.Replicas, p.ISR, p.Directories = []kafka.NodeID{self, other}, isr, make([]kafka.DirID, 2)
	w.Apply(&metadata.RegisterBrokerRecord{BrokerID: other, BrokerEpoch: 1}, p)
	synctest.Wait()
}

// follow has the other replica fetch all there is, and say so.
func (w *world) follow() {
	w.T.Helper()
	p, err := w.Set.Partition(kafka.TopicPartition{Topic: topic})
	w.Must(err)
	_, err = p.Read(replica.ReadOptions{
		From: p.LogEnd(), MaxBytes: 1, Replica: other, ReplicaEpoch: 1, CurrentEpoch: w.Epoch, LastFetchedEpoch: kafka.NoEpoch,
	})
	w.Must(err)
	synctest.Wait()
}

func (w *world) end() kafka.Offset {
	w.T.Helper()
	p, err := w.Set.Partition(kafka.TopicPartition{Topic: topic})
	w.Must(err)
	return p.LogEnd()
}

// TestDeposedUnawares: a node that was paused, or is cut off, for so long that another may have been elected tells nobody what it
// knows before its followers have shown that they still follow.
func TestDeposedUnawares(t *testing.T) {
	inWorld(t, func(w *world) {
		w.shared(self, self, other)
		put := w.put(0, "a", "1")
		w.follow()
		w.want(put, "put", nil)
		time.Sleep(lease)
		w.want(w.read(0), "a=1", nil)

		time.Sleep(time.Millisecond)
		first, second := w.read(0), w.read(0)
		synctest.Wait()
		if ready(first) || ready(second) {
			t.Fatal("an answer left that nobody has confirmed")
		}
		if w.end() != 2 {
			t.Fatalf("the log ends at %d: want one mark", w.end())
		}
		w.follow()
		w.want(first, "a=1", nil)
		w.want(second, "a=1", nil)
		w.want(w.read(0), "a=1", nil)

		time.Sleep(lease + time.Millisecond) // meanwhile the other is elected, and commits something else
		stale := w.read(0)
		synctest.Wait()
		if ready(stale) {
			t.Fatal("an answer left from a leader that was deposed")
		}
		w.shared(other, other)
		w.want(stale, "", kerr.NotCoordinator)
	})
}

// TestNobodyToAsk: where nobody else can be elected the coordinator believes what it knows.
func TestNobodyToAsk(t *testing.T) {
	inWorld(t, func(w *world) {
		w.shared(self, self)
		time.Sleep(lease + time.Millisecond)
		w.want(w.read(0), "", nil)
		if w.end() != 0 {
			t.Errorf("the log ends at %d, and nothing was written", w.end())
		}
	})
}

// TestMarkAfterLoad: what a new leader has read counts when its followers have confirmed that it leads.
func TestMarkAfterLoad(t *testing.T) {
	inWorld(t, func(w *world) {
		w.shared(self, self, other)
		read := w.read(0)
		synctest.Wait()
		if ready(read) {
			t.Fatal("an answer left that nobody has confirmed")
		}
		w.follow()
		w.want(read, "", nil)
	})
}
