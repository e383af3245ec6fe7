package coordinator

import (
	"testing"
	"testing/synctest"

	"moldau/internal/kafka"
)

// A trimmed log is gone once what the turn has written is committed, and not before; the offsets that records are replayed
// with are those in the log, live and at loading.
func TestTrim(t *testing.T) {
	inWorld(t, func(w *world) {
		w.want(w.put(0, "a", "1"), "put", nil)
		w.want(w.put(0, "b", "2"), "put", nil)
		p, err := w.Set.Partition(kafka.TopicPartition{Topic: topic})
		w.Must(err)
		w.Gate.Close()
		all := w.ask(0, func(m *table, turn *Turn) (string, error) {
			from := turn.LogEnd()
			err := turn.Append(Record{Key: []byte("a"), Value: []byte("3")}, Record{Key: []byte("b"), Value: []byte("4")})
			turn.Trim(from)
			if m.last != from+1 {
				t.Errorf("last offset replayed is %d, want %d", m.last, from+1)
			}
			return "put", err
		})
		synctest.Wait()
		if p.LogStart() != 0 {
			t.Fatalf("log start is %d before the new records are committed", p.LogStart())
		}
		w.Gate.Open()
		w.want(all, "put", nil)
		if p.LogStart() != 2 {
			t.Fatalf("log start is %d, want 2", p.LogStart())
		}
		w.Restart()
		w.want(w.read(0), "a=3 b=4", nil)
		w.want(w.ask(0, func(m *table, turn *Turn) (string, error) {
			if m.last != 3 || turn.LogEnd() != 4 {
				t.Errorf("loaded up to offset %d with end %d", m.last, turn.LogEnd())
			}
			return "", nil
		}), "", nil)
	})
}
