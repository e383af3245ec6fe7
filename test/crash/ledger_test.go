package crash

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// place is where a record is.
type place struct {
	partition int32
	offset    int64
}

// ledger is what clients were told about one topic.
type ledger struct {
	mu      sync.Mutex
	acked   map[place]string // value of the record that was acked there
	seen    map[place]string // value that a reader was given
	refused int
	faults  []error           // what should never have been told
	gaps    map[string]bool   // writers that gave records up
	late    bool              // the disk is being shut down under a process that goes on: see the last remark in doc.go
	doubted int               // acks that came then
	topics  map[string]string // id of a topic that was created, or "" once it was deleted
	commits map[string]int64  // highest offset whose commit was acked, per group
}

func newLedger() *ledger {
	return &ledger{acked: map[place]string{}, seen: map[place]string{}, topics: map[string]string{}, commits: map[string]int64{}, gaps: map[string]bool{}}
}

func (l *ledger) ack(r *kgo.Record, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.refused++
		return
	}
	if l.late {
		writer, _, _ := strings.Cut(string(r.Value), "/")
		l.gaps[writer] = true
		l.doubted++
		return
	}
	at := place{r.Partition, r.Offset}
	if before, ok := l.acked[at]; ok {
		l.faults = append(l.faults, fmt.Errorf("partition %d, offset %d: %.30q was acked where %.30q had been", at.partition, at.offset, r.Value, before))
	}
	l.acked[at] = string(r.Value)
}

func (l *ledger) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acked)
}

// note changes the ledger, unless what was told may be wrong.
func (l *ledger) note(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.late {
		change()
	}
}

// doubt says whether what is told from now on may be wrong.
func (l *ledger) doubt(late bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.late = late
}

func (l *ledger) leaveGaps(writer string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gaps[writer] = true
}

func (l *ledger) fault(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults = append(l.faults, err)
}

// look notes what a reader was given; what is at a place must never change.
func (l *ledger) look(r *kgo.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.late {
		return nil
	}
	at := place{r.Partition, r.Offset}
	if before, ok := l.seen[at]; ok && before != string(r.Value) {
		return fmt.Errorf("partition %d, offset %d: read %.30q, and earlier %.30q", at.partition, at.offset, r.Value, before)
	}
	l.seen[at] = string(r.Value)
	return nil
}

// name is the start of a value: who wrote it where, and as which of its records there.
func name(writer string, partition int32, n int64) string {
	return fmt.Sprintf("%s/%d/%d ", writer, partition, n)
}

// check reads the whole topic and compares. once names the writers that lose nothing and repeat nothing, acked or not:
// those with idempotence whose every record has an answer by now.
func (l *ledger) check(ctx context.Context, t *testing.T, address, topic string, once map[string]bool) {
	t.Helper()
	there := readAll(ctx, t, address, topic)
	l.mu.Lock()
	defer l.mu.Unlock()
	wrong := 0
	fault := func(format string, args ...any) {
		if wrong++; wrong <= 10 {
			t.Errorf(format, args...)
		}
	}
	for _, err := range l.faults {
		fault("%v", err)
	}
	found := map[place]string{}
	for partition, values := range there {
		last := map[string]int64{}
		for offset, v := range values {
			if v == "" {
				continue // no record there
			}
			found[place{partition, int64(offset)}] = v
			var writer string
			var in int32
			var n int64
			head, _, _ := strings.Cut(v, " ")
			if _, err := fmt.Sscanf(strings.ReplaceAll(head, "/", " "), "%s %d %d", &writer, &in, &n); err != nil || in != partition {
				fault("partition %d, offset %d: %.40q is nobody's record", partition, offset, v)
				continue
			}
			before, ok := last[writer]
			switch {
			case !ok:
				before = -1
			case n <= before:
				fault("partition %d, offset %d: record %d of %s comes after its record %d", partition, offset, n, writer, before)
			}
			if once[writer] && n != before+1 {
				fault("partition %d, offset %d: record %d of %s follows its record %d", partition, offset, n, writer, before)
			}
			last[writer] = n
		}
	}
	for what, told := range map[string]map[place]string{"acked": l.acked, "read": l.seen} {
		for at, v := range told {
			if found[at] != v {
				fault("partition %d, offset %d: %.30q was %s, and now %.30q is there", at.partition, at.offset, v, what, found[at])
			}
		}
	}
	if wrong > 10 {
		t.Errorf("and %d more", wrong-10)
	}
}

// readAll returns the values of all records by partition and offset.
func readAll(ctx context.Context, t *testing.T, address, topic string) map[int32][]string {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ends, err := kadm.NewClient(client).ListEndOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	all := map[int32][]string{}
	left := 0
	ends.Each(func(o kadm.ListedOffset) {
		all[o.Partition] = make([]string, o.Offset)
		if o.Offset > 0 {
			left++
		}
	})
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for left > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("read back: %v", err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if values := all[r.Partition]; r.Offset < int64(len(values)) {
				if values[r.Offset] = string(r.Value); r.Offset == int64(len(values))-1 {
					left--
				}
			}
		})
	}
	return all
}
