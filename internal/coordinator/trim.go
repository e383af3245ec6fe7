package coordinator

import "moldau/internal/kafka"

// Trim has the records before an offset deleted, once everything that the log held at the end of this turn is committed:
// for a machine that has written its whole state anew. What is not deleted for whatever reason is loaded again one day,
// so records that were trimmed have to do no harm.
func (t *Turn) Trim(before kafka.Offset) {
	s := t.s
	p := NewPromise[struct{}]()
	p.Give(t, struct{}{})
	s.r.run.Go(func() { s.trim(p, before) })
}

func (s *shard) trim(written *Promise[struct{}], before kafka.Offset) {
	<-written.Given()
	if committed := written.Committed(); committed != nil {
		select {
		case <-committed:
		case <-s.r.ctx.Done():
			return
		}
	}
	if _, err := written.Answer(); err != nil {
		return // the next leader will trim
	}
	if _, _, err := s.log.DeleteRecords(before); err != nil { // followers learn of it with their next fetch
		s.r.o.Logger.Warn("old records of a coordinator's partition stay", "partition", s.name().String(), "before", before, "error", err)
	}
}
