package coordinator

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/replica"
)

// loadingSlots is how many shards are read at a time. Each holds Options.LoadBytes.
const loadingSlots = 2

// errMoved ends a load whose shard is over.
var errMoved = errors.New("the leader epoch is over")

// load makes a shard active. It runs on a goroutine of its own.
func (s *shard) load() {
	began := s.r.o.Elapsed()
	records, err := s.read()
	s.mu.Lock()
	defer s.mu.Unlock()
	defer close(s.loaded)
	if s.state != loading { // dropped meanwhile: drop could not touch a machine that was being loaded
		s.takeLocked(s.machine.Unloaded)
		return
	}
	if err != nil {
		s.state = broken
		if errors.Is(err, errMoved) {
			return
		}
		s.r.o.Logger.Error("coordinator cannot be loaded", "partition", s.name().String(), "error", err)
		return
	}
	s.state = active
	s.takeLocked(s.machine.Loaded)
	took := s.r.o.Elapsed() - began
	if loads := s.r.o.Loads; loads != nil {
		loads.Observe(took.Seconds())
	}
	if records > 0 {
		s.r.o.Logger.Info("coordinator loaded", "partition", s.name().String(), "epoch", s.epoch, "records", records, "took", took)
	}
}

func (s *shard) name() kafka.TopicPartition {
	return kafka.TopicPartition{Topic: s.r.o.Topic, Partition: s.partition}
}

// read replays the log from its start to its end. The end does not move meanwhile: only the shard appends.
func (s *shard) read() (records int, err error) {
	log, err := s.awaitRole()
	if err != nil {
		return 0, err
	}
	s.r.slots <- struct{}{}
	defer func() { <-s.r.slots }()
	open := map[int64][]Record{} // records of transactions that have not ended, by producer id
	at := log.LogStart()
	for end := log.LogEnd(); at < end; {
		if s.dropped.Load() {
			return records, errMoved
		}
		chunk, next, err := s.chunk(log, at)
		if err != nil {
			return records, err
		}
		for len(chunk) > 0 {
			var b batch.Batch
			if b, chunk, err = batch.Next(chunk); err != nil {
				return records, fmt.Errorf("read %s at offset %d: %w", s.name(), at, err)
			}
			n, err := s.replay(b, open)
			if err != nil {
				return records, fmt.Errorf("read %s at offset %d: %w", s.name(), b.BaseOffset(), err)
			}
			records += n
		}
		if at = next; next == 0 {
			break
		}
	}
	s.mu.Lock()
	s.log, s.end = log, log.LogEnd()
	s.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(open)) {
		s.r.o.Logger.Warn("a transaction on a coordinator's partition has no end; its records do not count", "partition", s.name().String(), "producer", id, "records", len(open[id]))
	}
	return records, nil
}

// chunk is the bytes of some whole batches. next 0: there are no more.
func (s *shard) chunk(log *replica.Partition, from kafka.Offset) (b []byte, next kafka.Offset, err error) {
	r, err := log.Read(replica.ReadOptions{
		From: from, MaxBytes: s.r.o.LoadBytes, AtLeastOne: true, Replica: kafka.DebugReplica, LogStart: -1,
		CurrentEpoch: s.epoch, LastFetchedEpoch: kafka.NoEpoch,
	})
	if errors.Is(err, kerr.OffsetOutOfRange) && from < log.LogStart() {
		return nil, log.LogStart(), nil // the log start has moved up meanwhile
	}
	if err != nil || r.Region == nil {
		return nil, 0, err
	}
	defer r.Region.Release()
	if b, err = r.Region.ReadAll(); err != nil {
		return nil, 0, err
	}
	last := b
	for rest := b; len(rest) > 0; {
		var one batch.Batch
		if one, rest, err = batch.Next(rest); err != nil {
			return nil, 0, err
		}
		last = one
	}
	return b, batch.Batch(last).NextOffset(), nil
}

// replay applies one batch.
func (s *shard) replay(b batch.Batch, open map[int64][]Record) (n int, err error) {
	if b.Control() {
		return s.replayMarker(b, open)
	}
	err = b.Each(func(r batch.Record) error {
		n++
		record := Record{Key: r.Key, Value: r.Value, Offset: r.Offset}
		if b.Transactional() {
			record.Key, record.Value = slices.Clone(r.Key), slices.Clone(r.Value)
			open[b.ProducerID()] = append(open[b.ProducerID()], record)
			return nil
		}
		s.apply(record)
		return nil
	})
	return n, err
}

// replayMarker ends a transaction: its records count if it was committed.
func (s *shard) replayMarker(b batch.Batch, open map[int64][]Record) (n int, err error) {
	err = b.Each(func(r batch.Record) error {
		kind, _, err := batch.ParseControl(r)
		if err != nil {
			return err
		}
		if kind == batch.ControlCommit {
			for _, record := range open[b.ProducerID()] {
				s.apply(record)
			}
		}
		delete(open, b.ProducerID())
		return nil
	})
	return 0, err
}

func (s *shard) apply(r Record) {
	if err := s.machine.Replay(r); err != nil {
		s.r.o.Logger.Warn("a record of a coordinator's partition is left out", "partition", s.name().String(), "offset", r.Offset, "error", err)
	}
}

// awaitRole returns the partition once it is led here under the shard's epoch. A log that cannot be opened may become so
// when there is space again.
func (s *shard) awaitRole() (*replica.Partition, error) {
	for s.r.ctx.Err() == nil {
		log, err := s.r.o.Replicas.Partition(s.name())
		if err != nil {
			break // deleted meanwhile
		}
		watch := replica.NewWatch()
		log.Attach(watch, 0, replica.Follower)
		_, err = log.AwaitCommitted(0, s.epoch)
		if leader, epoch := log.Leader(); err != nil && leader == s.r.o.NodeID && epoch <= s.epoch {
			select {
			case <-watch.C():
			case <-s.r.ctx.Done():
			}
			log.Detach(watch)
			continue
		}
		log.Detach(watch)
		if err != nil {
			break
		}
		return log, nil
	}
	return nil, errMoved
}
