package main

import (
	"math"
	"slices"
	"time"

	"moldau/internal/batch"
)

// load describes records to produce, whoever produces them.
type load struct {
	recordBytes int     // of each record's value
	keyBytes    int     // of each record's key; 0: keys are null
	batchBytes  int     // batch.size: what a batch holds at most, unless one record is larger
	records     int64   // how many, rounded to whole requests by the replayer
	acks        int16   // -1, 0 or 1
	rate        float64 // records per second; 0: as fast as answers come
	connections int     // of the replayer; the Java client has one
	depth       int     // requests on the way at once, per connection (max.in.flight.requests.per.connection)
	variants    int     // different frames that a connection of the replayer sends in turn; 0: frameVariants
	old         bool    // message sets of format 1, which the replayer sends by oldProduceVersion
	codec       batch.Codec
}

// version is that of the replayer's Produce requests.
func (l load) version() int16 {
	if l.old {
		return oldProduceVersion
	}
	return produceVersion
}

// outcome is what a client saw of one run. Bytes are those of record values.
type outcome struct {
	records   int64 // all that were sent or read, warm-up of the client included
	bytes     int64
	requests  int64         // 0: not known
	perSecond float64       // records per second in the part of the run that counts
	clientCPU time.Duration // of the client, start included
	latency   latencies
}

// latencies summarises the time from when a request (of the Java client: a record) was due to its answer.
type latencies struct{ p50, p95, p99, p999 time.Duration }

// summarise sorts all.
func summarise(all []time.Duration) latencies {
	slices.Sort(all)
	return latencies{percentile(all, 0.50), percentile(all, 0.95), percentile(all, 0.99), percentile(all, 0.999)}
}

// percentile is the smallest value that at least the share q of sorted does not exceed.
func percentile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	i := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}
