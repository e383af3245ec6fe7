package group

import (
	"cmp"
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/config"
	"moldau/internal/coordinator"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/metrics"
)

// Topic is where groups and offsets are kept.
const Topic = "__consumer_offsets"

// Options is what a Coordinator needs to know.
type Options struct {
	config.Groups
	Runtime coordinator.Options // Topic and Machine are filled in
	Image   func() *metadata.Image
	Logger  *slog.Logger
	Metrics *metrics.Set
}

// Coordinator is all groups that this node coordinates. Make it with New.
type Coordinator struct {
	o       Options
	runtime *coordinator.Runtime
	meters  meters
	held    atomic.Int64 // bytes that members of all groups make the node hold, about
}

type meters struct {
	rebalances, commits prometheus.Counter
}

// New returns a Coordinator of no group. Apply brings them.
func New(o Options) *Coordinator {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Metrics = cmp.Or(o.Metrics, metrics.NewSet())
	c := &Coordinator{o: o, meters: meters{
		rebalances: o.Metrics.Counter("moldau_group_rebalances_total", "Generations of groups that have begun."),
		commits:    o.Metrics.Counter("moldau_group_offset_commits_total", "Offsets that groups have committed."),
	}}
	o.Metrics.GaugeFunc("moldau_group_member_bytes", "What members of groups make this node hold, about.", func() float64 {
		return float64(c.held.Load())
	})
	o.Runtime.Topic = Topic
	o.Runtime.Machine = func(int32) coordinator.Machine { return &shard{c: c, groups: map[string]*group{}} }
	o.Runtime.Logger = o.Logger
	o.Runtime.Loads = o.Metrics.Seconds("moldau_group_load_seconds", "How long the loading of a partition of __consumer_offsets took.")
	c.runtime = coordinator.New(o.Runtime)
	o.Metrics.GaugeFunc("moldau_group_shards", "Partitions of __consumer_offsets whose groups this node coordinates.", func() float64 {
		return float64(c.runtime.Shards())
	})
	return c
}

// Apply brings the coordinator into line with new metadata, after the partitions themselves. It never waits.
func (c *Coordinator) Apply(delta *metadata.Delta, image *metadata.Image) {
	c.runtime.Apply(delta, image)
	deleted := map[string]bool{}
	for _, t := range delta.DeletedTopics() {
		deleted[t.Name] = true
	}
	if len(deleted) > 0 {
		c.runtime.Later(func(m coordinator.Machine, t *coordinator.Turn) {
			m.(*shard).forget(t, func(topic string) bool { return deleted[topic] })
		})
	}
}

// Stop ends all groups here: members that wait are sent to another coordinator.
func (c *Coordinator) Stop() { c.runtime.Stop() }

// CommitTimeout is how long an answer waits for what it tells to be committed.
func (c *Coordinator) CommitTimeout() time.Duration { return milliseconds(c.o.CommitTimeoutMs) }

// Partition is the partition of Topic that keeps a group, whether or not this node leads it.
func (c *Coordinator) Partition(group string) int32 {
	n := c.o.Partitions
	if t, ok := c.o.Image().Topics.ByName(Topic); ok {
		n = int32(t.Partitions.Len())
	}
	return partitionOf(group, n)
}

// Ready waits until the groups of a partition are loaded, if this node has begun to load them, or ctx ends.
func (c *Coordinator) Ready(ctx context.Context, partition int32) { c.runtime.Loaded(ctx, partition) }

// turn gives a group's shard a turn, in which f keeps the promise sooner or later.
func turn[T any](c *Coordinator, group string, f func(*shard, *coordinator.Turn, *coordinator.Promise[T])) *coordinator.Promise[T] {
	if _, ok := c.o.Image().Topics.ByName(Topic); !ok {
		return coordinator.Broken[T](kerr.NotCoordinator)
	}
	return onPartition(c, c.Partition(group), f)
}

func onPartition[T any](c *Coordinator, partition int32, f func(*shard, *coordinator.Turn, *coordinator.Promise[T])) *coordinator.Promise[T] {
	p := coordinator.NewPromise[T]()
	err := c.runtime.Turn(partition, func(m coordinator.Machine, t *coordinator.Turn) { f(m.(*shard), t, p) })
	if err != nil {
		return coordinator.Broken[T](err)
	}
	return p
}

// settle keeps a promise with an answer or an error.
func settle[T any](t *coordinator.Turn, p *coordinator.Promise[T], answer T, err error) {
	if err != nil {
		p.Fail(t, err)
		return
	}
	p.Give(t, answer)
}

// None is the answer of what can only succeed or fail.
type None = struct{}

// maxString is the longest text that is stored: its length has two bytes, and a member's id is 37 characters longer than
// what it begins with.
const maxString = 1<<15 - 64

// Join has somebody join a group: the answer may take as long as a rebalance. What is wrong with the request is in the
// answer; the promise fails when there is no coordinator here.
func (c *Coordinator) Join(req *kmsg.JoinGroupRequest, client Client) *coordinator.Promise[*kmsg.JoinGroupResponse] {
	if err := c.checkJoin(req, client); err != nil {
		return coordinator.Broken[*kmsg.JoinGroupResponse](err)
	}
	if req.Version < 1 { // session and rebalance timeout were one (KIP-62)
		req.RebalanceTimeoutMillis = req.SessionTimeoutMillis
	}
	return turn(c, req.Group, func(s *shard, t *coordinator.Turn, p *coordinator.Promise[*kmsg.JoinGroupResponse]) {
		s.join(t, joiner{req, client, p})
	})
}

func (c *Coordinator) checkJoin(req *kmsg.JoinGroupRequest, client Client) error {
	switch {
	case req.Group == "" || len(req.Group) > maxString:
		return kerr.InvalidGroupID
	case req.SessionTimeoutMillis < c.o.MinSessionMs || req.SessionTimeoutMillis > c.o.MaxSessionMs:
		return kerr.InvalidSessionTimeout
	case len(client.ID) > maxString || len(req.ProtocolType) > maxString || req.InstanceID != nil && len(*req.InstanceID) > maxString:
		return kerr.InvalidRequest
	}
	for _, p := range req.Protocols {
		if len(p.Name) > maxString {
			return kerr.InvalidRequest
		}
	}
	return nil
}

// Sync gives a member its part of the assignment, when the leader has brought it.
func (c *Coordinator) Sync(req *kmsg.SyncGroupRequest) *coordinator.Promise[*kmsg.SyncGroupResponse] {
	if req.Group == "" {
		return coordinator.Broken[*kmsg.SyncGroupResponse](kerr.InvalidGroupID)
	}
	return turn(c, req.Group, func(s *shard, t *coordinator.Turn, p *syncAnswer) { s.sync(t, req, p) })
}

// Heartbeat keeps a member in its group.
func (c *Coordinator) Heartbeat(req *kmsg.HeartbeatRequest) *coordinator.Promise[None] {
	if req.Group == "" {
		return coordinator.Broken[None](kerr.InvalidGroupID)
	}
	return turn(c, req.Group, func(s *shard, t *coordinator.Turn, p *coordinator.Promise[None]) {
		settle(t, p, None{}, s.heartbeat(t, req))
	})
}

// Leave takes members out of a group. The answer is the errors of each.
func (c *Coordinator) Leave(group string, leaving []kmsg.LeaveGroupRequestMember) *coordinator.Promise[[]error] {
	if group == "" {
		return coordinator.Broken[[]error](kerr.InvalidGroupID)
	}
	return turn(c, group, func(s *shard, t *coordinator.Turn, p *coordinator.Promise[[]error]) {
		p.Give(t, s.leave(t, group, leaving))
	})
}

// Commit stores offsets. The answer is the errors of each.
func (c *Coordinator) Commit(commit Commit) *coordinator.Promise[[]error] {
	if len(commit.Group) > maxString {
		return coordinator.Broken[[]error](kerr.InvalidGroupID)
	}
	return turn(c, commit.Group, func(s *shard, t *coordinator.Turn, p *coordinator.Promise[[]error]) {
		errs, err := s.commit(t, commit)
		settle(t, p, errs, err)
	})
}

// Fetch returns what a group has committed for some partitions: Offset -1 where nothing.
func (c *Coordinator) Fetch(group string, partitions []kafka.TopicPartition) *coordinator.Promise[[]Offset] {
	return turn(c, group, func(s *shard, t *coordinator.Turn, p *coordinator.Promise[[]Offset]) {
		p.Give(t, s.fetch(group, partitions))
	})
}

// FetchAll returns everything that a group has committed, by topic and partition.
func (c *Coordinator) FetchAll(group string) *coordinator.Promise[[]Offset] {
	return turn(c, group, func(s *shard, t *coordinator.Turn, p *coordinator.Promise[[]Offset]) {
		p.Give(t, s.fetchAll(group))
	})
}

// DeleteOffsets forgets what a group has committed for some partitions. The answer is the errors of each.
func (c *Coordinator) DeleteOffsets(group string, partitions []kafka.TopicPartition) *coordinator.Promise[[]error] {
	if group == "" {
		return coordinator.Broken[[]error](kerr.InvalidGroupID)
	}
	return turn(c, group, func(s *shard, t *coordinator.Turn, p *coordinator.Promise[[]error]) {
		errs, err := s.deleteOffsets(t, group, partitions)
		settle(t, p, errs, err)
	})
}

// Describe shows a group; GROUP_ID_NOT_FOUND if there is none.
func (c *Coordinator) Describe(group string) *coordinator.Promise[*kmsg.DescribeGroupsResponseGroup] {
	return turn(c, group, func(s *shard, t *coordinator.Turn, p *coordinator.Promise[*kmsg.DescribeGroupsResponseGroup]) {
		shown, err := s.describe(group)
		settle(t, p, shown, err)
	})
}

// List shows all groups that are coordinated here, in given states and of given types; none given: all. Each promise is
// some of them.
func (c *Coordinator) List(states, types []string) []*coordinator.Promise[[]kmsg.ListGroupsResponseGroup] {
	var out []*coordinator.Promise[[]kmsg.ListGroupsResponseGroup]
	for _, partition := range c.runtime.Partitions() {
		out = append(out, onPartition(c, partition, func(s *shard, t *coordinator.Turn, p *coordinator.Promise[[]kmsg.ListGroupsResponseGroup]) {
			p.Give(t, s.list(states, types))
		}))
	}
	return out
}

// Delete removes a group that has no members.
func (c *Coordinator) Delete(group string) *coordinator.Promise[None] {
	return turn(c, group, func(s *shard, t *coordinator.Turn, p *coordinator.Promise[None]) {
		settle(t, p, None{}, s.delete(t, group))
	})
}
