package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	pb "go.etcd.io/raft/v3/raftpb"
)

// caughtUpWithin is how fresh the last fetch of an observer has to be for it to be made a voter.
const caughtUpWithin = 5 * time.Second

// voterChange makes the next voter set out of the present one, and raft's step to it.
type voterChange func(voters []Voter) ([]Voter, *pb.ConfChangeSingle, error)

// AddVoter makes an observer a voter, once it has all that was committed when the call came, and returns when that is
// committed. It has to fetch from this node meanwhile. The error is a kerr value: DUPLICATE_VOTER, INVALID_REQUEST,
// INVALID_VOTER_KEY if another node or disk listens there, REQUEST_TIMED_OUT if it cannot be reached or does not catch up
// before ctx ends, NOT_LEADER_OR_FOLLOWER. Mirrors AddVoterHandler; KIP-853.
func (q *Quorum) AddVoter(ctx context.Context, v Voter) error {
	return q.changeVoters(ctx, func(voters []Voter) ([]Voter, *pb.ConfChangeSingle, error) {
		if len(v.Endpoints) == 0 || v.ID < 0 || v.DirID.IsZero() {
			return nil, nil, fmt.Errorf("voter %d: a voter has a node id, a directory id and a controller listener: %w", v.ID, kerr.InvalidRequest)
		}
		if _, votes := find(voters, v); votes {
			return nil, nil, fmt.Errorf("voter %d with directory id %v has a vote: %w", v.ID, v.DirID, kerr.DuplicateVoter)
		}
		next := append(slices.Clone(voters), v)
		if err := checkVoters(next); err != nil {
			return nil, nil, fmt.Errorf("%w: %w", err, kerr.DuplicateVoter)
		}
		if err := q.checkCandidate(ctx, v); err != nil {
			return nil, nil, err
		}
		sortVoters(next)
		return next, &pb.ConfChangeSingle{Type: pb.ConfChangeAddNode.Enum(), NodeId: new(raftID(v.DirID))}, nil
	})
}

// RemoveVoter takes a voter out of the set, and returns when that is committed. The error is a kerr value: VOTER_NOT_FOUND,
// INVALID_REQUEST for the last one, NOT_LEADER_OR_FOLLOWER, REQUEST_TIMED_OUT. Mirrors RemoveVoterHandler; KIP-853.
func (q *Quorum) RemoveVoter(ctx context.Context, v Voter) error {
	return q.changeVoters(ctx, func(voters []Voter) ([]Voter, *pb.ConfChangeSingle, error) {
		i := slices.IndexFunc(voters, func(have Voter) bool { return have.ID == v.ID && have.DirID == v.DirID })
		switch {
		case i < 0:
			return nil, nil, fmt.Errorf("voter %d with directory id %v: %w", v.ID, v.DirID, kerr.VoterNotFound)
		case len(voters) == 1:
			return nil, nil, fmt.Errorf("voter %d is the last one: %w", v.ID, kerr.InvalidRequest)
		}
		return slices.Delete(slices.Clone(voters), i, i+1), &pb.ConfChangeSingle{Type: pb.ConfChangeRemoveNode.Enum(), NodeId: new(raftID(v.DirID))}, nil
	})
}

// UpdateVoter says where a voter listens now, and returns when that is committed. The error is a kerr value as of RemoveVoter.
// Mirrors UpdateVoterHandler; KIP-853.
func (q *Quorum) UpdateVoter(ctx context.Context, v Voter) error {
	return q.changeVoters(ctx, func(voters []Voter) ([]Voter, *pb.ConfChangeSingle, error) {
		if _, ok := find(voters, v); !ok {
			return nil, nil, fmt.Errorf("voter %d with directory id %v: %w", v.ID, v.DirID, kerr.VoterNotFound)
		}
		if len(v.Endpoints) == 0 {
			return nil, nil, fmt.Errorf("voter %d: a voter has a controller listener: %w", v.ID, kerr.InvalidRequest)
		}
		next, changed := withEndpoints(voters, v)
		if !changed {
			return nil, nil, nil
		}
		return next, &pb.ConfChangeSingle{Type: pb.ConfChangeUpdateNode.Enum(), NodeId: new(raftID(v.DirID))}, nil
	})
}

// withEndpoints returns the set in which v listens where v says.
func withEndpoints(voters []Voter, v Voter) (next []Voter, changed bool) {
	next = slices.Clone(voters)
	for i, have := range next {
		if have.ID == v.ID && have.DirID == v.DirID && !SameVoter(have, v) {
			next[i], changed = v, true
		}
	}
	return next, changed
}

// errNotLeading says that another node decides about the voter set.
var errNotLeading = fmt.Errorf("this node does not lead the metadata quorum: %w", kerr.NotLeaderForPartition)

// changeVoters proposes one voter change and waits until it is in force. They come one after the other.
func (q *Quorum) changeVoters(ctx context.Context, change voterChange) error {
	select {
	case q.changing <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("another voter change is under way: %w", kerr.RequestTimedOut)
	}
	defer func() { <-q.changing }()
	if err := q.awaitAnnounced(ctx); err != nil {
		return err
	}
	q.mu.Lock()
	voters := q.members.newest().voters
	q.mu.Unlock()
	next, step, err := change(voters)
	if err != nil || step == nil {
		return err
	}
	done, err := q.proposeVoters(voters, next, step)
	if err != nil {
		return err
	}
	select {
	case err = <-done:
	case <-ctx.Done():
		return fmt.Errorf("the voter change is proposed and not known to be committed: %w", kerr.RequestTimedOut)
	}
	if errors.Is(err, ErrNotLeader) {
		return errNotLeading
	}
	if err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if !slices.EqualFunc(q.members.newest().voters, next, SameVoter) {
		return fmt.Errorf("raft held another voter change for under way: %w", kerr.RequestTimedOut)
	}
	q.o.Logger.Info("the voter set of the metadata quorum has changed", "from", named(voters), "to", named(next))
	return nil
}

// named are voters as a person looks for them: node id and directory id.
func named(voters []Voter) (names []string) {
	for _, v := range voters {
		names = append(names, fmt.Sprintf("%d:%v", v.ID, v.DirID))
	}
	return names
}

// awaitAnnounced waits until this leadership has begun: a voter set of a leader before may still be undecided until then.
func (q *Quorum) awaitAnnounced(ctx context.Context) error {
	for {
		changed := q.Changed()
		q.mu.Lock()
		err, leading, announced := q.err, q.leading, q.highWatermark >= q.announced
		q.mu.Unlock()
		switch {
		case err != nil:
			return err
		case !leading:
			return errNotLeading
		case announced:
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("the leadership is not established: %w", kerr.RequestTimedOut)
		}
	}
}

// proposeVoters hands a voter change to the loop, if the set is still the one it was made for.
func (q *Quorum) proposeVoters(before, next []Voter, step *pb.ConfChangeSingle) (<-chan error, error) {
	change := encodeConfChange(&pb.ConfChangeV2{Changes: []*pb.ConfChangeSingle{step}}, next, q.o.Now().UnixMilli())
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.err != nil:
		return nil, q.err
	case q.stopped:
		return nil, ErrStopped
	case !q.leading:
		return nil, errNotLeading
	case !slices.EqualFunc(q.members.newest().voters, before, SameVoter):
		return nil, fmt.Errorf("the voter set has changed meanwhile: %w", kerr.RequestTimedOut)
	}
	q.next++
	done := make(chan error, 1)
	q.queue = append(q.queue, proposal{change: change})
	q.inflight = append(q.inflight, waiting{last: q.next - 1, since: q.o.Now(), done: done})
	signal(q.wake)
	return done, nil
}

// checkCandidate makes sure that a new voter is there, is who it says it is, and has everything that is committed now: a
// majority that counts on it must not wait for it.
func (q *Quorum) checkCandidate(ctx context.Context, v Voter) error {
	if q.o.Dial != nil {
		address, _ := q.address(v)
		info, err := q.ask(ctx, address)
		if err != nil {
			return fmt.Errorf("voter %d cannot be reached: %w (%w)", v.ID, err, kerr.RequestTimedOut)
		}
		if info.node.ID != v.ID || info.node.DirID != v.DirID {
			return fmt.Errorf("at %s listens node %d with directory id %v, not voter %d with %v: %w",
				address, info.node.ID, info.node.DirID, v.ID, v.DirID, kerr.InvalidVoterKey)
		}
	}
	q.mu.Lock()
	goal := q.highWatermark
	q.mu.Unlock()
	for {
		q.mu.Lock()
		if q.progressed == nil {
			q.progressed = make(chan struct{})
		}
		progressed := q.progressed
		seen, ok := q.observers[observer{v.ID, v.DirID}]
		end := int64(-1)
		if ok {
			end = seen.LogEnd
			ok = end >= goal && q.o.Now().UnixMilli()-seen.LastFetchMs < caughtUpWithin.Milliseconds()
		}
		leading := q.leading
		q.mu.Unlock()
		switch {
		case !leading:
			return errNotLeading
		case ok:
			return nil
		}
		select {
		case <-progressed:
		case <-q.stop:
			return ErrStopped
		case <-ctx.Done():
			return fmt.Errorf("voter %d is at offset %d of the metadata log and has to be at %d: %w", v.ID, end, goal, kerr.RequestTimedOut)
		}
	}
}
