package main

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/batch"
	"moldau/internal/invariant"
	"moldau/internal/wire"
)

// frameVariants is how many different frames a connection sends in turn. A few are enough that a broker reads its input
// from memory and few enough that making them costs nothing.
const frameVariants = 8

const correlationAt = 8 // of a request frame: length, key, version come before

// frames are Produce requests of equal size, encoded once.
type frames struct {
	encoded [][]byte
	records int64 // in each
}

// encodeProduce makes requests that carry one full batch for every partition of one leader, as a busy producer's do. The values are
// random bytes from the seed.
func encodeProduce(l load, t topic, partitions []int32, seed uint64) frames {
	random := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	value, key := make([]byte, l.recordBytes), make([]byte, l.keyBytes)
	var f frames
	for range cmp.Or(l.variants, frameVariants) {
		req := kmsg.NewPtrProduceRequest()
		req.SetVersion(l.version())
		req.Acks, req.TimeoutMillis = l.acks, 30_000
		to := kmsg.NewProduceRequestTopic()
		to.Topic, to.TopicID = t.name, t.id
		f.records = 0
		for _, i := range partitions {
			p := kmsg.NewProduceRequestTopicPartition()
			p.Partition = i
			b := buildBatch(l, key, value, random)
			p.Records = b
			if l.old {
				set, err := b.Messages(1, batch.DownOptions{})
				invariant.Check(err == nil, "a batch of our own has no form in format 1: %v", err)
				p.Records = set
			}
			f.records += int64(b.Count())
			to.Partitions = append(to.Partitions, p)
		}
		req.Topics = append(req.Topics, to)
		client := "moldau-bench"
		f.encoded = append(f.encoded, wire.AppendRequest(nil, 0, &client, req))
	}
	return f
}

// buildBatch makes a batch as full as the load's batchBytes allow, with one record at least.
func buildBatch(l load, key, value []byte, random *rand.ChaCha8) batch.Batch {
	// A record costs up to 21 bytes beside key and value: what Java's producer reckons with (DefaultRecord.MAX_RECORD_OVERHEAD).
	const recordOverhead = 21
	builder := batch.NewBuilder(batch.BuildOptions{Codec: l.codec})
	now := time.Now().UnixMilli()
	for builder.Count() == 0 || builder.Size()+recordOverhead+len(key)+len(value) <= l.batchBytes {
		_, _ = random.Read(value)
		if l.codec != batch.None { // something that can be compressed to a little more than half
			for i, b := range value {
				value[i] = "0123456789abcdef"[b&15]
			}
		}
		r := batch.Record{Timestamp: now, Value: value}
		if len(key) > 0 {
			_, _ = random.Read(key)
			r.Key = key
		}
		builder.Add(r)
	}
	return builder.Build()
}

// replayProduce sends the load from pre-encoded frames over plain TCP and checks every answer. It shows what a broker can
// do when its client costs next to nothing.
func replayProduce(ctx context.Context, t topic, l load) (outcome, error) {
	var (
		all   []frames
		addrs []string
	)
	for _, to := range t.leaders {
		for range l.connections {
			all = append(all, encodeProduce(l, t, to.partitions, uint64(len(all))))
			addrs = append(addrs, to.addr)
			if all[0].records != all[len(all)-1].records {
				return outcome{}, fmt.Errorf("the leaders of %s do not lead equally many partitions", t.name)
			}
		}
	}
	perFrame := all[0].records
	r := &produceReplay{load: l, total: max(1, l.records/perFrame)}
	if l.rate > 0 {
		r.interval = time.Duration(float64(perFrame) / l.rate * float64(time.Second))
	}
	cpuBefore, err := ownCPU()
	if err != nil {
		return outcome{}, err
	}
	latency, took, err := onConnections(ctx, addrs, func(ctx context.Context, i int, conn net.Conn, began time.Time) ([]time.Duration, error) {
		return r.stream(ctx, conn, all[i].encoded, began)
	})
	if err != nil {
		return outcome{}, fmt.Errorf("replay to %s: %w", t.name, err)
	}
	cpuAfter, err := ownCPU()
	if err != nil {
		return outcome{}, err
	}
	records := r.total * perFrame
	return outcome{
		records:   records,
		requests:  r.total,
		bytes:     records * int64(l.recordBytes),
		perSecond: float64(records) / took.Seconds(),
		clientCPU: cpuAfter - cpuBefore,
		latency:   summarise(latency),
	}, nil
}

type produceReplay struct {
	load     load
	total    int64 // frames
	taken    atomic.Int64
	interval time.Duration // between the times at which frames are due, over all connections; 0: as fast as answers come
}

// take returns the number of the next frame to send, or false when all are taken.
func (r *produceReplay) take() (int64, bool) {
	n := r.taken.Add(1) - 1
	return n, n < r.total
}

// stream sends frames over one connection until none is left to take, and returns the time from when each was due to its
// answer.
func (r *produceReplay) stream(ctx context.Context, conn net.Conn, encoded [][]byte, began time.Time) ([]time.Duration, error) {
	if r.load.acks == 0 {
		return nil, r.send(ctx, conn, encoded, began, nil, nil)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	slots := make(chan struct{}, r.load.depth) // held from before a frame is sent until its answer has come
	due := make(chan time.Time, r.load.depth)
	var (
		sendErr error
		sender  sync.WaitGroup
	)
	sender.Go(func() {
		sendErr = r.send(ctx, conn, encoded, began, slots, due)
		close(due)
	})
	latency, err := r.receive(conn, slots, due)
	if err != nil {
		cancel()     // the sender may be waiting for a slot,
		conn.Close() // or for room in the connection
	}
	sender.Wait()
	return latency, firstCause([]error{err, sendErr})
}

func (r *produceReplay) send(ctx context.Context, conn net.Conn, encoded [][]byte, began time.Time, slots chan<- struct{}, due chan<- time.Time) error {
	for {
		n, ok := r.take()
		if !ok {
			return nil
		}
		var at time.Time
		if r.interval > 0 {
			at = began.Add(time.Duration(n) * r.interval)
			if err := sleepUntil(ctx, at); err != nil {
				return err
			}
		}
		if slots != nil {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case slots <- struct{}{}:
			}
			if r.interval == 0 {
				at = time.Now()
			}
			due <- at // has as much room as there are slots
		}
		frame := encoded[n%int64(len(encoded))]
		binary.BigEndian.PutUint32(frame[correlationAt:], uint32(n))
		if _, err := conn.Write(frame); err != nil {
			return err
		}
	}
}

func sleepUntil(ctx context.Context, at time.Time) error {
	wait := time.Until(at)
	if wait <= 0 {
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(wait):
		return nil
	}
}

func (r *produceReplay) receive(conn net.Conn, slots <-chan struct{}, due <-chan time.Time) ([]time.Duration, error) {
	var latency []time.Duration
	answers := newFrameReader(conn)
	resp := kmsg.NewPtrProduceResponse()
	for at := range due {
		frame, err := answers.next()
		if err != nil {
			return nil, err
		}
		latency = append(latency, time.Since(at))
		resp.SetVersion(r.load.version())
		if _, err := wire.ReadResponse(frame, resp); err != nil {
			return nil, err
		}
		if err := produceError(resp); err != nil {
			return nil, err
		}
		<-slots
	}
	return latency, nil
}

func produceError(resp *kmsg.ProduceResponse) error {
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return fmt.Errorf("partition %d: %w", p.Partition, err)
			}
		}
	}
	return nil
}
