package sim

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// theGroup is the group whose members share the partitions of "orders".
const theGroup = "readers"

// member takes part in a group: it joins, commits numbers for what it owns, and leaves or falls silent now and then.
type member struct {
	*client
	instance    string // group.instance.id; "": it is no static member
	cooperative bool   // it keeps what it owns while the group balances anew, until that goes to another (KIP-429)
	id          string
	generation  int32
	owned       []int32
	in          bool   // it has its part of the generation
	part        string // the id under which it had its part of that generation, "" if it had none

	late    bool  // its requests may be
	earlier int32 // a generation that it had a part of under the same id, 0 if there is none
}

func (m *member) run(ctx context.Context) {
	defer m.close()
	for ctx.Err() == nil {
		m.rest(ctx)
		if m.late && m.in && m.earlier > 0 && m.rng.IntN(4) == 0 {
			m.commitLate(ctx)
			continue
		}
		switch n := m.rng.IntN(80); {
		case !m.in && m.cooperative && len(m.owned) > 0 && n < 40:
			m.commit(ctx, m.owned[n%len(m.owned)]) // it goes on with what it has
		case !m.in:
			m.join(ctx)
		case n == 0:
			m.leave(ctx)
		case n == 1:
			m.lose() // it is gone without a word, and another comes in its place
		case n < 20:
			m.beat(ctx)
		case n < 65 && len(m.owned) > 0:
			m.commit(ctx, m.owned[m.rng.IntN(len(m.owned))])
		default:
			m.look(ctx)
		}
	}
}

// told says what an answer means for a member. It reports whether all is well.
func (m *member) told(err error) bool {
	switch {
	case err == nil:
		return true
	case errors.Is(err, kerr.RebalanceInProgress):
		m.in = false
	case errors.Is(err, kerr.UnknownMemberID), errors.Is(err, kerr.IllegalGeneration), errors.Is(err, kerr.FencedInstanceID):
		m.lose()
	case errors.Is(err, kerr.UnknownServerError):
		m.history.fault(sound, "%s: %v", m.name, err)
	}
	return false
}

// lose is what a member does that is none any more: what it owned is another's.
func (m *member) lose() { m.id, m.in, m.owned = "", false, nil }

// owner is who owns the member's partitions: a static member that comes back has them under another id in the same generation.
func (m *member) owner() string {
	if m.instance != "" {
		return m.instance
	}
	return m.id
}

// static is the instance id as requests have it.
func (m *member) static() *string {
	if m.instance == "" {
		return nil
	}
	return &m.instance
}

// send sends a request whose answer has a code.
func send[R kmsg.Response](ctx context.Context, c *client, req kmsg.Request, code func(R) int16) (resp R, err error) {
	answer, err := c.do(ctx, req)
	if err != nil {
		return resp, err
	}
	resp = answer.(R)
	return resp, kerr.ErrorForCode(code(resp))
}

func (m *member) join(ctx context.Context) {
	find := kmsg.NewFindCoordinatorRequest()
	find.Version, find.CoordinatorKey = 3, theGroup
	if _, err := send(ctx, m.client, &find, func(r *kmsg.FindCoordinatorResponse) int16 { return r.ErrorCode }); !m.told(err) {
		return
	}
	req := kmsg.NewJoinGroupRequest()
	req.Version, req.Group, req.ProtocolType, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 9, theGroup, "consumer", 6000, 2000
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name = "shares"
	if m.cooperative {
		p.Metadata = claim{m.generation, m.owned}.bytes()
	}
	req.Protocols = append(req.Protocols, p)
	req.MemberID, req.InstanceID = m.id, m.static()
	code := func(r *kmsg.JoinGroupResponse) int16 { return r.ErrorCode }
	joined, err := send(ctx, m.client, &req, code)
	if errors.Is(err, kerr.MemberIDRequired) {
		m.id = joined.MemberID
		req.MemberID = m.id
		joined, err = send(ctx, m.client, &req, code)
	}
	if !m.told(err) {
		return
	}
	if m.earlier = 0; m.part == joined.MemberID {
		m.earlier = m.generation
	}
	m.part = ""
	missed := joined.Generation > m.generation+1
	m.id, m.generation = joined.MemberID, joined.Generation
	m.sync(ctx, joined, missed)
}

// sync asks for the member's part. One that has missed a generation has no right to what it owned: a static member that does not
// join in time stays in the group, which deals by what it claimed when it last did.
func (m *member) sync(ctx context.Context, joined *kmsg.JoinGroupResponse, missed bool) {
	req := kmsg.NewSyncGroupRequest()
	req.Version, req.Group, req.MemberID, req.Generation = 5, theGroup, m.id, m.generation
	req.InstanceID = m.static()
	req.ProtocolType, req.Protocol = joined.ProtocolType, joined.Protocol
	parts := deal(joined.Members, m.cooperative)
	for _, id := range slices.Sorted(maps.Keys(parts)) {
		a := kmsg.NewSyncGroupRequestGroupAssignment()
		a.MemberID, a.MemberAssignment = id, []byte(list(parts[id]))
		req.GroupAssignment = append(req.GroupAssignment, a)
	}
	resp, err := send(ctx, m.client, &req, func(r *kmsg.SyncGroupResponse) int16 { return r.ErrorCode })
	if !m.told(err) {
		return
	}
	kept := m.owned
	m.owned = unlist(string(resp.MemberAssignment))
	m.in, m.part = true, m.id
	if m.cooperative {
		if !missed {
			m.history.kept(m.generation, m.owner(), kept)
		}
		// What it has given up can be another's in the next generation, for which it asks at once.
		m.in = !slices.ContainsFunc(kept, func(p int32) bool { return !slices.Contains(m.owned, p) })
	}
	m.history.assigned(m.generation, m.owner(), m.owned)
	m.world.Note("%s owns %v in generation %d", m.name, m.owned, m.generation)
}

func (m *member) beat(ctx context.Context) {
	req := kmsg.NewHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.Generation = 4, theGroup, m.id, m.generation
	req.InstanceID = m.static()
	_, err := send(ctx, m.client, &req, func(r *kmsg.HeartbeatResponse) int16 { return r.ErrorCode })
	m.told(err)
}

func (m *member) leave(ctx context.Context) {
	req := kmsg.NewLeaveGroupRequest()
	req.Version, req.Group = 3, theGroup
	req.Members = []kmsg.LeaveGroupRequestMember{{MemberID: m.id, InstanceID: m.static()}}
	_, err := send(ctx, m.client, &req, func(r *kmsg.LeaveGroupResponse) int16 { return r.ErrorCode })
	m.told(err)
	m.lose()
}

func (m *member) commit(ctx context.Context, partition int32) {
	number := m.history.nextCommit(partition)
	known := m.history.knownOfGroup(partition)
	err := m.sendCommit(ctx, m.generation, partition, number)
	switch {
	case err == nil:
		m.history.commitAcked(known, m.generation, partition, number)
		m.world.Note("%s committed %d for %d", m.name, number, partition)
	default:
		m.history.commitLost(partition, number)
		m.told(err)
	}
}

func (m *member) sendCommit(ctx context.Context, generation, partition int32, number int64) error {
	req := kmsg.NewOffsetCommitRequest()
	req.Version, req.Group, req.MemberID, req.Generation, req.InstanceID = 8, theGroup, m.id, generation, m.static()
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset = partition, number
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic = "orders"
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	_, err := send(ctx, m.client, &req, func(r *kmsg.OffsetCommitResponse) int16 { return r.Topics[0].Partitions[0].ErrorCode })
	return err
}

// commitLate has a commit arrive that the network has kept since an earlier generation. Once is enough. Who has joined the
// same one again would be right to commit, and nobody could say whether he or the partition's owner was later.
func (m *member) commitLate(ctx context.Context) {
	partition := m.rng.Int32N(partitions)
	if m.earlier == m.generation {
		return
	}
	number := m.history.nextCommit(partition)
	known := m.history.knownOfGroup(partition)
	earlier := m.earlier
	m.earlier = 0
	err := m.sendCommit(ctx, earlier, partition, number)
	m.world.Note("%s committed late, for generation %d in %d: %v", m.name, earlier, m.generation, err)
	if err == nil {
		m.history.commitAcked(known, earlier, partition, number)
	} else {
		m.history.commitLost(partition, number)
	}
}

// look reads what the group has committed for one partition.
func (m *member) look(ctx context.Context) {
	partition := m.rng.Int32N(partitions)
	_ = m.client.lookAt(ctx, partition)
}

func (c *client) lookAt(ctx context.Context, partition int32) error {
	known := c.history.knownOfGroup(partition)
	req := kmsg.NewOffsetFetchRequest()
	req.Version, req.Group = 7, theGroup
	t := kmsg.NewOffsetFetchRequestTopic()
	t.Topic, t.Partitions = "orders", []int32{partition}
	req.Topics = append(req.Topics, t)
	resp, err := send(ctx, c, &req, func(r *kmsg.OffsetFetchResponse) int16 { return r.ErrorCode })
	if err != nil {
		return err
	}
	c.history.committed(known, partition, resp.Topics[0].Partitions[0].Offset)
	return nil
}

// checkGroup: after the last fault the group can be found, and everything that it has committed is there.
func (c *client) checkGroup(ctx context.Context) {
	for partition := range int32(partitions) {
		ok := c.insist(ctx, "read the group's offsets", func() error {
			find := kmsg.NewFindCoordinatorRequest()
			find.Version, find.CoordinatorKey = 3, theGroup
			if _, err := send(ctx, c, &find, func(r *kmsg.FindCoordinatorResponse) int16 { return r.ErrorCode }); err != nil {
				return err
			}
			return c.lookAt(ctx, partition)
		})
		if !ok {
			c.history.fault(inTime, "the group's offset of partition %d cannot be read %v after the last fault", partition, patience)
			return
		}
	}
}
