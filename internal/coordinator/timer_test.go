package coordinator

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"moldau/internal/kafka"
)

// fired is what timers of a test have done, in order.
type fired struct {
	mu    sync.Mutex
	names []string
}

func (f *fired) add(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.names = append(f.names, name)
}

func (f *fired) note(name string) func(*Turn) { return func(*Turn) { f.add(name) } }

func (f *fired) want(t *testing.T, names ...string) {
	t.Helper()
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Equal(f.names, names) {
		t.Errorf("fired %v, want %v", f.names, names)
	}
	f.names = nil
}

// TestTimersFireInOrder: by deadline and, among equals, in the order in which they were set, over all shards.
func TestTimersFireInOrder(t *testing.T) {
	inWorld(t, func(w *world) {
		var f fired
		timers := make([]Timer, 30)
		var want []string
		for i := range timers {
			partition, name := int32(i%2), fmt.Sprintf("%d", i)
			w.Must(w.r.Turn(partition, func(_ Machine, turn *Turn) {
				turn.After(&timers[i], time.Duration(1+i%3)*time.Second, f.note(name))
			}))
		}
		for late := range 3 {
			for i := late; i < len(timers); i += 3 {
				want = append(want, fmt.Sprintf("%d", i))
			}
		}
		time.Sleep(999 * time.Millisecond)
		f.want(t)
		time.Sleep(3 * time.Second)
		f.want(t, want...)
	})
}

// TestTimerSetAnewAndCancelled: only the last setting counts, and a timer may set itself.
func TestTimerSetAnewAndCancelled(t *testing.T) {
	inWorld(t, func(w *world) {
		var f fired
		var a, b, c Timer
		n := 0
		var again func(*Turn)
		again = func(turn *Turn) {
			f.add("again")
			if n++; n < 3 {
				turn.After(&c, time.Second, again)
			}
		}
		w.Must(w.r.Turn(0, func(_ Machine, turn *Turn) {
			turn.After(&a, time.Second, f.note("too early"))
			turn.After(&b, time.Second, f.note("cancelled"))
			turn.After(&a, 2*time.Second, f.note("a"))
			turn.Cancel(&b)
			turn.Cancel(&b)
			turn.After(&c, -time.Second, again)
		}))
		f.want(t, "again")
		time.Sleep(1500 * time.Millisecond)
		f.want(t, "again")
		time.Sleep(time.Second)
		f.want(t, "a", "again")
		time.Sleep(time.Hour)
		f.want(t)
	})
}

// TestTimersEndWithTheirShard: what a shard had set does not fire after it is over, and others' timers do.
func TestTimersEndWithTheirShard(t *testing.T) {
	inWorld(t, func(w *world) {
		var f fired
		timers := make([]Timer, 20)
		for i := range timers {
			w.Must(w.r.Turn(int32(i%2), func(_ Machine, turn *Turn) {
				turn.After(&timers[i], time.Duration(20-i)*time.Second, f.note(fmt.Sprint(i%2)))
			}))
		}
		w.Epoch++
		w.Apply(w.partition(0, kafka.NoNode))
		time.Sleep(time.Minute)
		f.want(t, slices.Repeat([]string{"1"}, 10)...)
	})
}

// TestStalledDiskDelaysItsShardsOnly: while a timer's turn of one shard waits for a disk, those of another fire in time; its
// own wait, and come in order once the disk is back.
func TestStalledDiskDelaysItsShardsOnly(t *testing.T) {
	inWorld(t, func(w *world) {
		time.Sleep(5 * time.Second) // nothing of the start is left to write
		w.Gate.Close()
		w.Gate.Stall("/state-0/")
		var f fired
		began := time.Now()
		timers := make([]Timer, 20)
		for i := range timers {
			partition, name := int32(i%2), fmt.Sprintf("%d/%d", i%2, i/2)
			w.Must(w.r.Turn(partition, func(m Machine, turn *Turn) {
				turn.After(&timers[i], time.Duration(1+i/2)*time.Second, func(turn *Turn) {
					if partition == 0 {
						_ = turn.Append(Record{Key: []byte("k"), Value: []byte("v")})
					} else if late := time.Since(began) - time.Duration(1+i/2)*time.Second; late > 2*turnPatience {
						t.Errorf("%s is %v late", name, late)
					}
					f.add(name)
				})
			}))
		}
		time.Sleep(11 * time.Second)
		f.want(t, "1/0", "1/1", "1/2", "1/3", "1/4", "1/5", "1/6", "1/7", "1/8", "1/9")
		w.Gate.Open()
		f.want(t, "0/0", "0/1", "0/2", "0/3", "0/4", "0/5", "0/6", "0/7", "0/8", "0/9")
	})
}
