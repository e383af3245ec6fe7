package api

import (
	"io"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/replica"
	"moldau/internal/server"
	"moldau/internal/wire"
)

// fetching is one Fetch request under way. Its memory serves one request after the other.
type fetching struct {
	a        *API
	r        *server.Request
	s        *session
	session  *replica.Watch // of s; nil: it is for this request alone
	client   *client        // whose conversions are counted
	created  bool           // s is new and wants a place in the cache
	full     bool           // the answer tells of every partition, not only of those with news
	minBytes int
	maxBytes int

	reply fetchReply
	timer *time.Timer            // ends the wait; nil: none has waited yet
	wait  func() server.Response // await, made once
	alone *session               // of the last request that wanted no session

	// What look found.
	bytes   int
	unknown int  // partitions that nobody has heard of
	urgent  bool // there is something to tell at once
	leaders []wire.FetchEndpoint
}

// fetch answers Fetch on a broker's listener. Mirrors KafkaApis.handleFetchRequest and ReplicaManager.fetchMessages: it
// waits until there are MinBytes to send, or something else to tell, or for MaxWaitMillis.
func (a *API) fetch(r *server.Request) server.Reply {
	req := r.Body.(*kmsg.FetchRequest)
	who := reader{replica: req.ReplicaID, epoch: -1, isolation: kafka.Isolation(req.IsolationLevel)}
	if req.Version >= 15 {
		who.replica, who.epoch = req.ReplicaState.ID, req.ReplicaState.Epoch
	}
	who.any = req.Version >= 11 || who.replica == kafka.DebugReplica
	if req.Version >= 11 && a.o.NearestReplica && who.replica == kafka.ConsumerReplica {
		who.rack = req.Rack
	}
	g := a.fetching(r)
	s, created, err := a.sessions.begin(req, who, g.alone)
	if err != nil {
		return server.Reply{Response: &wire.FetchResponse{Version: req.Version, CorrelationID: r.Header.CorrelationID, ErrorCode: wire.Code(err)}}
	}
	switch {
	case who.replica >= 0 && s.watch != nil:
		a.o.Replicas.Heard(s.watch, who.replica, who.epoch)
	case who.replica >= 0:
		a.sessions.knock(who.replica)
	}
	maxBytes := max(min(int(req.MaxBytes), a.o.FetchMaxBytes), 0)
	if !created && s.id == noSession {
		g.alone = s
	}
	g.s, g.session, g.client, g.created = s, s.watch, a.clients.of(r), created
	g.full = created || s.id == noSession
	g.maxBytes, g.minBytes = maxBytes, min(int(req.MinBytes), maxBytes)
	g.look()
	if g.enough() || req.MaxWaitMillis <= 0 {
		return server.Reply{Response: g.answer()}
	}
	if wait := time.Duration(req.MaxWaitMillis) * time.Millisecond; g.timer == nil {
		g.timer = time.NewTimer(wait)
	} else {
		g.timer.Reset(wait)
	}
	return server.Reply{Wait: g.wait}
}

// fetching returns what r is served with.
func (a *API) fetching(r *server.Request) *fetching {
	g, ok := r.Kept.(*fetching)
	if !ok {
		g = &fetching{a: a, r: r}
		g.wait = g.await
		r.Kept = g
	}
	g.leaders = nil
	return g
}

// enough reports whether to answer now.
func (g *fetching) enough() bool {
	return g.bytes >= g.minBytes || g.urgent || g.unknown == len(g.s.partitions)
}

// await looks again at every piece of news until there is enough to tell, or no more time.
func (g *fetching) await() server.Response {
	defer g.timer.Stop()
	if g.s.watch == nil {
		// A fetch without session did not need to hear of news until now; what came since it looked must not be missed.
		g.s.watch = replica.NewWatch()
		for _, f := range g.s.pending {
			p := f.partition
			f.partition = nil
			f.attach(p, g.s)
			f.stale = true
		}
		g.look()
	}
	for !g.enough() {
		select {
		case <-g.s.watch.C():
			g.look()
			continue
		case <-g.s.knock:
		case <-g.timer.C:
		case <-g.r.Closing():
		}
		select {
		case <-g.s.watch.C(): // came together with the end of the wait
			g.look()
		default:
		}
		break
	}
	return g.answer()
}

// answer makes the response of what look has found, and puts the session in order for the next fetch.
func (g *fetching) answer() server.Response {
	s := g.s
	resp := &g.reply
	resp.Reset(g.r.Header.Version, g.r.Header.CorrelationID)
	resp.NodeEndpoints = g.leaders
	still := s.pending[:0]
	for _, f := range s.pending {
		told := g.full || f.news()
		if told {
			resp.add(f)
			f.remember()
		}
		if f.dirty = f.more(); f.dirty {
			f.stale = true
			still = append(still, f)
		}
		if f.result.bytes > 0 && !g.full {
			s.moveToEnd(f) // what has been served waits for the others next time
		}
		g.a.meters.sent(f.result.bytes)
		if s.reader.replica >= 0 && f.result.bytes > 0 {
			g.a.o.LeaderThrottle.Copied(f.partition.TopicPartition(), f.result.bytes)
		}
		f.result = result{} // its region is the response's now
	}
	clear(s.pending[len(still):])
	s.pending = still
	if g.created {
		g.a.sessions.offer(s)
	}
	resp.SessionID = s.id
	g.a.sessions.end(s)
	return resp
}

// news reports whether an incremental answer has to tell of f (CachedPartition.maybeUpdateResponseData).
func (f *fetched) news() bool {
	a := &f.result.answer
	return f.result.bytes > 0 || f.result.err != nil || a.DivergingEpoch != nil || f.result.elsewhere || a.HighWatermark != f.highWatermark || a.LogStartOffset != f.logStart
}

// remember stores what the client is told. After an error it is told anew even if nothing has changed.
func (f *fetched) remember() {
	f.highWatermark, f.logStart = f.result.answer.HighWatermark, f.result.answer.LogStartOffset
	if f.result.err != nil {
		f.highWatermark = -1
	}
}

// more reports whether the next fetch has to look at f even without news: it sent records, and whether the client has
// taken them is not known; there was no room for more; or it failed.
func (f *fetched) more() bool {
	r := &f.result
	return r.bytes > 0 || r.more || r.err != nil || r.answer.DivergingEpoch != nil || r.elsewhere
}

// fetchReply is a Fetch response and the regions of logs that it sends.
type fetchReply struct {
	wire.FetchResponse
	regions []wire.Region // all that is held, in order
}

// add appends the answer of one partition. The order is kept (FetchResponse.of).
func (r *fetchReply) add(f *fetched) {
	answer := f.result.answer
	if f.result.region != nil {
		n := len(r.regions)
		r.regions = append(r.regions, f.result.region)
		answer.Records = r.regions[n : n+1 : n+1]
	}
	r.Add(f.key.topic, f.key.id, answer)
}

// WriteTo sends the response: headers from memory, records from where they lie.
func (r *fetchReply) WriteTo(w io.Writer) (int64, error) { return r.FetchResponse.WriteTo(w) }

// Release lets go of the regions.
func (r *fetchReply) Release() {
	for _, region := range r.regions {
		region.(heldRegion).Release()
	}
	clear(r.regions)
	r.regions = r.regions[:0]
}
