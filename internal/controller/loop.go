package controller

import (
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/invariant"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

// What may lie in the inbox.
type (
	event any

	applied  struct{ image *metadata.Image }
	led      struct{ epoch int32 }
	resigned struct{}
	asked    struct {
		request Request
		answer  chan<- outcome // capacity 1
	}
	unnumbered struct {
		least  kafka.NodeID
		answer chan<- outcome // capacity 1
	}
	disconnected struct {
		broker kafka.NodeID
		epoch  int64
	}
)

type outcome struct {
	response kmsg.Response
	nodeID   kafka.NodeID // of NextNodeID
	err      error
}

// An entry of the quorum is one batch of at most 1 MiB. Each record costs at most recordOverhead bytes beside its value.
const (
	maxEntryBytes  = 1<<20 - 1024
	recordOverhead = 24
)

type loop struct {
	c         *Controller
	log       *slog.Logger
	counters  counters
	published *metadata.Image
	sessions  sessions
	checks    []*check

	leading    bool
	epoch      int32
	working    *metadata.Image // while leading: published plus all proposals
	nextOffset int64           // while leading: that the next record is expected to get
	proposals  []proposal      // not known to be committed, oldest first
	waiters    []waiter        // by offset, ascending
}

type proposal struct {
	done <-chan error
}

// waiter is an answer that leaves when everything up to its offset is applied here.
type waiter struct {
	offset  int64
	outcome outcome
	answer  chan<- outcome
}

func newLoop(c *Controller) *loop {
	l := &loop{c: c, log: c.o.Logger, counters: c.counters, published: metadata.EmptyImage()}
	l.checks = l.newChecks()
	l.sessions = newSessions(&c.o, func(e lost) { c.post(e) })
	return l
}

func (l *loop) run() {
	defer close(l.c.ended)
	for {
		var oldest <-chan error
		if len(l.proposals) > 0 {
			oldest = l.proposals[0].done
		}
		select {
		case <-l.c.signal:
		case err := <-oldest:
			l.proposals = l.proposals[1:]
			if err != nil {
				l.resign(err)
			}
		case <-l.c.stop:
		}
		// The select takes any of what has come together; what is done about it has an order.
		select {
		case <-l.c.stop:
			l.end()
			return
		default:
		}
		for _, e := range l.take(false) {
			l.handle(e)
		}
	}
}

// end answers whoever waits or still asks.
func (l *loop) end() {
	l.resign(fmt.Errorf("the node stops"))
	l.sessions.probing.Wait()
	for _, e := range l.take(true) {
		switch e := e.(type) {
		case asked:
			e.answer <- outcome{err: kerr.NotController}
		case unnumbered:
			e.answer <- outcome{err: kerr.NotController}
		}
	}
}

func (l *loop) take(last bool) []event {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	events := l.c.inbox
	l.c.inbox = nil
	l.c.stopped = last
	return events
}

func (l *loop) handle(e event) {
	switch e := e.(type) {
	case applied:
		l.apply(e.image)
	case led:
		l.lead(e.epoch)
	case resigned:
		l.resign(nil)
	case asked:
		l.answer(e)
	case unnumbered:
		l.number(e)
	case disconnected:
		l.suspect(e.broker, e.epoch)
	case lost:
		l.lose(e)
	case due:
		l.check(e)
	}
}

func (l *loop) apply(image *metadata.Image) {
	l.published = image
	n := 0
	for n < len(l.waiters) && l.waiters[n].offset <= image.Offset {
		l.waiters[n].answer <- l.waiters[n].outcome
		n++
	}
	l.waiters = l.waiters[n:]
	// What is published is what was decided on, once it has all arrived; holding one image instead of two saves memory.
	if l.leading && image.Offset >= l.nextOffset-1 {
		l.working = image
		l.nextOffset = image.Offset + 1
	}
}

func (l *loop) lead(epoch int32) {
	l.resign(nil)
	l.leading, l.epoch, l.working, l.nextOffset = true, epoch, l.published, l.published.Offset+1
	l.log.Info("this node is the active controller", "epoch", epoch, "offset", l.published.Offset)

	records := []metadata.Record{&metadata.NoOpRecord{}}
	if l.working.Features.MetadataVersion() == 0 {
		records = bootstrap(l.c.o.Config)
	}
	if err := l.propose(records, true); err != nil {
		l.resign(err)
		return
	}
	// Nobody could reach this controller before: every broker that was alive gets a full session, and is looked for.
	for id, b := range l.working.Cluster.Brokers() {
		if b.Fenced {
			continue
		}
		l.sessions.touch(id, -1)
		if id != l.c.o.NodeID { // this process is alive
			l.suspect(id, b.Epoch)
		}
	}
	l.counters.active.Set(1)
	for _, k := range l.checks {
		l.arm(k, k.interval)
	}
	// What the controller before decided may have lacked its sequel.
	l.follow(l.state().revive())
	l.follow(l.state().raiseInternal())
}

// follow writes what a decision entails; false if the log refuses, and then the next check or controller does it.
func (l *loop) follow(records []metadata.Record) bool {
	err := l.propose(records, false)
	if err != nil {
		l.log.Warn("writing what follows from a decision failed", "records", len(records), "error", err)
	}
	return err == nil
}

// suspect has a broker looked for that is in service and may be gone.
func (l *loop) suspect(id kafka.NodeID, epoch int64) {
	if !l.leading {
		return
	}
	b, ok := l.working.Cluster.Broker(id)
	if !ok || b.Fenced || b.Epoch != epoch {
		return
	}
	var addresses []string
	for _, e := range b.Endpoints {
		addresses = append(addresses, net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port))))
	}
	l.sessions.suspect(id, addresses)
}

func (l *loop) resign(cause error) {
	if !l.leading {
		return
	}
	l.leading, l.working, l.proposals = false, nil, nil
	l.counters.active.Set(0)
	for _, k := range l.checks {
		k.disarm()
	}
	l.sessions.clear()
	for _, w := range l.waiters {
		w.answer <- outcome{err: kerr.NotController}
	}
	l.waiters = nil
	if cause != nil {
		l.log.Info("this node is no longer the active controller", "epoch", l.epoch, "cause", cause)
	} else {
		l.log.Info("this node is no longer the active controller", "epoch", l.epoch)
	}
}

func (l *loop) state() *state {
	return &state{
		Options:    &l.c.o,
		image:      l.working,
		nextOffset: l.nextOffset,
		contacts:   l.sessions.contacts,
	}
}

func (l *loop) answer(a asked) {
	if !l.leading {
		a.answer <- outcome{err: kerr.NotController}
		return
	}
	result, err := decide(l.state(), a.request)
	if err == nil {
		err = l.propose(result.Records, result.Atomic)
	}
	if err == nil {
		l.sessions.note(result.Contact, l.nextOffset-1)
		l.follow(result.Then)
	} else {
		result.Response, err = refuse(a.request.Body, err)
	}
	l.release(outcome{response: result.Response, err: err}, a.answer)
}

// release gives an outcome when all that was decided up to now is applied here.
func (l *loop) release(o outcome, answer chan<- outcome) {
	w := waiter{offset: l.nextOffset - 1, outcome: o, answer: answer}
	if w.offset <= l.published.Offset {
		answer <- o
		return
	}
	l.waiters = append(l.waiters, w)
}

// fenceRetry is how long the loop waits before it tries again to fence a broker.
const fenceRetry = 100 * time.Millisecond

// lose fences a broker whose session is over.
func (l *loop) lose(e lost) {
	if !l.sessions.end(e) || !l.leading {
		return
	}
	b, ok := l.working.Cluster.Broker(e.broker)
	if !ok || b.Fenced {
		return
	}
	cause := "its session has timed out"
	if e.refused {
		cause = "nothing listens at its addresses"
	}
	l.log.Warn("fencing a broker", "broker", e.broker, "cause", cause, "sessionTimeoutMs", l.c.o.Config.SessionTimeoutMs)
	if err := l.propose(l.state().fence(b), false); err != nil {
		l.log.Warn("fencing a broker failed", "broker", e.broker, "error", err)
		l.sessions.arm(e.broker, fenceRetry) // unless another leader takes over
		return
	}
	l.counters.fenced.Inc()
}

// propose writes records, in one entry if they are atomic and else in as many as they need, and adds them to the working
// image.
func (l *loop) propose(records []metadata.Record, atomic bool) error {
	level := l.working.Features.MetadataVersion()
	var values [][]byte
	delta, bytes := metadata.NewDelta(l.working), 0
	for i, r := range records {
		err := delta.Replay(r)
		invariant.Check(err == nil, "replay of the controller's own record: %v", err)
		value := metadata.Encode(nil, r, metadata.Latest(r, level))
		if bytes += len(value) + recordOverhead; bytes > maxEntryBytes {
			if atomic || i == 0 {
				return errTooLarge()
			}
			return l.proposeInParts(records, i)
		}
		values = append(values, value)
	}
	if len(values) == 0 {
		return nil
	}
	last, done, err := l.c.o.Log.Propose(l.epoch, values)
	if err != nil {
		l.log.Warn("the metadata log refused an entry", "epoch", l.epoch, "records", len(values), "error", err)
		return kerr.NotController
	}
	invariant.Check(last >= l.nextOffset+int64(len(values))-1, "entry of %d records ends at %d, the log was at %d",
		len(values), last, l.nextOffset)
	l.countElections(l.working, records)
	l.working, l.nextOffset = delta.Image(last, l.epoch), last+1
	l.proposals = append(l.proposals, proposal{done})
	return nil
}

func (l *loop) proposeInParts(records []metadata.Record, fits int) error {
	if err := l.propose(records[:fits], false); err != nil {
		return err
	}
	return l.propose(records[fits:], false)
}
