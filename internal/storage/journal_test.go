package storage

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"moldau/internal/kafka"
	"moldau/internal/planted"
	"moldau/internal/vfs"
)

func tp(topic string, partition int32) kafka.TopicPartition {
	return kafka.TopicPartition{Topic: topic, Partition: partition}
}

func id(n byte) kafka.TopicID { return kafka.TopicID{0: 9, 15: n} }

func put(topic string, n byte, recovery, watermark, start int64) change {
	return change{tp: tp(topic, 0), id: id(n), offsets: offsets{recovery, watermark, start}}
}

func gone(topic string, n byte) change { return change{tp: tp(topic, 0), id: id(n), gone: true} }

// journalState is the state without the numbers, which are nobody's business.
type journalState struct {
	partitions map[kafka.TopicPartition]string
	epoch      int64
	written    [3]uint64
}

func stateOf(j *journal) journalState {
	s := journalState{partitions: map[kafka.TopicPartition]string{}, epoch: j.epoch}
	for tp, e := range j.state {
		s.partitions[tp] = fmt.Sprintf("%s %+v", e.id, e.offsets)
	}
	for i, w := range j.written {
		s.written[i] = w[0]
	}
	return s
}

func (s journalState) equal(o journalState) bool {
	return s.epoch == o.epoch && s.written == o.written && maps.Equal(s.partitions, o.partitions)
}

// journalScript is a journal's life, one durable step after the other.
func journalScript() []func(j *journal) error {
	write := func(changes ...change) func(j *journal) error {
		return func(j *journal) error { return j.write(changes) }
	}
	script := []func(j *journal) error{
		write(put("a", 1, 10, 9, 0)),
		write(put("a", 1, 20, 20, 5), put("b", 2, 0, 0, 0)),
		func(j *journal) error { return j.setEpoch(7) },
		write(gone("a", 1), put("a", 3, 1, 1, 0)), // deleted and made again
		func(j *journal) error { return j.wrote(1, []byte("0\n0\n")) },
		write(gone("a", 1)), // late news of the older topic of this name
		write(gone("b", 2)),
		func(j *journal) error { j.mu.Lock(); defer j.mu.Unlock(); return j.rewriteLocked() },
		write(put("b", 4, 1<<40, 1<<40, 3)),
		func(j *journal) error { return j.setEpoch(8) },
	}
	return script
}

// states returns what the journal should hold after each number of steps.
func journalStates(t *testing.T) []journalState {
	fs := vfs.NewMem()
	must(t, fs.MkdirAll("/d"))
	j, found, err := openJournal(fs, "/d")
	must(t, err)
	if found {
		t.Fatal("found a journal in an empty folder")
	}
	states := []journalState{stateOf(j)}
	for _, step := range journalScript() {
		must(t, step(j))
		states = append(states, stateOf(j))
	}
	return states
}

func TestJournalRemembers(t *testing.T) {
	states := journalStates(t)
	last := states[len(states)-1]
	want := map[kafka.TopicPartition]string{
		tp("a", 0): fmt.Sprintf("%s %+v", id(3), offsets{1, 1, 0}),
		tp("b", 0): fmt.Sprintf("%s %+v", id(4), offsets{1 << 40, 1 << 40, 3}),
	}
	if !maps.Equal(last.partitions, want) || last.epoch != 8 || last.written[1] != fingerprint([]byte("0\n0\n")) {
		t.Fatalf("state after the script: %+v", last)
	}
	// The state that is read is the state that was written, after every step.
	fs := vfs.NewMem()
	must(t, fs.MkdirAll("/d"))
	for i, step := range journalScript() {
		j, _, err := openJournal(fs, "/d")
		must(t, err)
		if !stateOf(j).equal(states[i]) {
			t.Fatalf("after %d steps read %+v, wrote %+v", i, stateOf(j), states[i])
		}
		must(t, step(j))
		must(t, j.close())
	}
}

// TestJournalCrashEverywhere cuts the power or kills the process at every disk operation: what was acknowledged is there,
// and nothing that was never asked for.
func TestJournalCrashEverywhere(t *testing.T) {
	states, err := journalCrashes(t, planted.None)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d crash states", states)
}

// journalCrashes opens what crashes leave of a journal that was written to a disk with a bug.
func journalCrashes(t *testing.T, bug planted.Bug) (tried int, err error) {
	states := journalStates(t)
	for crashAt := int64(0); ; crashAt++ {
		mem := vfs.NewMem()
		must(t, mem.MkdirAll("/d"))
		must(t, mem.SyncDir("/"))
		fs := vfs.NewInject(mem, vfs.FromIndex(crashAt, syscall.EIO))
		acked := 0
		j, _, err := openJournal(bug(fs), "/d")
		if err == nil {
			for _, step := range journalScript() {
				if err = step(j); err != nil {
					break
				}
				acked++
			}
		}
		rng := rand.New(rand.NewPCG(uint64(crashAt), 1))
		for how, disk := range mem.Survivors(rng, 40) {
			tried++
			j, _, err := openJournal(disk, "/d")
			if err != nil {
				return tried, fmt.Errorf("crash at operation %d, %s: %w", crashAt, how, err)
			}
			got := stateOf(j)
			// The step under way may have taken effect or not.
			if !slices.ContainsFunc(states[acked:min(acked+2, len(states))], got.equal) {
				return tried, fmt.Errorf("crash at operation %d, %s: %d steps were acknowledged, read %+v", crashAt, how, acked, got)
			}
			if err := j.write([]change{put("z", 9, 1, 1, 1)}); err != nil {
				return tried, fmt.Errorf("crash at operation %d, %s: write afterwards: %w", crashAt, how, err)
			}
			must(t, j.close())
			j, _, err = openJournal(disk, "/d")
			must(t, err)
			if j.recall(tp("z", 0), id(9)) != (offsets{1, 1, 1}) {
				return tried, fmt.Errorf("crash at operation %d, %s: a second start forgot what the first wrote", crashAt, how)
			}
			must(t, j.close())
		}
		if acked == len(journalScript()) {
			return tried, nil
		}
	}
}

// TestJournalErrorEverywhere lets every disk operation fail once. The caller is told, and what others were told stays.
func TestJournalErrorEverywhere(t *testing.T) {
	for failAt := int64(0); ; failAt++ {
		mem := vfs.NewMem()
		must(t, mem.MkdirAll("/d"))
		fs := vfs.NewInject(mem, vfs.OnIndex(failAt, syscall.ENOSPC))
		j, _, err := openJournal(fs, "/d")
		if err != nil {
			continue
		}
		failures, acked := 0, int64(0)
		for i := range int64(12) {
			if err := j.write([]change{put("a", 1, i, i, i)}); err != nil {
				failures++
			} else {
				acked = i
			}
			if i == 6 {
				j.mu.Lock()
				if j.rewriteLocked() != nil {
					failures++
				}
				j.mu.Unlock()
			}
		}
		_ = j.close()
		j, _, err = openJournal(mem, "/d")
		must(t, err)
		if got := j.recall(tp("a", 0), id(1)); got.recoveryPoint < acked {
			t.Fatalf("operation %d failed, %d calls told so; afterwards the journal says %+v", failAt, failures, got)
		}
		if failures > 1 {
			t.Fatalf("operation %d failed once but %d calls did", failAt, failures)
		}
		if fs.Count() <= failAt {
			return
		}
	}
}

// TestJournalDamage garbles the file: what comes before the damage is kept, and the file can be used.
func TestJournalDamage(t *testing.T) { must(t, journalDamage(t, planted.None)) }

// journalDamage cuts the journal at each byte, and flips bits there: both have to come to the same.
func journalDamage(t *testing.T, bug planted.Bug) error {
	mem := vfs.NewMem()
	must(t, mem.MkdirAll("/d"))
	j, _, err := openJournal(mem, "/d")
	must(t, err)
	for _, step := range journalScript() {
		must(t, step(j))
	}
	must(t, j.close())
	content, err := vfs.ReadFile(mem, j.path)
	must(t, err)
	for at := range content {
		var cut journalState
		for i, damaged := range [][]byte{content[:at], flip(content, at)} {
			must(t, vfs.WriteFileAtomic(mem, j.path, damaged))
			j, _, err := openJournal(bug(mem), "/d")
			if err != nil {
				return fmt.Errorf("damage at byte %d: %w", at, err)
			}
			if got := stateOf(j); i == 0 {
				cut = got
			} else if !got.equal(cut) {
				return fmt.Errorf("bits flipped in byte %d: read %+v, and if it ends there %+v", at, got, cut)
			}
			must(t, j.write([]change{put("new", 5, 1, 2, 1)}))
			must(t, j.close())
			j, found, err := openJournal(mem, "/d")
			must(t, err)
			if !found || j.recall(tp("new", 0), id(5)) != (offsets{1, 2, 1}) {
				return fmt.Errorf("damage at byte %d: what was written afterwards is lost", at)
			}
			must(t, j.close())
		}
	}
	return nil
}

func flip(b []byte, at int) []byte {
	c := slices.Clone(b)
	c[at] ^= 0x55
	return c
}

func TestJournalIsCompacted(t *testing.T) {
	mem := vfs.NewMem()
	must(t, mem.MkdirAll("/d"))
	j, _, err := openJournal(mem, "/d")
	must(t, err)
	largest := int64(0)
	for i := range int64(40000) {
		must(t, j.write([]change{put("a", 1, i, i, 0)}))
		largest = max(largest, j.end)
	}
	if largest > compactAboveSize+1024 {
		t.Fatalf("the journal of one partition grew to %d bytes", largest)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
