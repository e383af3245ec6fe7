package api

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/metrics"
	"moldau/internal/replica"
	"moldau/internal/wire"
)

// conversions turns message sets of formats 0 and 1 into batches and back, for clients that know no other format. What
// modern clients send and read never comes here.
type conversions struct {
	now     func() time.Time
	slots   chan struct{} // one for each that runs: it is work for a processor, and takes memory
	opening chan struct{} // API.opening
	packers batch.Packers
	raws    sync.Pool // of *[]byte: batches that are being converted
	cache   setCache
	up      conversionMeters // of what producers sent
	down    conversionMeters // of what consumers fetched
	reused  prometheus.Counter
}

// conversionMeters count conversions in one direction.
type conversionMeters struct {
	batches, records, bytes, seconds prometheus.Counter
}

func newConversions(now func() time.Time, opening chan struct{}, m *metrics.Set) *conversions {
	c := &conversions{now: now, opening: opening, slots: make(chan struct{}, max(2, runtime.GOMAXPROCS(0)))}
	batches := m.CounterVec("moldau_conversions_total", "Record batches converted for clients older than Kafka 0.11, by what these did.", "api")
	records := m.CounterVec("moldau_converted_records_total", "Records in those batches.", "api")
	bytes := m.CounterVec("moldau_converted_bytes_total", "Bytes of those batches before they were converted.", "api")
	seconds := m.CounterVec("moldau_conversion_seconds_total", "Time that it took.", "api")
	of := func(api string) conversionMeters {
		return conversionMeters{batches.WithLabelValues(api), records.WithLabelValues(api), bytes.WithLabelValues(api), seconds.WithLabelValues(api)}
	}
	c.up, c.down = of("Produce"), of("Fetch")
	c.reused = m.Counter("moldau_conversions_reused_total", "Record batches that had been converted for another fetch a short while before.")
	return c
}

// done counts one conversion, for everybody and for the client that made it necessary.
func (m conversionMeters) done(cost *cost, records, bytes int, took time.Duration) {
	m.batches.Inc()
	m.records.Add(float64(records))
	m.bytes.Add(float64(bytes))
	m.seconds.Add(took.Seconds())
	cost.add(records, bytes, took)
}

// within calls convert with a limit on what decompressed records may take, and once more, as one of a few, if they need
// more than that (see API.check).
func (c *conversions) within(bytes int, convert func(plainBytes int) error) error {
	err := convert(plainBytes + 4*bytes)
	if !errors.Is(err, batch.ErrTooLarge) {
		return err
	}
	c.opening <- struct{}{}
	defer func() { <-c.opening }()
	return convert(0)
}

// fromMessages makes a batch of what a producer sent.
func (c *conversions) fromMessages(who *client, set []byte, maxMessageBytes int) (b batch.Batch, err error) {
	c.slots <- struct{}{}
	defer func() { <-c.slots }()
	began := c.now()
	err = c.within(len(set), func(plainBytes int) error {
		b, err = batch.FromMessages(set, batch.UpOptions{MaxMessageBytes: maxMessageBytes, PlainBytes: plainBytes, Packers: &c.packers})
		return err
	})
	if err != nil {
		return nil, err
	}
	c.up.done(&who.produced, int(b.Count()), len(set), c.now().Sub(began))
	return b, nil
}

// source is a region of a log whose batches are converted.
type source interface {
	heldRegion
	io.ReaderAt
}

// gatherBytes is how much of converted batches leaves in one write.
const gatherBytes = 64 << 10

// convertedRegion is a region of a log as a message set of an older format. It converts a batch at a time, while it is
// being sent. How long the answer is must be told before that, and only the first batch is known by then: the rest of the
// log is cut where the promise ends, or filled up with the beginning of a message that is longer than the answer. Readers
// take both for a message that did not fit. Mirrors LazyDownConversionRecords; KIP-283.
type convertedRegion struct {
	c         *conversions
	who       *client
	src       source
	topic     kafka.TopicID
	partition int32
	magic     int8
	from      kafka.Offset // no message before it is sent, unless it is compressed with others
	at        int64        // position of the first batch that has something for the reader
	promised  int64        // bytes that are sent, be it the middle of a message where they end
}

// open finds the first batch that has something for the reader. Without one, found is false and next tells where to read
// on; the region is still the caller's. Else it is r's. The error is of the batch that the reader would have to be sent first.
func (r *convertedRegion) open() (next kafka.Offset, found bool, err error) {
	for r.at < r.src.Len() {
		set, end, offset, err := r.messages(r.at)
		if err != nil {
			return 0, false, err
		}
		if set = batch.MessagesFrom(set, r.from); len(set) > 0 {
			r.promised = int64(len(set))
			if end < r.src.Len() {
				r.promised = max(r.promised, r.src.Len())
			}
			return 0, true, nil
		}
		r.at, next = end, offset
	}
	return next, false, nil
}

// messages converts the batch at a position, and tells where and with which offset the next one begins.
func (r *convertedRegion) messages(at int64) (set []byte, end int64, next kafka.Offset, err error) {
	key := setKey{topic: r.topic, partition: r.partition, magic: r.magic}
	if _, err := r.src.ReadAt(key.header[:], at); err != nil {
		return nil, 0, 0, fmt.Errorf("read a batch to convert: %w", err)
	}
	size, _, magic, err := batch.PeekHeader(key.header[:])
	if err == nil && (magic != 2 || at+int64(size) > r.src.Len()) {
		err = batch.ErrCorrupt // it has been truncated since it was found
	}
	if err != nil {
		return nil, 0, 0, err
	}
	header := batch.Batch(key.header[:])
	end, next = at+int64(size), header.NextOffset()
	if header.Control() || header.Count() <= 0 {
		return nil, end, next, nil
	}
	set, err = r.c.toMessages(r.who, r.src, at, size, key)
	return set, end, next, err
}

// toMessages makes a message set of the batch that lies at a position, unless somebody else has made it before.
func (c *conversions) toMessages(who *client, src io.ReaderAt, at int64, size int, key setKey) (set []byte, err error) {
	if set, ok := c.cached(key); ok {
		return set, nil
	}
	c.slots <- struct{}{}
	defer func() { <-c.slots }()
	if set, ok := c.cached(key); ok {
		return set, nil // while this waited
	}
	began := c.now()
	raw := c.raw(size)
	defer c.keep(raw)
	if _, err := src.ReadAt(*raw, at); err != nil {
		return nil, fmt.Errorf("read a batch to convert: %w", err)
	}
	b, _, err := batch.Next(*raw)
	if err != nil {
		return nil, err
	}
	err = c.within(size, func(plainBytes int) error {
		set, err = b.Messages(key.magic, batch.DownOptions{PlainBytes: plainBytes, Packers: &c.packers})
		return err
	})
	if err != nil {
		return nil, err
	}
	c.cache.put(key, set)
	c.down.done(&who.fetched, int(b.Count()), size, c.now().Sub(began))
	return set, nil
}

// raw returns memory for a batch.
func (c *conversions) raw(size int) *[]byte {
	raw, ok := c.raws.Get().(*[]byte)
	if !ok || cap(*raw) < size {
		raw = new(make([]byte, size))
	}
	*raw = (*raw)[:size]
	return raw
}

// keptRawBytes is the size of the largest memory for a batch that is kept for the next: twice what max.message.bytes is by default.
const keptRawBytes = 2 << 20

// keep takes memory for a batch back.
func (c *conversions) keep(raw *[]byte) {
	if cap(*raw) <= keptRawBytes {
		c.raws.Put(raw)
	}
}

func (c *conversions) cached(key setKey) ([]byte, bool) {
	set, ok := c.cache.get(key)
	if ok {
		c.reused.Inc()
	}
	return set, ok
}

// Len returns the bytes that SendTo will write.
func (r *convertedRegion) Len() int64 { return r.promised }

// SendTo converts and writes. What cannot be converted ends the set: the reader is told the reason when it asks for that.
func (r *convertedRegion) SendTo(dst io.Writer) (sent int64, err error) {
	w := bufio.NewWriterSize(dst, int(min(r.promised, gatherBytes)))
	for at := r.at; at < r.src.Len() && sent < r.promised; {
		set, end, _, err := r.messages(at)
		if err != nil {
			break
		}
		at = end
		set = batch.MessagesFrom(set, r.from)
		n, err := w.Write(set[:min(int64(len(set)), r.promised-sent)])
		sent += int64(n)
		if err != nil {
			return sent, err
		}
	}
	n, err := sendFiller(w, r.promised-sent)
	if err == nil {
		err = w.Flush()
	}
	return sent + n, err
}

// Release lets go of the log.
func (r *convertedRegion) Release() { r.src.Release() }

// sendFiller writes the beginning of a message that is longer than what is left: its offset, its length, and zeros.
func sendFiller(dst io.Writer, left int64) (sent int64, err error) {
	var chunk [4 << 10]byte
	binary.BigEndian.PutUint64(chunk[:], math.MaxUint64)
	binary.BigEndian.PutUint32(chunk[8:], uint32(max(left+1, batch.HeaderSize)))
	for sent < left && err == nil {
		var n int
		n, err = dst.Write(chunk[:min(left-sent, int64(len(chunk)))])
		sent += int64(n)
		clear(chunk[:12])
	}
	return sent, err
}

// formatOf is the newest format that the readers of a version of Fetch know.
func formatOf(version int16) int8 {
	switch {
	case version < 2:
		return 0
	case version < 4:
		return 1
	}
	return 2
}

// convert makes f's records, which o has read, those that an old reader can read. It reads on where there is nothing for
// him: in transaction markers, and in batches that compaction has left empty.
func (g *fetching) convert(f *fetched, p *replica.Partition, o replica.ReadOptions) {
	for f.result.region != nil {
		r := &convertedRegion{
			c: g.a.conversions, who: g.client, src: f.result.region.(source),
			topic: p.TopicID(), partition: f.key.partition, magic: formatOf(g.r.Header.Version), from: f.from,
		}
		next, found, err := r.open()
		if found {
			if hardLimit(g.r.Header.Version) {
				r.promised = min(r.promised, int64(o.MaxBytes))
			}
			f.result.region, f.result.bytes = r, int(r.Len())
			return
		}
		f.result.release()
		f.result.bytes = 0
		if err == nil && f.result.more {
			o.From = next
			err = g.readFrom(f, p, o)
		}
		if err != nil {
			f.result.release()
			f.result = result{answer: wire.NewFetchPartition(f.key.partition)}
			g.fail(f, err)
		}
	}
}

// hardLimit reports whether a version of Fetch takes the sizes that it names as they are: a message that is longer does not
// come whole (to version 2; KIP-74).
func hardLimit(version int16) bool { return version < 3 }
