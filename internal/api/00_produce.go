package api

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/replica"
	"moldau/internal/server"
	"moldau/internal/wire"
)

// batchVersion is the first version of Produce in which records are one batch of format 2. Before, they may be a message set.
const batchVersion = 3

// zstdVersion is the first version of Produce whose clients may send zstd (KIP-110).
const zstdVersion = 7

// producing is one Produce request under way. Its memory serves one request after the other.
type producing struct {
	a    *API
	r    *server.Request
	resp kmsg.ProduceResponse
	all  []kmsg.ProduceResponseTopicPartition // of all topics of resp

	waits   []produceWait
	waiters *replica.Waiters // theirs
	timer   *time.Timer      // ends the wait

	ready func() bool // methods, made once
	wait  func() server.Response
	hurry func()
}

// produceWait is a partition whose answer waits.
type produceWait struct {
	waiter    *replica.Waiter
	partition *replica.Partition
	topic     *kmsg.ProduceRequestTopic
	answer    *kmsg.ProduceResponseTopicPartition
}

// producing returns what r is served with. Its answer has a place for each partition of req.
func (a *API) producing(r *server.Request, req *kmsg.ProduceRequest) *producing {
	g, ok := r.Kept.(*producing)
	if !ok {
		g = &producing{a: a, r: r, waiters: replica.NewWaiters(), timer: time.NewTimer(0)}
		g.timer.Stop()
		g.ready, g.wait, g.hurry = g.ended, g.await, g.hurryAll
		r.Kept = g
	}
	topics, count := g.resp.Topics[:0], 0
	for i := range req.Topics {
		count += len(req.Topics[i].Partitions)
	}
	if g.all = g.all[:0]; cap(g.all) < count {
		g.all = make([]kmsg.ProduceResponseTopicPartition, 0, count)
	}
	for i := range req.Topics {
		t, first := &req.Topics[i], len(g.all)
		for j := range t.Partitions {
			answer := kmsg.NewProduceResponseTopicPartition()
			answer.Partition = t.Partitions[j].Partition
			g.all = append(g.all, answer)
		}
		topics = append(topics, kmsg.ProduceResponseTopic{Topic: t.Topic, TopicID: t.TopicID, Partitions: g.all[first:]})
	}
	g.resp = kmsg.NewProduceResponse()
	g.resp.Topics = topics
	g.waits = g.waits[:0]
	return g
}

// produce answers Produce: each partition's batch is checked and appended here, in the order of the connection's
// requests; what acks=all has to wait for is waited for outside. Mirrors KafkaApis.handleProduceRequest.
func (a *API) produce(r *server.Request) server.Reply {
	req := r.Body.(*kmsg.ProduceRequest)
	req.Topics = slices.DeleteFunc(req.Topics, func(t kmsg.ProduceRequestTopic) bool { return len(t.Partitions) == 0 })
	g := a.producing(r, req)
	patience := replica.Patience{Begins: g.hurry}
	defer patience.End()
	var firstErr error
	for i := range req.Topics {
		t := &req.Topics[i]
		for j := range t.Partitions {
			answer := &g.resp.Topics[i].Partitions[j]
			p, waiter, err := a.append(g, t, &t.Partitions[j], answer, &patience)
			switch {
			case err != nil:
				if firstErr == nil {
					firstErr = fmt.Errorf("partition %d of topic %s: %w", answer.Partition, t.Topic, err)
				}
				if errors.Is(err, batch.ErrTooLarge) {
					a.o.Logger.Warn("records refused: there is far more in them than they let on", "topic", t.Topic, "partition", answer.Partition,
						"client", r.ClientID(), "remote", r.Conn.RemoteAddr().String(), "bytes", len(t.Partitions[j].Records))
				}
				a.refuse(r, &g.resp, answer, t, err)
			case waiter != nil:
				g.waits = append(g.waits, produceWait{waiter, p, t, answer})
			}
		}
	}
	switch {
	case kafka.Acks(req.Acks) == kafka.AcksNone && firstErr != nil:
		// The client waits for no answer: that the connection ends is the only way to tell it.
		return server.Reply{None: true, Close: true, Reason: "Produce with acks=0 failed for " + firstErr.Error()}
	case kafka.Acks(req.Acks) == kafka.AcksNone:
		return server.Reply{None: true}
	case len(g.waits) == 0:
		return r.Answer(&g.resp)
	}
	g.waiters.Hurry()
	// The time runs from now, not from when earlier answers have gone out.
	g.timer.Reset(time.Duration(max(req.TimeoutMillis, 0)) * time.Millisecond)
	return server.Reply{Wait: g.wait, Ready: g.ready}
}

// hurryAll has the partitions of the request opened together that have yet to be.
func (g *producing) hurryAll() {
	req := g.r.Body.(*kmsg.ProduceRequest)
	for i := range req.Topics {
		t := &req.Topics[i]
		for j := range t.Partitions {
			if p, err := g.a.written(req.Version, t, t.Partitions[j].Partition); err == nil {
				p.Hurry()
			}
		}
	}
}

// ended reports whether nothing is waited for any more.
func (g *producing) ended() bool { return g.waiters.Ended() }

// await returns the answer when every record has as many copies as it needs, or the request's time is up.
func (g *producing) await() server.Response {
	g.waiters.Await(g.timer.C, g.r.Context().Done())
	g.timer.Stop()
	for _, w := range g.waits {
		// What has come is told, even if time is up.
		var err error = kerr.RequestTimedOut
		if w.waiter.Ended() {
			err = w.waiter.Err()
		}
		if errors.Is(err, kerr.RequestTimedOut) {
			err = w.partition.Overdue()
		}
		if err != nil {
			g.a.refuse(g.r, &g.resp, w.answer, w.topic, err)
		}
	}
	if !g.waiters.Reset() {
		g.waiters = replica.NewWaiters() // those who have not come are yet to touch the old ones
	}
	return g.r.Response(&g.resp)
}

// append appends the batch of one partition and fills in where its records are. What it waits for is one of g's waiters.
func (a *API) append(g *producing, t *kmsg.ProduceRequestTopic, in *kmsg.ProduceRequestTopicPartition, answer *kmsg.ProduceResponseTopicPartition, patience *replica.Patience) (*replica.Partition, *replica.Waiter, error) {
	r := g.r
	req := r.Body.(*kmsg.ProduceRequest)
	acks := kafka.Acks(req.Acks)
	if acks != kafka.AcksAll && acks != kafka.AcksLeader && acks != kafka.AcksNone {
		return nil, nil, kerr.InvalidRequiredAcks
	}
	p, err := a.written(req.Version, t, in.Partition)
	if err != nil {
		return nil, nil, err
	}
	if req.Version < batchVersion && len(in.Records) == 0 {
		answer.BaseOffset = -1 // nothing is done, and that is no fault
		return p, nil, nil
	}
	config := p.Config()
	b, err := a.single(r, in.Records, config.MaxMessageBytes)
	if err != nil {
		return nil, nil, err
	}
	if b.Transactional() || req.TransactionID != nil {
		return nil, nil, fmt.Errorf("transactions are not served: %w", kerr.UnsupportedVersion)
	}
	b, info, err := a.checked(b, config.Compression, batch.CheckOptions{
		MaxMessageBytes: config.MaxMessageBytes,
		Now:             a.nowMs(),
		AppendTime:      config.TimestampTypeAppend,
		BeforeMaxMs:     config.BeforeMaxMs,
		AfterMaxMs:      config.AfterMaxMs,
		MaxRecordBytes:  config.MaxRecordBytes,
		Compacted:       config.Compact,
		Deep:            a.o.FullValidation,
		Client:          true,
		RefuseZstd:      req.Version < zstdVersion,
	})
	if err != nil {
		return nil, nil, err
	}
	if !config.TimestampTypeAppend {
		b.SetCreateTime(info.MaxTimestamp) // a header that lies about its records is put right
	}
	p.AwaitLead(r.Context(), patience)
	done, waiter, err := p.Append(b, replica.AppendOptions{Acks: acks, LeaderEpoch: kafka.NoEpoch, Together: g.waiters})
	if err != nil {
		return nil, nil, err
	}
	answer.BaseOffset, answer.LogAppendTime, answer.LogStartOffset = done.First, done.LogAppendTime, done.LogStart
	a.meters.received(len(b))
	return p, waiter, nil
}

// single is the batch that records consist of. Those of an old producer are converted.
func (a *API) single(r *server.Request, records []byte, maxMessageBytes int) (batch.Batch, error) {
	if r.Header.Version < batchVersion && batch.IsMessageSet(records) {
		return a.conversions.fromMessages(a.clients.of(r), records, maxMessageBytes)
	}
	return batch.Single(records)
}

const (
	// plainBytes is what the records of any batch may take when they are decompressed, on top of four times its size; it
	// is more than the window of zstd at the levels that clients use. What needs more takes one of openingSlots.
	plainBytes   = 4 << 20
	openingSlots = 2
)

// checked verifies a batch and compresses it as the topic stores batches. A batch of 60 KB can hold 60 MB: it costs one
// client nothing to send it, and many of them must not make the node hold as many of those at once.
func (a *API) checked(b batch.Batch, c batch.Compression, o batch.CheckOptions) (batch.Batch, batch.Info, error) {
	o.Deep = o.Deep || c.Changes(b)
	o.PlainBytes = plainBytes + 4*len(b)
	info, err := batch.Check(b, o)
	if errors.Is(err, batch.ErrTooLarge) {
		a.opening <- struct{}{}
		defer func() { <-a.opening }()
		o.PlainBytes = 0
		info, err = batch.Check(b, o)
	}
	if err != nil || !c.Changes(b) {
		return b, info, err
	}
	b, err = b.Recompress(info.Plain, c, &a.conversions.packers)
	if err == nil && o.MaxMessageBytes > 0 && len(b) > o.MaxMessageBytes {
		err = fmt.Errorf("record batch of %d bytes as the topic stores it, max.message.bytes is %d: %w", len(b), o.MaxMessageBytes, kerr.MessageTooLarge)
	}
	return b, info, err
}

// written is the partition that a producer writes to.
func (a *API) written(version int16, t *kmsg.ProduceRequestTopic, partition int32) (*replica.Partition, error) {
	var p *replica.Partition
	var err error
	if version >= 13 {
		p, err = a.o.Replicas.ByID(t.TopicID, partition)
	} else {
		p, err = a.o.Replicas.Partition(kafka.TopicPartition{Topic: t.Topic, Partition: partition})
	}
	if err != nil {
		return nil, err
	}
	if internal(p.TopicPartition().Topic) {
		return nil, kerr.InvalidTopicException
	}
	return p, nil
}

// refuse makes err the answer of a partition, with the records that are at fault (KIP-467) and, if another node leads,
// where that is (KIP-951).
func (a *API) refuse(r *server.Request, resp *kmsg.ProduceResponse, answer *kmsg.ProduceResponseTopicPartition, t *kmsg.ProduceRequestTopic, err error) {
	partition := answer.Partition
	*answer = kmsg.NewProduceResponseTopicPartition()
	answer.Partition = partition
	answer.ErrorCode, answer.ErrorMessage = wire.Code(err), wire.Message(err)
	answer.BaseOffset, answer.LogAppendTime, answer.LogStartOffset = -1, -1, -1
	if bad, ok := errors.AsType[*batch.RecordErrors](err); ok {
		for _, record := range bad.Records {
			e := kmsg.NewProduceResponseTopicPartitionErrorRecord()
			e.RelativeOffset, e.ErrorMessage = record.Index, &record.Message
			answer.ErrorRecords = append(answer.ErrorRecords, e)
		}
	}
	if answer.ErrorCode != kerr.NotLeaderForPartition.Code || r.Header.Version < 10 {
		return
	}
	image := a.o.Image()
	topic := t.Topic
	if r.Header.Version >= 13 {
		known, ok := image.Topics.ByID(t.TopicID)
		if !ok {
			return
		}
		topic = known.Name
	}
	l := leaderOf(image, topic, partition, r.Conn.Listener())
	answer.CurrentLeader.LeaderID, answer.CurrentLeader.LeaderEpoch = l.id, l.epoch
	if l.endpoint == nil {
		return
	}
	for _, b := range resp.Brokers {
		if b.NodeID == l.id {
			return
		}
	}
	broker := kmsg.NewProduceResponseBroker()
	broker.NodeID, broker.Host, broker.Port, broker.Rack = l.id, l.endpoint.Host, int32(l.endpoint.Port), l.rack
	resp.Brokers = append(resp.Brokers, broker)
}
