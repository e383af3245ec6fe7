package sim

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/batch"
	"moldau/internal/kafka"
)

// producer sends records and remembers what was acked where. A plain one sends every record once; an idempotent one
// sends a batch again and again until it knows its fate.
type producer struct {
	*client
	next  int // number of the next record
	large bool
	late  late // a batch that was acked

	idempotent bool
	id         int64
	epoch      int16
	sequences  map[Partition]int32       // of the next record
	led        map[Partition]kafka.Epoch // the highest in which a leader has acked
}

// keyOf is the key of the record that holds a value: one of a few, so that compaction has something to do.
func keyOf(value string) string {
	told, _, _ := strings.Cut(value, padding)
	return "key" + told[len(told)-1:]
}

// padding ends what tells a value from others.
const padding = "+"

// run sends until ctx ends: batches of one to five records with acks=all.
func (p *producer) run(ctx context.Context) {
	defer p.close()
	for ctx.Err() == nil {
		all := p.topics.all()
		if len(all) == 0 || p.idempotent && p.sequences == nil && !p.introduce(ctx) {
			p.rest(ctx)
			continue
		}
		if p.idempotent && p.rng.IntN(300) == 0 {
			p.sequences = nil // it is started anew, with another id
			continue
		}
		to := all[p.rng.IntN(len(all))]
		values := make([]string, 1+p.rng.IntN(5))
		for i := range values {
			values[i] = fmt.Sprintf("%s-%d", p.name, p.next)
			if p.large {
				values[i] += padding + strings.Repeat("x", p.rng.IntN(3000))
			}
			p.next++
		}
		p.history.sent(values)
		p.deliver(ctx, to, values)
	}
}

// introduce gets a producer id.
func (p *producer) introduce(ctx context.Context) bool {
	req := kmsg.NewInitProducerIDRequest()
	req.Version = 4
	resp, err := p.do(ctx, &req)
	if err != nil {
		return false
	}
	answer := resp.(*kmsg.InitProducerIDResponse)
	if answer.ErrorCode != 0 {
		return false
	}
	p.history.named(p.name, answer.ProducerID)
	p.id, p.epoch, p.sequences = answer.ProducerID, answer.ProducerEpoch, make(map[Partition]int32)
	p.led = make(map[Partition]kafka.Epoch)
	p.world.Note("%s has producer id %d", p.name, p.id)
	return true
}

// deliver sends one batch, and records what became of it.
func (p *producer) deliver(ctx context.Context, to Partition, values []string) {
	o := batch.BuildOptions{}
	if p.idempotent {
		o.Producer = &batch.Producer{ID: p.id, Epoch: p.epoch, BaseSequence: p.sequences[to]}
	}
	b := batch.NewBuilder(o)
	for i, value := range values {
		b.Add(batch.Record{Timestamp: time.Now().UnixMilli(), Offset: int64(i), Key: []byte(keyOf(value)), Value: []byte(value)})
	}
	records := b.Build()
	began := p.history.began()
	for again := false; ctx.Err() == nil; again = true {
		offset, err := p.send(ctx, to, records)
		switch {
		case err == nil:
			p.world.Note("%s produced %d to %s-%d at %d", p.name, len(values), to.topic, to.number, offset)
			by := p.asked
			if again {
				by = ""
			}
			p.history.acked(to, offset, values, by)
			p.history.appended(p.name, began, to, offset, len(values), again)
			if p.idempotent {
				p.led[to] = max(p.led[to], p.route.epochs[place{to.topic, to.number}])
				p.sequences[to] += int32(len(values))
				p.repeat(ctx)
				p.late = late{to, records, offset}
			}
			return
		case errors.Is(err, kerr.OutOfOrderSequenceNumber) && p.route.epochs[place{to.topic, to.number}] < p.led[to]:
			// A leader that was deposed and has not heard of it lacks what its successors have acked.
		case errors.Is(err, kerr.OutOfOrderSequenceNumber), errors.Is(err, kerr.UnknownProducerID), errors.Is(err, kerr.InvalidProducerEpoch):
			p.history.forgotten(p.name, to, err)
			p.sequences = nil // start over under another id
			return
		case errors.Is(err, kerr.UnknownServerError), errors.Is(err, kerr.CorruptMessage), errors.Is(err, kerr.InvalidRecord):
			p.history.fault(sound, "%s: produce to %v: %v", p.name, to, err)
		}
		p.world.Note("%s produce to %s-%d failed", p.name, to.topic, to.number)
		p.rest(ctx)
		if !p.idempotent || !p.topics.exists(to) {
			return
		}
	}
}

// late is a batch that the network keeps, and delivers once more.
type late struct {
	to      Partition
	records []byte
	offset  kafka.Offset // at which it was acked
}

// repeat has the batch before arrive again, now and then. It is not appended a second time: the answer is the offset of the first,
// none, or an error.
func (p *producer) repeat(ctx context.Context) {
	l := p.late
	if l.records == nil || p.rng.IntN(10) > 0 || !p.topics.exists(l.to) {
		return
	}
	offset, err := p.send(ctx, l.to, l.records)
	if err == nil && offset >= 0 && offset != l.offset && !p.history.mayLose() {
		p.history.fault(onceInOrder, "%s: a batch of %v was acked at %d, came again, and was acked at %d", p.name, l.to, l.offset, offset)
	}
}

// once sends one batch once.
func (p *producer) once(ctx context.Context, to Partition, values []string) error {
	b := batch.NewBuilder(batch.BuildOptions{})
	for i, value := range values {
		b.Add(batch.Record{Timestamp: time.Now().UnixMilli(), Offset: int64(i), Key: []byte(keyOf(value)), Value: []byte(value)})
	}
	offset, err := p.send(ctx, to, b.Build())
	if err == nil {
		p.history.acked(to, offset, values, p.asked)
	}
	return err
}

func (c *client) send(ctx context.Context, to Partition, records []byte) (kafka.Offset, error) {
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = to.number, records
	t := kmsg.NewProduceRequestTopic()
	t.TopicID = to.id
	t.Partitions = append(t.Partitions, p)
	req := kmsg.NewProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 13, int16(kafka.AcksAll), int32(attempt.Milliseconds())
	req.Topics = append(req.Topics, t)
	resp, err := c.do(ctx, &req)
	if err != nil {
		return -1, err
	}
	answer := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
	return answer.BaseOffset, kerr.ErrorForCode(answer.ErrorCode)
}
