package api

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/replica"
	"moldau/internal/wire"
)

// result is what a fetch has found of one partition.
type result struct {
	answer wire.FetchPartition
	region heldRegion // its records; nil: none
	bytes  int
	more   bool // there are records after these
	err    error

	elsewhere bool // the consumer is sent to another replica
}

// heldRegion is a piece of a log that stays on disk until it is released.
type heldRegion interface {
	wire.Region
	Release()
}

func (r *result) release() {
	if r.region != nil {
		r.region.Release()
		r.region = nil
	}
}

// zstdFetchVersion is the first version of Fetch whose clients can read zstd (KIP-110). Older ones are refused a topic that
// stores all its batches so; what producers sent in zstd to another is theirs to read or not.
const zstdFetchVersion = 10

// look reads what is dirty, in the session's order and within what the client takes, and adds up what there is to send.
func (g *fetching) look() {
	s := g.s
	s.collect()
	s.pending = slices.DeleteFunc(s.pending, s.forgotten)
	slices.SortFunc(s.pending, func(a, b *fetched) int {
		if a.place < b.place {
			return -1
		}
		return 1
	})
	g.bytes, g.unknown, g.urgent = 0, 0, false
	for _, f := range s.pending {
		// Records that were found before are read again: how much room there is for them may have changed.
		if f.stale || f.result.bytes > 0 || f.result.err != nil {
			g.read(f, max(g.maxBytes-g.bytes, 0), g.bytes == 0)
		}
		g.bytes += f.result.bytes
		switch {
		case f.result.err == nil:
			// A follower is told at once of a new watermark, for which its own consumers wait, and of a new log start, for
			// which those wait who delete records.
			learns := g.s.follower && !g.full && (f.result.answer.HighWatermark != f.highWatermark || f.result.answer.LogStartOffset != f.logStart)
			g.urgent = g.urgent || learns || f.result.answer.DivergingEpoch != nil || f.result.elsewhere
		case unknown(f.result.err):
			g.unknown++
		default:
			g.urgent = true
		}
	}
}

// unknown is the kind of error that is no reason to answer before there is something to tell of other partitions.
func unknown(err error) bool {
	code := wire.Code(err)
	return code == kerr.UnknownTopicID.Code || code == kerr.UnknownTopicOrPartition.Code
}

// read fills f.result. The records take at most room bytes, one batch of any size if atLeastOne (KIP-74). Old readers are
// never sent more than room, but for them a batch is not what is sent: they may get the first of its messages.
func (g *fetching) read(f *fetched, room int, atLeastOne bool) {
	f.stale = false
	f.result.release()
	f.result = result{answer: wire.NewFetchPartition(f.key.partition)}
	p, err := g.resolve(f)
	if err != nil {
		g.fail(f, err)
		return
	}
	f.attach(p, g.s)
	if c := p.Config().Compression; c.Imposed && c.Codec == batch.Zstd && g.r.Header.Version < zstdFetchVersion {
		g.fail(f, kerr.UnsupportedCompressionType)
		return
	}
	o := replica.ReadOptions{
		From:             f.from,
		MaxBytes:         min(f.maxBytes, room),
		AtLeastOne:       atLeastOne,
		Isolation:        g.s.reader.isolation,
		Replica:          g.s.reader.replica,
		ReplicaEpoch:     g.s.reader.epoch,
		Session:          g.session,
		LogStart:         f.readerStart,
		CurrentEpoch:     f.epoch,
		LastFetchedEpoch: f.fetchedEpoch,
		AnyReplica:       g.s.reader.any,
		Rack:             g.s.reader.rack,
		Throttled:        g.s.reader.replica >= 0 && g.a.o.LeaderThrottle.Pause(p.TopicPartition()) > 0,
	}
	version := g.r.Header.Version
	if hardLimit(version) {
		o.AtLeastOne = o.MaxBytes > 0
	}
	if err := g.readFrom(f, p, o); err != nil {
		g.fail(f, err)
		return
	}
	if formatOf(version) < 2 {
		g.convert(f, p, o)
	}
}

// readFrom fills f.result with what p has.
func (g *fetching) readFrom(f *fetched, p *replica.Partition, o replica.ReadOptions) error {
	found, err := p.Read(o)
	if err != nil {
		return err
	}
	answer := &f.result.answer
	answer.PreferredReadReplica, f.result.elsewhere = found.Nearest, found.Nearest != kafka.NoNode
	answer.HighWatermark, answer.LastStableOffset, answer.LogStartOffset = found.HighWatermark, found.LastStable, found.LogStart
	if d := found.Diverging; d != nil {
		answer.DivergingEpoch = &wire.EpochEndOffset{Epoch: d.Epoch, EndOffset: d.EndOffset}
	}
	if g.s.reader.isolation == kafka.ReadCommitted {
		answer.AbortedTransactions = make([]wire.AbortedTxn, 0, len(found.Aborted)) // never null for such a reader
		for _, t := range found.Aborted {
			answer.AbortedTransactions = append(answer.AbortedTransactions, wire.AbortedTxn{ProducerID: t.ProducerID, FirstOffset: t.FirstOffset})
		}
	}
	if found.Region != nil {
		f.result.region, f.result.bytes = found.Region, int(found.Region.Len())
	}
	f.result.more = found.More
	return nil
}

// resolve finds the partition that f names now: it may have been deleted, and made again, since the session began.
func (g *fetching) resolve(f *fetched) (*replica.Partition, error) {
	if g.s.byTopic {
		return g.a.o.Replicas.ByID(f.key.id, f.key.partition)
	}
	return g.a.o.Replicas.Partition(kafka.TopicPartition{Topic: f.key.topic, Partition: f.key.partition})
}

// fail makes err f's answer, and tells a client that asked the wrong node whom to ask (KIP-951).
func (g *fetching) fail(f *fetched, err error) {
	f.result.err = err
	code := wire.Code(err)
	version := g.r.Header.Version
	if code == kerr.KafkaStorageError.Code && version <= 5 {
		code = kerr.NotLeaderForPartition.Code // these clients do not know it, and would not look for another leader
	}
	f.result.answer.ErrorCode = code
	if version < 16 || code != kerr.NotLeaderForPartition.Code && code != kerr.FencedLeaderEpoch.Code {
		return
	}
	image := g.a.o.Image()
	topic := f.key.topic
	if g.s.byTopic {
		t, ok := image.Topics.ByID(f.key.id)
		if !ok {
			return
		}
		topic = t.Name
	}
	l := leaderOf(image, topic, f.key.partition, g.r.Conn.Listener())
	f.result.answer.CurrentLeader = &wire.LeaderIDAndEpoch{LeaderID: l.id, Epoch: l.epoch}
	if g.s.reader.replica < 0 { // followers learn addresses from the metadata log
		g.point(l)
	}
}

// point adds the address of a leader to the answer, once.
func (g *fetching) point(l leader) {
	if l.endpoint == nil || slices.ContainsFunc(g.leaders, func(e wire.FetchEndpoint) bool { return e.NodeID == l.id }) {
		return
	}
	g.leaders = append(g.leaders, endpointOf(l.id, *l.endpoint, l.rack))
}

func endpointOf(id kafka.NodeID, e metadata.Endpoint, rack *string) wire.FetchEndpoint {
	return wire.FetchEndpoint{NodeID: id, Host: e.Host, Port: int32(e.Port), Rack: rack}
}
