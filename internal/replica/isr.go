package replica

import (
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/kafka"
)

// progress is how far another replica has come, as its fetches tell. The methods also serve nil: never heard of.
type progress struct {
	end      kafka.Offset // its log end
	logStart kafka.Offset
	epoch    int64 // of the broker, in its last fetch
	// caughtUp is the last time at which its end was known to equal the leader's, at the earliest when this leadership began.
	// Mirrors ReplicaState.lastCaughtUpTimeMs.
	caughtUp  time.Time
	fetched   time.Time    // the last fetch that read this partition, and
	leaderEnd kafka.Offset // the leader's log end then

	// level says that its end equals the leader's, as far as is known: then each fetch of its session says so again, though
	// none reads this partition. session is the session's watch, nil if it has none.
	level   bool
	session *Watch
}

func (f *progress) reached() kafka.Offset {
	if f == nil {
		return 0
	}
	return f.end
}

// outgrownLocked is called when the leader's log has grown: who was level until now was so at the last fetch of its
// session, however long ago a fetch has read this partition.
func (p *Partition) outgrownLocked() {
	for _, f := range p.progress {
		f.caughtUp = f.lastLevel()
		f.level = false
	}
}

// lastLevel is the last time at which its end was known to equal the leader's.
func (f *progress) lastLevel() time.Time {
	if f.level && f.session != nil {
		if at := f.session.lastFetch(); at.After(f.caughtUp) {
			return at
		}
	}
	return f.caughtUp
}

// Wish is a change of the in-sync set that this leader asks the controller for with AlterPartition. It also says that the
// leader has recovered, if its election was unclean.
type Wish struct {
	TP             kafka.TopicPartition
	TopicID        kafka.TopicID
	LeaderEpoch    kafka.Epoch
	PartitionEpoch int32 // of the set that the wish starts from
	ISR            []kafka.NodeID
	Epochs         []int64 // broker epochs of ISR's members, -1 = unknown: a later incarnation is another replica (KIP-903)
}

// maximalISRLocked is every replica that is in sync or may already be so in the eyes of the controller: the watermark
// waits for those too, because a record that one of them lacks could be lost with the next election.
func (p *Partition) maximalISRLocked(t *target) []kafka.NodeID {
	if p.wish == nil {
		return t.isr
	}
	all := t.isr
	for _, member := range p.wish.ISR {
		if !slices.Contains(all, member) {
			all = append(slices.Clone(all), member)
		}
	}
	return all
}

// Fetched is what a follower's fetch tells the leader.
type Fetched struct {
	Replica  kafka.NodeID
	Epoch    int64        // of the follower's broker
	End      kafka.Offset // the follower's log end: the offset it asks for
	LogStart kafka.Offset // of the follower, -1 = unknown
	Session  *Watch       // of its fetch session, nil = none
}

// isFollower checks that a fetch comes from a follower of this partition and not from one who only says so: an earlier
// incarnation of the broker, or none (KIP-903).
func (p *Partition) isFollower(f Fetched) error {
	if f.Replica == p.set.o.NodeID || !slices.Contains(p.target.Load().replicas, f.Replica) {
		return fmt.Errorf("node %d is no follower of %s: %w", f.Replica, p.tp, kerr.NotLeaderForPartition)
	}
	if err := p.set.incarnation(f.Replica, f.Epoch); err != nil {
		return fmt.Errorf("fetch %s: %w", p.tp, err)
	}
	return nil
}

// followed records a follower's progress. The caller holds role shared, and isFollower has been asked.
func (p *Partition) followed(a *acting, f Fetched) {
	now := p.set.o.Now()
	p.mu.Lock()
	t := p.target.Load()
	leaderEnd := a.log.LogEnd()
	s := p.progress[f.Replica]
	if s == nil {
		s = &progress{caughtUp: a.began} // it may take as long to come as one that was level then
		p.progress[f.Replica] = s
	}
	if f.Epoch < s.epoch {
		// isFollower has let it in, and then its broker began anew and has been heard of: what it had may be lost.
		p.mu.Unlock()
		return
	}
	if f.Session == nil && s.session != nil && s.epoch == f.Epoch {
		// Its session's requests are on another connection, and may have told more since this one was sent. Should it really
		// have less than it had, the session will say so.
		if f.End <= s.end {
			p.mu.Unlock()
			return
		}
		f.Session = s.session
	}
	s.caughtUp = s.lastLevel() // as of its session's last fetch, whatever this one finds
	s.level = f.End >= leaderEnd
	switch {
	case s.level:
		s.caughtUp = now
	case f.End >= s.leaderEnd && s.fetched.After(s.caughtUp):
		// It has all that the leader had at the fetch before.
		s.caughtUp = s.fetched
	}
	s.end, s.logStart, s.epoch, s.session, s.fetched, s.leaderEnd = f.End, f.LogStart, f.Epoch, f.Session, now, leaderEnd
	p.wishToAddLocked(a, t, f.Replica)
	chain := p.advanceLocked(a)
	low := p.forLowWatermark.reach(p.lowWatermarkLocked(a))
	p.mu.Unlock()
	a.log.NoteChange()
	release(chain)
	release(low)
}

// wishToAddLocked asks for a follower that has caught up to be taken into the ISR: it has all below the watermark and all
// from before this leader's epoch, nothing that is deleted here, and its broker is neither fenced nor on its way out. Mirrors
// Partition.maybeExpandIsr, which does not look at the log start.
func (p *Partition) wishToAddLocked(a *acting, t *target, follower kafka.NodeID) {
	if p.wish != nil || slices.Contains(t.isr, follower) || t.leaderEpoch != a.epoch || !p.set.image.Load().Cluster.Active(follower) {
		return
	}
	f := p.progress[follower]
	if f.epoch != p.set.brokerEpoch(follower) {
		return // it is an earlier incarnation that had the records
	}
	if start := a.log.LogStart(); f.logStart < start {
		if p.start != start { // retention has moved it, and nothing else would remind an idle follower
			p.start = start
			p.markLocked(everyKind)
		}
		return
	}
	if f.end >= p.highWatermark.Load() && f.end >= a.start {
		p.wishLocked(t, append(slices.Clone(t.isr), follower))
	}
}

// wishToAdd asks for followers to be taken into the ISR that have caught up before.
func (p *Partition) wishToAdd(followers []kafka.NodeID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a, err := p.leading(kafka.NoEpoch)
	if err != nil {
		return
	}
	for _, f := range followers {
		if p.progress[f] != nil {
			p.wishToAddLocked(a, p.target.Load(), f)
		}
	}
}

// wishAgainLocked is called when the metadata have moved on. A follower that caught up while another was wished for, or when it could
// not be in sync for what the metadata said, may be taken in now, and if the partition is idle no fetch will remind of it. One that
// is not level has to come by itself: it may have been taken out for that.
func (p *Partition) wishAgainLocked(a *acting, t *target) {
	if len(t.isr) == len(t.replicas) {
		return
	}
	for _, id := range t.replicas {
		if f := p.progress[id]; f != nil && f.level {
			p.wishToAddLocked(a, t, id)
		}
	}
}

// dropLagging asks for members of the ISR that have not caught up for lagMax to be taken out, and for followers that have to be
// taken in. Mirrors Partition.maybeShrinkIsr and maybeExpandIsr.
func (p *Partition) dropLagging(now time.Time, lagMax time.Duration) {
	p.mu.Lock() // and not role: one whose disk hangs must not keep the others from being looked at
	defer p.mu.Unlock()
	a, err := p.leading(kafka.NoEpoch)
	if err != nil {
		return
	}
	t := p.target.Load()
	if len(t.isr) < len(t.replicas) { // one that was refused when it had caught up may not fetch again
		for _, f := range t.replicas {
			if s := p.progress[f]; s != nil && now.Sub(s.lastLevel()) <= lagMax {
				p.wishToAddLocked(a, t, f)
			}
		}
	}
	if p.wish != nil || len(t.isr) < 2 || t.leaderEpoch != a.epoch {
		return
	}
	end := a.log.LogEnd()
	left := slices.DeleteFunc(slices.Clone(t.isr), func(member kafka.NodeID) bool {
		f, level := p.progress[member], a.began
		if f != nil {
			level = f.lastLevel() // not caughtUp: an append that the log has may not have come to outgrownLocked yet
		}
		return member != p.set.o.NodeID && f.reached() < end && now.Sub(level) > lagMax
	})
	if len(left) < len(t.isr) {
		p.wishLocked(t, left)
	}
}

// wishLocked hands a wish over. There is one at a time, and all of them may come at once: when a broker is back, say, that
// all partitions here are followed on.
func (p *Partition) wishLocked(t *target, isr []kafka.NodeID) {
	w := Wish{TP: p.tp, TopicID: p.id, LeaderEpoch: t.leaderEpoch, PartitionEpoch: t.epoch, ISR: isr, Epochs: make([]int64, len(isr))}
	for i, member := range isr {
		w.Epochs[i] = p.set.brokerEpoch(member)
		if f := p.progress[member]; f != nil {
			w.Epochs[i] = f.epoch // of the incarnation that has the records
		}
	}
	p.wish = &w
	p.set.wish(w)
}

// WishFailed says that the controller has refused a wish for its members (INELIGIBLE_REPLICA, OPERATION_NOT_ATTEMPTED), so
// that another may be made. Any other outcome is not for here: a wish that was taken is answered by the metadata, and so is
// one that came too late (INVALID_UPDATE_VERSION and the like); one whose outcome is not known has to be sent again. Until
// the metadata answer, the watermark waits for its members: sent twice, a wish may have been taken and then be too late.
// Mirrors Partition.handleAlterPartitionError.
func (p *Partition) WishFailed(w Wish) {
	p.mu.Lock()
	var chain *Waiter
	if p.wish != nil && p.wish.LeaderEpoch == w.LeaderEpoch && p.wish.PartitionEpoch == w.PartitionEpoch {
		p.wish = nil
		if a, err := p.leading(kafka.NoEpoch); err == nil {
			chain = p.advanceLocked(a)
		}
	}
	p.mu.Unlock()
	release(chain)
}

// lowWatermarkLocked is the lowest log start of the leader, all live followers and all that may lead next without an unclean
// election: what is deleted below it comes back with none of them. Mirrors Partition.lowWatermarkIfLeader, which asks the
// live alone.
func (p *Partition) lowWatermarkLocked(a *acting) kafka.Offset {
	low := a.log.LogStart()
	t := p.target.Load()
	maximalISR := p.maximalISRLocked(t)
	for _, member := range t.replicas {
		mayLead := slices.Contains(maximalISR, member) || slices.Contains(t.elr, member)
		if member == p.set.o.NodeID || !mayLead && !p.set.alive(member) {
			continue
		}
		if f := p.progress[member]; f == nil {
			low = -1
		} else {
			low = min(low, f.logStart)
		}
	}
	return low
}
