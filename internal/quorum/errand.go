package quorum

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

// errandRetry is the pause before the leader is asked again.
const errandRetry = time.Second

// runErrands is the goroutine that asks the leader for what this node cannot decide: that the voter set says where it listens,
// and that it becomes a voter.
func (q *Quorum) runErrands(ctx context.Context) {
	var silent complaint
	told := false
	for ctx.Err() == nil {
		if told = told || q.tellReadmission(); !q.errandDue() {
			select {
			case <-ctx.Done():
			case <-q.errandWake:
			}
			continue
		}
		err := q.errand(ctx)
		if err != nil && ctx.Err() == nil && silent.due(q.o.Now()) {
			q.o.Logger.Warn("the leader of the metadata quorum did not change the voter set; trying on", "err", err)
		}
		if err != nil {
			pause(ctx, errandRetry)
		}
	}
}

// errandDue tells whether the leader has to be asked for something.
func (q *Quorum) errandDue() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.leader.ID == kafka.NoNode || q.leadsLocked() || !q.o.CanVote {
		return false
	}
	mine, votes := find(q.members.newest().voters, q.self)
	return votes && !sameVoter(mine, q.self) || !votes && q.o.AutoJoin
}

// errand asks the leader for one step.
func (q *Quorum) errand(ctx context.Context) error {
	q.mu.Lock()
	leader, epoch, voters := q.leader, q.epoch, q.members.newest().voters
	q.mu.Unlock()
	address, ok := q.address(leader)
	if !ok {
		return fmt.Errorf("the listener of node %d is not known", leader.ID)
	}
	timeout := 10 * time.Duration(q.o.RequestTimeoutMs) * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn, err := q.dial(ctx, address)
	if err != nil {
		return err
	}
	defer conn.Close()
	answer, err := conn.Do(ctx, q.errandRequest(voters, epoch, timeout/2))
	if err != nil {
		return err
	}
	code := int16(0)
	switch resp := answer.(type) {
	case *kmsg.AddRaftVoterResponse:
		code = resp.ErrorCode
	case *kmsg.RemoveRaftVoterResponse:
		code = resp.ErrorCode
	case *kmsg.UpdateRaftVoterResponse:
		code = resp.ErrorCode
	}
	if err := kerr.ErrorForCode(code); err != nil {
		return fmt.Errorf("%s to node %d: %w", kmsg.NameForKey(answer.Key()), leader.ID, err)
	}
	// The answer comes when the change is committed, and the voter set comes by itself a moment later.
	pause(ctx, fetchWait)
	return nil
}

func (q *Quorum) errandRequest(voters []Voter, epoch kafka.Epoch, timeout time.Duration) kmsg.Request {
	if _, votes := find(voters, q.self); votes {
		req := kmsg.NewPtrUpdateRaftVoterRequest()
		req.ClusterID, req.CurrentLeaderEpoch = &q.o.ClusterID, epoch
		req.VoterID, req.VoterDirectoryID = q.self.ID, q.self.DirID
		for _, e := range q.self.Endpoints {
			l := kmsg.NewUpdateRaftVoterRequestListener()
			l.Name, l.Host, l.Port = e.Name, e.Host, e.Port
			req.Listeners = append(req.Listeners, l)
		}
		req.KRaftVersionFeature.MaxSupportedVersion = KRaftLevel
		return req
	}
	for _, v := range voters {
		if v.ID == q.self.ID { // this node before it lost its disk
			req := kmsg.NewPtrRemoveRaftVoterRequest()
			req.ClusterID, req.VoterID, req.VoterDirectoryID = &q.o.ClusterID, v.ID, v.DirID
			return req
		}
	}
	req := kmsg.NewPtrAddRaftVoterRequest()
	req.Version = 1
	req.ClusterID, req.TimeoutMillis, req.AckWhenCommitted = &q.o.ClusterID, int32(timeout.Milliseconds()), true
	req.VoterID, req.VoterDirectoryID = q.self.ID, q.self.DirID
	for _, e := range q.self.Endpoints {
		l := kmsg.NewAddRaftVoterRequestListener()
		l.Name, l.Host, l.Port = e.Name, e.Host, e.Port
		req.Listeners = append(req.Listeners, l)
	}
	return req
}

// tellReadmission tells a person how a voter that came back with another disk gets its vote again. It is false as long as
// there is nothing to tell.
func (q *Quorum) tellReadmission() bool {
	q.mu.Lock()
	voters := q.members.newest().voters
	leader := q.leader
	q.mu.Unlock()
	if _, votes := find(voters, q.self); votes || !q.o.CanVote || q.o.AutoJoin {
		return false
	}
	address, ok := q.address(leader)
	if !ok {
		return false
	}
	for _, v := range voters {
		if v.ID == q.self.ID {
			q.o.Logger.Warn("this node was a voter of the metadata quorum under another directory id, and has no vote now; to let it vote again "+
				"take the old one out and add it anew",
				"first", fmt.Sprintf("moldau metadata-quorum --bootstrap-controller %s remove-controller --controller-id %d --controller-directory-id %v", address, v.ID, v.DirID),
				"then", fmt.Sprintf("moldau metadata-quorum --bootstrap-controller %s --command-config <this node's server.properties> add-controller", address))
			return true
		}
	}
	return false
}
