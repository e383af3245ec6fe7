package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/replica"
)

// TestAnswersWaitForTheDisk: neither a write's answer nor that of a read after it leaves before the record is durable,
// and a read of another partition does not wait.
func TestAnswersWaitForTheDisk(t *testing.T) {
	inWorld(t, func(w *world) {
		w.Gate.Close()
		put, read := w.put(0, "a", "1"), w.read(0)
		synctest.Wait()
		if ready(put) || ready(read) {
			t.Error("an answer left before its record was synced")
		}
		w.want(w.read(1), "", nil)
		w.Gate.Open()
		w.want(put, "put", nil)
		w.want(read, "a=1", nil)
	})
}

// TestStateSurvives: what was answered is there after a restart and after power cuts; whatever else is there, was written.
func TestStateSurvives(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inWorld(t, func(w *world) {
				for i := range 10 {
					w.want(w.put(0, fmt.Sprint("k", i%3), fmt.Sprint(i)), "put", nil)
				}
				w.Restart()
				w.want(w.read(0), "k0=9 k1=7 k2=8", nil)
				w.Gate.Close()
				for i := range 3 {
					w.put(0, "late", fmt.Sprint(i))
				}
				w.Crash(seed, 0.5)
				read := w.read(0)
				synctest.Wait()
				got, err := read.Answer()
				if late, some := strings.CutPrefix(got, "k0=9 k1=7 k2=8"); err != nil || !some || late != "" && !slices.Contains([]string{" late=0", " late=1", " late=2"}, late) {
					t.Errorf("after the power cut: %q, %v", got, err)
				}
			})
		})
	}
}

// TestEpochEnds: a shard ends with its leader epoch, and what waits there is answered.
func TestEpochEnds(t *testing.T) {
	inWorld(t, func(w *world) {
		w.want(w.put(0, "a", "1"), "put", nil)
		var old *table
		parked := NewPromise[string]()
		w.Must(w.r.Turn(0, func(m Machine, _ *Turn) {
			old = m.(*table)
			old.parked = append(old.parked, parked)
		}))
		w.Gate.Close()
		unsynced := w.put(0, "b", "2")
		w.Epoch++
		w.Apply(w.partition(0, kafka.NoNode))
		w.want(w.read(0), "", kerr.NotCoordinator)
		w.want(unsynced, "", kerr.NotCoordinator)
		w.want(parked, "unloaded", nil)
		if !old.unloaded {
			t.Error("the machine was not told")
		}
		w.Gate.Open()
		w.Epoch++
		w.Apply(w.partition(0, self))
		synctest.Wait()
		w.want(w.read(0), "a=1 b=2", nil)
		if got := w.r.Partitions(); !slices.Equal(got, []int32{0, 1}) {
			t.Errorf("partitions %v", got)
		}
		w.Apply(&metadata.RemoveTopicRecord{TopicID: kafka.TopicID{7}})
		w.want(w.read(1), "", kerr.NotCoordinator)
	})
}

// TestOldEpochAppendsNothing: a turn that is under way while the leader epoch ends leaves nothing behind that counts.
func TestOldEpochAppendsNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		p := w.ask(0, func(m *table, t *Turn) (string, error) {
			w.Epoch++
			delta := metadata.NewDelta(w.Image())
			w.Must(delta.Replay(w.partition(0, self)))
			w.SetImage(delta.Image(w.Image().Offset+1, 1))
			w.Set.Apply(delta, w.Image())
			err := t.Append(Record{Key: []byte("a"), Value: []byte("1")})
			if len(m.values) > 0 {
				w.T.Error("replayed what was not appended")
			}
			w.r.Apply(delta, w.Image())
			return "", Fault(err)
		})
		w.want(p, "", kerr.NotCoordinator)
		w.want(w.read(0), "", nil) // of the new epoch's shard
	})
}

// TestWhileLoading: until the log has been read there are no turns, and then one Loaded.
func TestWhileLoading(t *testing.T) {
	inWorld(t, func(w *world) {
		w.r.slots <- struct{}{}
		w.r.slots <- struct{}{} // nobody may read
		w.Epoch++
		w.Apply(w.partition(0, self))
		w.want(w.read(0), "", kerr.CoordinatorLoadInProgress)
		ctx, cancel := context.WithTimeout(w.T.Context(), time.Second)
		defer cancel()
		before := time.Now()
		w.r.Loaded(ctx, 0)
		if waited := time.Since(before); waited != time.Second {
			t.Errorf("waited %v", waited)
		}
		<-w.r.slots
		<-w.r.slots
		w.r.Loaded(w.T.Context(), 0)
		w.want(w.ask(0, func(m *table, _ *Turn) (string, error) { return fmt.Sprint(m.loads), nil }), "1", nil)
		w.r.Loaded(w.T.Context(), 99) // of no shard: at once
	})
}

// TestDroppedWhileLoading: a shard whose epoch ends before it is loaded is told so once, and has no turn.
func TestDroppedWhileLoading(t *testing.T) {
	inWorld(t, func(w *world) {
		var made []*table
		w.r.o.Machine = func(int32) Machine {
			made = append(made, &table{values: map[string]string{}})
			return made[len(made)-1]
		}
		w.r.slots <- struct{}{}
		w.r.slots <- struct{}{}
		for range 2 {
			w.Epoch++
			w.Apply(w.partition(0, self))
			synctest.Wait()
		}
		<-w.r.slots
		<-w.r.slots
		synctest.Wait()
		w.want(w.read(0), "", nil)
		if first, second := made[0], made[1]; first.loads != 0 || !first.unloaded || second.loads != 1 || second.unloaded {
			t.Errorf("first %+v, second %+v", first, second)
		}
	})
}

// TestBatches: records of one turn become as many batches as the topic's limit asks for, in every codec, and one record
// that does not fit is refused.
func TestBatches(t *testing.T) {
	for codec := batch.None; codec <= batch.Zstd; codec++ {
		t.Run(codec.String(), func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.Log.MaxMessageBytes, w.codec = 1000, codec
				w.Restart()
				var records []Record
				for i := range 50 {
					records = append(records, Record{Key: fmt.Appendf(nil, "k%02d", i), Value: []byte(strings.Repeat("v", 50))})
				}
				w.want(w.ask(0, func(m *table, t *Turn) (string, error) { return "", t.Append(records...) }), "", nil)
				w.want(w.put(0, "big", strings.Repeat("x", 1000)), "", kerr.MessageTooLarge)
				w.want(w.ask(0, func(m *table, t *Turn) (string, error) { return "", t.Append() }), "", nil)
				count := func(m *table, _ *Turn) (string, error) { return fmt.Sprint(len(m.values)), nil }
				w.want(w.ask(0, count), "50", nil)
				w.Restart()
				w.want(w.ask(0, count), "50", nil)
			})
		})
	}
}

// TestTransactions: records of a transaction count from the marker that commits it, and never without one.
func TestTransactions(t *testing.T) {
	inWorld(t, func(w *world) {
		write := func(producer int64, key string) {
			b := batch.NewBuilder(batch.BuildOptions{Producer: &batch.Producer{ID: producer}, Transactional: true})
			b.Add(batch.Record{Key: []byte(key), Value: []byte("1"), Timestamp: 1})
			w.append(b.Build())
		}
		end := func(producer int64, kind batch.ControlType) {
			b := batch.NewBuilder(batch.BuildOptions{Producer: &batch.Producer{ID: producer, BaseSequence: -1}, Transactional: true, Control: true})
			marker := batch.EndTxnMarker{}
			b.Add(batch.Record{Key: kind.Key(), Value: marker.AppendTo(nil), Timestamp: 1})
			w.append(b.Build())
		}
		write(1, "committed")
		write(2, "aborted")
		write(3, "open")
		end(1, batch.ControlCommit)
		end(2, batch.ControlAbort)
		w.Restart()
		w.want(w.read(0), "committed=1", nil)
		if !strings.Contains(w.log.String(), "has no end") {
			t.Errorf("nothing was said of the open transaction:\n%s", &w.log)
		}
	})
}

// append writes to partition 0 past the runtime.
func (w *world) append(b []byte) {
	p, err := w.Set.Partition(kafka.TopicPartition{Topic: topic})
	w.Must(err)
	_, waiter, err := p.Append(b, replica.AppendOptions{Acks: kafka.AcksAll, LeaderEpoch: kafka.NoEpoch})
	w.Must(err)
	if waiter != nil {
		<-waiter.Done()
	}
}

// TestStrangeRecords: a record that the machine does not understand is left out, and the rest is loaded.
func TestStrangeRecords(t *testing.T) {
	inWorld(t, func(w *world) {
		w.want(w.put(0, "a", "1"), "put", nil)
		w.want(w.put(0, "strange", "1"), "put", nil)
		w.want(w.put(0, "b", "2"), "put", nil)
		w.Restart()
		w.want(w.read(0), "a=1 b=2", nil)
		if !strings.Contains(w.log.String(), errStrange.Error()) {
			t.Errorf("nothing was said of it:\n%s", &w.log)
		}
	})
}

// TestLater: every machine that is loaded gets a turn, off the caller's goroutine.
func TestLater(t *testing.T) {
	inWorld(t, func(w *world) {
		w.r.Later(func(m Machine, _ *Turn) { m.(*table).values["seen"] = "1" })
		synctest.Wait()
		for partition := range int32(2) {
			w.want(w.read(partition), "seen=1", nil)
		}
	})
}

// TestFault: an error of the log becomes one that tells a client what to do.
func TestFault(t *testing.T) {
	for err, want := range map[error]error{
		kerr.NotLeaderForPartition:   kerr.NotCoordinator,
		kerr.KafkaStorageError:       kerr.NotCoordinator,
		kerr.UnknownTopicOrPartition: kerr.CoordinatorNotAvailable,
		kerr.NotEnoughReplicas:       kerr.CoordinatorNotAvailable,
		context.DeadlineExceeded:     kerr.CoordinatorNotAvailable,
		kerr.MessageTooLarge:         kerr.UnknownServerError,
		kerr.IllegalGeneration:       kerr.IllegalGeneration,
	} {
		if got := Fault(fmt.Errorf("append: %w", err)); !errors.Is(got, want) {
			t.Errorf("%v becomes %v, want %v", err, got, want)
		}
	}
}
