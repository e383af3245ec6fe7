package fetcher

import (
	"log/slog"
	"slices"
	"time"

	"moldau/internal/replica"
	"moldau/internal/xsync"
)

// loop fetches a part of the partitions that one node leads. All but inbox belongs to the goroutine of run.
type loop struct {
	f      *Fetcher
	at     lane
	logger *slog.Logger

	wake  chan struct{} // capacity 1: there is something in inbox
	inbox struct {
		xsync.Mutex
		partitions []*replica.Partition // to be looked at
		rested     []*rest              // that are over
		hurry      bool                 // the leader may be back
	}

	followers map[key]*follower
	named     list        // that the next request names
	leaving   []*follower // that the session has to forget
	syncing   list        // whose disk the next request waits for
	held      *time.Timer // for how long; nil: for nobody
	slow      list        // whose disk no request waits for
	look      *time.Timer // when they are looked at again; nil: there are none
	tired     []*rest     // to begin at the end of this turn, one for each length

	main, aside flight
	session     session
	inSession   int // partitions that the session has
}

// asideWait is how long a leader may hold a request without session: no longer than partitions that come next may wait.
const asideWait = 20 * time.Millisecond

func newLoop(f *Fetcher, at lane) *loop {
	l := &loop{
		f: f, at: at, wake: make(chan struct{}, 1), followers: map[key]*follower{},
		named: list{kind: naming}, syncing: list{kind: syncing}, slow: list{kind: slow},
		logger: f.o.Logger.With("leader", at.leader, "shard", at.shard),
	}
	l.main.loop, l.aside.loop = l, l
	return l
}

// post asks the loop to look at a partition, or, with nil, to try its leader again. It never waits.
func (l *loop) post(p *replica.Partition) {
	l.inbox.Lock()
	if p == nil {
		l.inbox.hurry = true
	} else {
		l.inbox.partitions = append(l.inbox.partitions, p)
	}
	l.inbox.Unlock()
	l.wakeUp()
}

// wakeUp has the loop look at everything once more.
func (l *loop) wakeUp() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// run does what there is to do, always in the same order, and then waits for anything to happen.
func (l *loop) run() {
	defer l.end()
	for l.f.ctx.Err() == nil {
		l.readInbox()
		for _, fl := range []*flight{&l.main, &l.aside} {
			if resp := fl.collect(); resp != nil {
				b := fl.buffer // the answer may end the connection
				l.answered(fl, resp)
				b.done(len(resp.Topics) > 0)
			}
		}
		l.readSynced()
		l.send()
		l.lieDown()
		l.wait()
	}
}

// send sends the requests that there are reasons for.
func (l *loop) send() {
	if l.main.call == nil && l.held == nil && (l.named.len() > 0 || l.inSession > 0) {
		if l.main.connect(); l.main.idle() {
			l.main.send(l.next(), l.f.o.MaxWait)
			l.f.meters.requests.Inc()
		}
	}
	if l.main.call != nil && l.aside.call == nil && l.named.len() > 0 {
		if l.aside.connect(); l.aside.idle() {
			l.aside.send(l.meanwhile(), min(asideWait, l.f.o.MaxWait))
			l.f.meters.requests.Inc()
		}
	}
}

// wait returns when something may have happened.
func (l *loop) wait() {
	var held, look <-chan time.Time
	if l.held != nil {
		held = l.held.C
	}
	if l.look != nil {
		look = l.look.C
	}
	select {
	case <-l.wake:
	case <-l.main.done():
	case <-l.aside.done():
	case <-l.main.rings():
		l.main.rung()
	case <-l.aside.rings():
		l.aside.rung()
	case <-l.syncing.firstSynced(): // all of them are waited for
	case <-l.slow.firstSynced():
	case <-held:
		l.held = nil
	case <-look:
		l.look = nil
	case <-l.f.ctx.Done():
	}
}

// firstSynced is closed when the first of the followers is on disk.
func (l *list) firstSynced() <-chan struct{} {
	if len(l.all) == 0 {
		return nil
	}
	return l.all[0].syncing.Done()
}

func (l *loop) end() {
	l.main.close()
	l.aside.close()
	for _, f := range l.followers {
		f.wakeUp()
	}
	stop(&l.held)
	stop(&l.look)
}

// stop ends a timer, if there is one.
func stop(t **time.Timer) {
	if *t != nil {
		(*t).Stop()
		*t = nil
	}
}

// readInbox looks at the partitions that have been posted.
func (l *loop) readInbox() {
	l.inbox.Lock()
	partitions, rested, hurry := l.inbox.partitions, l.inbox.rested, l.inbox.hurry
	l.inbox.partitions, l.inbox.rested, l.inbox.hurry = nil, nil, false
	l.inbox.Unlock()
	if hurry {
		l.main.wakeUp()
		l.aside.wakeUp()
	}
	var fresh []*follower
	for _, p := range partitions {
		k := key{p.TopicID(), p.TopicPartition().Partition}
		f := l.followers[k]
		if f != nil && f.p != p { // the partition was removed and has come back
			l.drop(f)
			f = nil
		}
		leader, follows := p.Follows()
		switch {
		case follows && leader == l.at.leader:
			if f == nil {
				f = &follower{p: p, key: k, behind: true} // as long as nobody knows better
				l.followers[k] = f
			}
			f.failures = 0
			f.wakeUp()
			fresh = append(fresh, f)
		case f != nil:
			l.drop(f)
		}
	}
	for _, r := range rested {
		for _, f := range r.followers.all {
			f.resting = nil
			fresh = append(fresh, f)
		}
		r.followers.clear()
	}
	if len(fresh) > 0 {
		l.resume(fresh)
	}
}

// drop ends the fetching of a partition.
func (l *loop) drop(f *follower) {
	delete(l.followers, f.key)
	f.wakeUp()
	l.stopSyncing(f)
	l.named.remove(f)
	l.leave(f)
}

// resume finds out where partitions stand and has them fetched from there, once that is on disk.
func (l *loop) resume(list []*follower) {
	var waiters []*replica.Waiter
	for _, f := range list {
		at, waiter, err := f.p.Following()
		if err != nil || at.Leader != l.at.leader {
			l.drop(f) // its new role is, or will be, posted
			continue
		}
		f.at = at
		l.proceed(f, waiter)
		if waiter != nil {
			waiters = append(waiters, waiter)
		}
	}
	replica.Hurry(waiters...)
}

// proceed has the next request name a partition, when waiter has ended.
func (l *loop) proceed(f *follower, waiter *replica.Waiter) {
	l.stopSyncing(f)
	if waiter != nil {
		l.named.remove(f) // what the session is still to be told of it is not true yet
		f.syncing = waiter
		if f.slow {
			f.slow = false // unless the next look finds that it still is
			l.setAside(f)
			return
		}
		l.syncing.add(f)
		if l.held == nil {
			l.held = time.NewTimer(l.f.o.SyncPatience)
		}
		return
	}
	l.name(f)
}

// setAside lets the others go on without a partition whose disk is slow.
func (l *loop) setAside(f *follower) {
	l.leave(f)
	l.slow.add(f)
	if l.look == nil {
		l.look = time.NewTimer(l.f.o.SyncPatience)
	}
}

// name has the next request name a partition, unless a throttle makes it pause.
func (l *loop) name(f *follower) {
	if f.behind {
		if pause := l.f.o.Throttle.Pause(f.p.TopicPartition()); pause > 0 {
			l.pause(f, pause)
			return
		}
	}
	l.named.add(f)
}

// leave takes a partition out of the session, with the next request.
func (l *loop) leave(f *follower) {
	if f.in {
		f.in = false
		l.inSession--
		l.leaving = append(l.leaving, f)
	}
}

func (l *loop) stopSyncing(f *follower) {
	f.syncing = nil
	l.syncing.remove(f)
	l.slow.remove(f)
}

// readSynced goes on with the partitions whose syncs are done, and without those that have been waited for long enough.
func (l *loop) readSynced() {
	var synced, again []*follower
	done := func(f *follower) bool {
		select {
		case <-f.syncing.Done():
		default:
			return false
		}
		if f.syncing.Err() == nil {
			synced = append(synced, f)
		} else { // its role or its log has changed under it
			again = append(again, f)
		}
		f.syncing = nil
		return true
	}
	l.syncing.removeIf(done)
	l.slow.removeIf(done)
	if l.syncing.len() == 0 {
		stop(&l.held)
	} else if l.held == nil {
		for _, f := range l.syncing.all {
			f.slow = true
			l.setAside(f)
		}
		l.syncing.clear()
	}
	if l.slow.len() == 0 {
		stop(&l.look)
	} else if l.look == nil {
		for _, f := range l.slow.all {
			f.slow = true
		}
		l.look = time.NewTimer(l.f.o.SyncPatience)
	}
	for _, f := range synced {
		l.name(f)
	}
	if len(again) > 0 {
		l.resume(again)
	}
}

// fail lets a partition pause. Its failures are told at their beginning, and each time the pause is at its longest.
func (l *loop) fail(f *follower, err error) {
	pause := min(l.f.o.FirstBackoff<<min(f.failures, 20), l.f.o.Backoff)
	f.failures++
	l.f.meters.failures.Inc()
	l.pause(f, pause)
	if worthTelling(err) && f.failures == 1 || pause == l.f.o.Backoff {
		f.resting.note(f, err)
	}
}

// pause takes a partition out of everything for a while.
func (l *loop) pause(f *follower, pause time.Duration) {
	l.stopSyncing(f)
	l.named.remove(f)
	l.leave(f)
	f.wakeUp()
	i := slices.IndexFunc(l.tired, func(r *rest) bool { return r.length == pause })
	if i < 0 {
		i = len(l.tired)
		l.tired = append(l.tired, &rest{length: pause, followers: list{kind: resting}})
	}
	f.resting = l.tired[i]
	f.resting.followers.add(f)
}

// lieDown begins the pauses of this turn.
func (l *loop) lieDown() {
	for _, r := range l.tired {
		for _, t := range r.troubles {
			l.logger.Warn("followers cannot fetch; they try again", "partitions", t.partitions, "partition", t.one.String(), "offset", t.at.From,
				"epoch", t.at.Epoch, "pause", r.length, "error", t.err)
		}
		r.troubles = nil
		if r.followers.len() == 0 {
			continue // woken up again
		}
		r.timer = time.AfterFunc(r.length, func() {
			l.inbox.Lock()
			l.inbox.rested = append(l.inbox.rested, r)
			l.inbox.Unlock()
			l.wakeUp()
		})
	}
	clear(l.tired)
	l.tired = l.tired[:0]
}
