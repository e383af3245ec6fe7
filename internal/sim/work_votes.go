package sim

import (
	"context"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/quorum"
)

// voter is a node as it is known in the metadata quorum: with another disk it is another one.
type voter struct {
	id  kafka.NodeID
	dir kafka.DirID
}

// registrar is an operator who sees to who votes on the metadata: who has lost its vote gets it back, and where voters come and go,
// they are its choice.
type registrar struct {
	*client
	plan        Plan
	controllers *controllers
}

// electorate is what DescribeQuorum tells.
type electorate struct {
	voters, observers []voter
	behind            bool // not every voter has all that is committed
}

func (r *registrar) run(ctx context.Context) {
	defer r.close()
	for ctx.Err() == nil {
		r.pause(ctx, time.Second)
		e, err := r.describe(ctx)
		if err == nil {
			if whole, _ := r.restore(ctx, e); whole && r.plan.Voting {
				r.shuffle(ctx, e)
			}
		}
		if err != nil {
			r.rest(ctx)
		}
	}
}

func (r *registrar) describe(ctx context.Context) (e electorate, err error) {
	req := kmsg.NewDescribeQuorumRequest()
	req.Version = 2
	t := kmsg.NewDescribeQuorumRequestTopic()
	t.Topic = quorum.TopicName
	t.Partitions = append(t.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	req.Topics = append(req.Topics, t)
	resp, err := send(ctx, r.client, &req, func(resp *kmsg.DescribeQuorumResponse) int16 { return resp.ErrorCode })
	if err != nil {
		return e, err
	}
	p := resp.Topics[0].Partitions[0]
	for _, v := range p.CurrentVoters {
		e.voters = append(e.voters, voter{v.ReplicaID, v.ReplicaDirectoryID})
		e.behind = e.behind || v.LogEndOffset < p.HighWatermark
	}
	for _, o := range p.Observers {
		e.observers = append(e.observers, voter{o.ReplicaID, o.ReplicaDirectoryID})
	}
	return e, kerr.ErrorForCode(p.ErrorCode)
}

// restore does the next step to give back a vote that was lost, as the node's log says it: first who it was goes, then who it is
// comes. It is true if there is nothing to do.
func (r *registrar) restore(ctx context.Context, e electorate) (whole bool, err error) {
	for _, v := range e.voters {
		now := r.controllers.who(v.id)
		switch {
		case now == v:
		case now.dir.IsZero() || r.plan.AutoJoin || !slices.Contains(e.observers, now):
			return false, nil // it does it itself, or is not back yet
		default:
			return false, r.remove(ctx, v)
		}
	}
	if r.plan.Voting || r.plan.AutoJoin {
		return true, nil
	}
	for id := range kafka.NodeID(r.plan.Voters) {
		now := r.controllers.who(id + 1)
		switch {
		case slices.Contains(e.voters, now):
		case slices.Contains(e.observers, now):
			return false, r.add(ctx, now)
		default:
			return false, nil
		}
	}
	return true, nil
}

// shuffle takes a vote from somebody or gives one.
func (r *registrar) shuffle(ctx context.Context, e electorate) {
	waiting := slices.DeleteFunc(e.observers, func(o voter) bool { return slices.Contains(e.voters, o) || r.controllers.who(o.id) != o })
	switch {
	case len(waiting) > 0 && (len(e.voters) == 1 || r.rng.IntN(2) == 0):
		_ = r.add(ctx, waiting[r.rng.IntN(len(waiting))])
	case len(e.voters) > 0:
		_ = r.remove(ctx, e.voters[r.rng.IntN(len(e.voters))])
	}
}

func (r *registrar) add(ctx context.Context, v voter) error {
	req := kmsg.NewAddRaftVoterRequest()
	req.Version, req.TimeoutMillis, req.AckWhenCommitted = 1, int32(attempt.Milliseconds()), true
	req.VoterID, req.VoterDirectoryID = v.id, v.dir
	l := kmsg.NewAddRaftVoterRequestListener()
	l.Name, l.Host, l.Port = "CONTROLLER", hostName(int(v.id)-1), uint16(r.controllers.port(v.id))
	req.Listeners = append(req.Listeners, l)
	r.history.electing(v)
	_, err := send(ctx, r.client, &req, func(resp *kmsg.AddRaftVoterResponse) int16 { return resp.ErrorCode })
	r.elected(v, true, err)
	return err
}

func (r *registrar) remove(ctx context.Context, v voter) error {
	req := kmsg.NewRemoveRaftVoterRequest()
	req.VoterID, req.VoterDirectoryID = v.id, v.dir
	r.history.electing(v)
	_, err := send(ctx, r.client, &req, func(resp *kmsg.RemoveRaftVoterResponse) int16 { return resp.ErrorCode })
	r.elected(v, false, err)
	return err
}

// elected records what came of a change of the voter set.
func (r *registrar) elected(v voter, votes bool, err error) {
	r.history.elected(v, votes, err)
	if err == nil {
		r.world.Note("%s: node %d with disk %v has a vote: %t", r.name, v.id, v.dir, votes)
	}
}

// checkVotes: after the last fault every vote that was lost is given back, every voter has all that is committed, and the set is what
// was acked.
func (r *registrar) checkVotes(ctx context.Context) {
	var e electorate
	ok := r.insist(ctx, "see to the voters", func() (err error) {
		if e, err = r.describe(ctx); err != nil {
			return err
		}
		whole, err := r.restore(ctx, e)
		if err == nil && (!whole || e.behind) {
			err = kerr.RequestTimedOut // by itself: it takes a while
		}
		return err
	})
	if !ok {
		r.history.fault(inTime, "the voters are not all there %v after the last fault: %+v", patience, e)
		return
	}
	r.history.electedInTheEnd(e.voters)
}
