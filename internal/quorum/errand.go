package quorum

import (
	"context"
	"fmt"
	"slices"
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
		if told = told || q.tellReadmission(ctx); !q.errandDue() {
			select {
			case <-ctx.Done():
			case <-q.errandWake:
			}
			continue
		}
		err := q.errand(ctx)
		if err != nil && ctx.Err() == nil && silent.due(q.o.Now()) {
			q.o.Logger.Warn("the voter set of the metadata quorum is not as this node needs it; trying on", "err", err)
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
	voters := q.members.newest().voters
	if q.leader.ID == kafka.NoNode || q.leadsLocked() || !q.o.CanVote || len(voters) == 0 { // who votes comes with the log
		return false
	}
	if mine, votes := find(voters, q.self); votes {
		return !SameVoter(mine, q.self)
	}
	_, before := byNode(voters, q.self.ID)
	return q.o.AutoJoin || q.joins && !before
}

// byNode returns the voter with a node id, whatever its directory.
func byNode(voters []Voter, id kafka.NodeID) (Voter, bool) {
	i := slices.IndexFunc(voters, func(v Voter) bool { return v.ID == id })
	if i < 0 {
		return Voter{}, false
	}
	return voters[i], true
}

// rivalry returns an error if the voter with this node's id is not what this node was with another disk, but somebody else: it has
// run beside this one. To take its vote would leave the cluster with one voter less than it counts on.
func (q *Quorum) rivalry(ctx context.Context, voters []Voter) error {
	v, taken := byNode(voters, q.self.ID)
	address, known := q.address(v)
	if !taken || v.DirID == q.self.DirID || !known {
		return nil
	}
	if q.rival != v.DirID {
		if q.self.listensAt(address) {
			return nil
		}
		info, err := q.ask(ctx, address)
		if err != nil || info.clusterID != q.o.ClusterID || info.node.ID != v.ID || info.node.DirID != v.DirID {
			return nil // it is gone, and whoever listens there now is another
		}
		q.rival = v.DirID
	}
	return fmt.Errorf("node.id=%d is that of another node, a voter that runs at %s: give this one an id and directories of its own", v.ID, address)
}

// wantsIn tells whether this node asks for a vote by itself.
func (q *Quorum) wantsIn() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.joins || q.o.AutoJoin
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
	if err := q.rivalry(ctx, voters); err != nil {
		return err
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
	if v, before := byNode(voters, q.self.ID); before { // this node, before it lost its disk
		req := kmsg.NewPtrRemoveRaftVoterRequest()
		req.ClusterID, req.VoterID, req.VoterDirectoryID = &q.o.ClusterID, v.ID, v.DirID
		return req
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

// tellReadmission tells a person how a controller that has no vote gets one. It is false as long as there is nothing to tell.
func (q *Quorum) tellReadmission(ctx context.Context) bool {
	q.mu.Lock()
	voters := q.members.newest().voters
	leader := q.leader
	q.mu.Unlock()
	address, known := q.address(leader)
	if _, votes := find(voters, q.self); votes || !known || len(voters) == 0 || !q.o.CanVote || q.o.AutoJoin {
		return false
	}
	if err := q.rivalry(ctx, voters); err != nil {
		q.o.Logger.Error("this controller gets no vote in the metadata quorum", "err", err)
		return true
	}
	add := fmt.Sprintf("moldau metadata-quorum --bootstrap-controller %s --command-config <server.properties of this node> add-controller", address)
	v, before := byNode(voters, q.self.ID)
	remove := fmt.Sprintf("moldau metadata-quorum --bootstrap-controller %s remove-controller --controller-id %d --controller-directory-id %v", address, v.ID, v.DirID)
	switch {
	case before && q.wantsIn():
		q.o.Logger.Warn("this node was a voter of the metadata quorum with another disk, and has no vote now; a command takes the old one, and then it asks for its own",
			"command", remove)
	case before:
		q.o.Logger.Warn("this node was a voter of the metadata quorum with another disk, and has no vote now; two commands give it its vote back",
			"first", remove, "then", add)
	case !q.wantsIn():
		q.o.Logger.Info("this controller has no vote in the metadata quorum; a command gives it one", "command", add)
	}
	return true
}
