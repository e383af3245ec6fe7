package storage

import (
	"fmt"
	"sync"
	"testing"

	"moldau/internal/commitlog"
	"moldau/internal/vfs"
)

// BenchmarkGroupCommit appends to some logs for each of some clients and waits until all is on the disk: what requests with
// acks=all cost without the network. Bytes are those of all records.
func BenchmarkGroupCommit(b *testing.B) {
	for _, c := range []struct{ clients, logs int }{{1, 1}, {1, 6}, {5, 6}, {50, 6}, {5, 100}} {
		b.Run(fmt.Sprintf("clients=%d/logs=%d", c.clients, c.logs), func(b *testing.B) {
			s := run(b, options(vfs.NewOS(), b.TempDir()))
			defer func() { must(b, s.Stop(true)) }()
			var watches []*syncWatch
			for i := range c.logs {
				watches = append(watches, watchSync(open(b, s, fmt.Sprint("t", i), byte(i+1))))
			}
			b.SetBytes(int64(c.logs * len(records(1000))))
			b.ReportAllocs()
			b.ResetTimer()
			var clients sync.WaitGroup
			turns := make(chan struct{})
			for range c.clients {
				clients.Go(func() {
					batch := records(1000)
					for range turns {
						commit(b, watches, batch)
					}
				})
			}
			for range b.N {
				turns <- struct{}{}
			}
			close(turns)
			clients.Wait()
		})
	}
}

// commit is one request of a client, with the same batch for each log.
func commit(b *testing.B, watches []*syncWatch, batch []byte) {
	var logs []*Log
	for _, w := range watches {
		if _, err := w.l.Append(batch, commitlog.AppendOptions{LeaderEpoch: 1}); err != nil {
			b.Error(err)
			return
		}
		w.l.AppendDone()
		logs = append(logs, w.l)
	}
	Hurry(logs...)
	for _, w := range watches {
		if err := w.wait(w.l.LogEnd()); err != nil {
			b.Error(err)
			return
		}
	}
}
