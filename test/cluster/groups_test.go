package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"moldau/test/harness"
)

// groupSettings let a test wait for sessions of members.
var groupSettings = []string{"group.min.session.timeout.ms=1000"}

// team is a consumer group whose members write down what they were given, what they have handled, and which commits were
// acknowledged to them.
type team struct {
	c            *cluster
	group, topic string
	options      []kgo.Opt

	mu        sync.Mutex
	claims    map[claim]string // who held a partition in a generation
	committed map[int32]int64  // highest acknowledged commit
	handled   map[string]int   // how often a record was handled
	faults    []string
}

type claim struct {
	partition, generation int32
}

func (c *cluster) team(group, topic string, options ...kgo.Opt) *team {
	return &team{c: c, group: group, topic: topic, options: options,
		claims: map[claim]string{}, committed: map[int32]int64{}, handled: map[string]int{}}
}

// mate is one member of a team.
type mate struct {
	team *team
	name string
	cl   *kgo.Client
	stop context.CancelFunc
	over sync.WaitGroup

	mu    sync.Mutex
	held  map[int32]bool
	floor map[int32]int64 // where a partition may be read from at the earliest, until its first record came
}

// join starts a member. The name is a static member's if static is true.
func (g *team) join(t *testing.T, name string, static bool) *mate {
	t.Helper()
	m := &mate{team: g, name: name, held: map[int32]bool{}, floor: map[int32]int64{}}
	ctx, cancel := context.WithCancel(context.Background())
	m.stop = cancel
	options := append([]kgo.Opt{
		kgo.ConsumerGroup(g.group), kgo.ConsumeTopics(g.topic), kgo.ClientID(name),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
		kgo.SessionTimeout(3 * time.Second), kgo.HeartbeatInterval(200 * time.Millisecond), kgo.RebalanceTimeout(5 * time.Second),
		kgo.OnPartitionsAssigned(m.assigned), kgo.OnPartitionsRevoked(m.lost), kgo.OnPartitionsLost(m.lost),
	}, g.options...)
	if static {
		options = append(options, kgo.InstanceID(name))
	}
	log := filepath.Join(g.c.dir, fmt.Sprintf("%s-%s.log", g.group, name)) // of all who had that name
	said, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = said.Close()
		if t.Failed() {
			text, _ := os.ReadFile(log)
			t.Logf("%s of group %s says:\n%s", name, g.group, last(string(text), 12000))
		}
	})
	options = append(options, kgo.WithLogger(kgo.BasicLogger(said, kgo.LogLevelInfo, func() string { return time.Now().Format("15:04:05.000 ") })))
	m.cl = g.c.client(t, options...)
	m.over.Go(func() { m.work(ctx) })
	t.Cleanup(m.leave)
	return m
}

// assigned checks that nobody else holds a partition in this generation.
func (m *mate) assigned(_ context.Context, cl *kgo.Client, added map[string][]int32) {
	_, generation := cl.GroupMetadata()
	g := m.team
	m.mu.Lock()
	defer m.mu.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range added[g.topic] {
		m.held[p] = true
		m.floor[p] = g.committed[p]
	}
	for p := range m.held {
		at := claim{p, generation}
		if who, taken := g.claims[at]; taken && who != m.name {
			g.faults = append(g.faults, fmt.Sprintf("in generation %d both %s and %s hold partition %d", generation, who, m.name, p))
		}
		g.claims[at] = m.name
	}
}

func (m *mate) lost(_ context.Context, _ *kgo.Client, gone map[string][]int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range gone[m.team.topic] {
		delete(m.held, p)
		delete(m.floor, p)
	}
}

// work handles records and commits after each poll.
func (m *mate) work(ctx context.Context) {
	for {
		fetches := m.cl.PollRecords(ctx, 100)
		if ctx.Err() != nil || fetches.IsClientClosed() {
			m.cl.AllowRebalance()
			return
		}
		records := fetches.Records()
		m.handle(records)
		if len(records) > 0 {
			commit, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			if err := m.cl.CommitRecords(commit, records...); err == nil {
				m.team.acknowledge(records)
			}
			cancel()
		}
		m.cl.AllowRebalance()
	}
}

func (m *mate) handle(records []*kgo.Record) {
	g := m.team
	m.mu.Lock()
	defer m.mu.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range records {
		if floor, first := m.floor[r.Partition]; first {
			if r.Offset < floor {
				g.faults = append(g.faults, fmt.Sprintf("%s begins partition %d at %d of leader epoch %d, and %d was committed before it got it, %s", m.name, r.Partition, r.Offset, r.LeaderEpoch, floor, time.Now().Format("15:04:05.000")))
			}
			delete(m.floor, r.Partition)
		}
		g.handled[string(r.Value)]++
	}
}

func (g *team) acknowledge(records []*kgo.Record) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range records {
		g.committed[r.Partition] = max(g.committed[r.Partition], r.Offset+1)
	}
}

// holds are the partitions that the member has.
func (m *mate) holds() []int32 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.held))
}

// leave ends a member: a static one stays a member until its session ends.
func (m *mate) leave() {
	m.stop()
	m.over.Wait()
	m.cl.Close()
}

// commits waits until so many more offsets have been acknowledged as committed.
func (g *team) commits(t *testing.T, more int64) {
	t.Helper()
	total := func() (n int64) {
		g.mu.Lock()
		defer g.mu.Unlock()
		for _, at := range g.committed {
			n += at
		}
		return n
	}
	want := total() + more
	harness.Eventually(t, time.Minute, fmt.Sprintf("the group commits %d more", more), func() error {
		if n := total(); n < want {
			return fmt.Errorf("%d of %d", n, want)
		}
		return nil
	})
}

// generation is the newest one that a member has seen.
func (g *team) generation() int32 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return newest(g.claims)
}

// check waits until every acknowledged record was handled, and compares what members saw with what the coordinator says.
func (g *team) check(t *testing.T, l *load) {
	t.Helper()
	l.stop()
	l.over.Wait()
	harness.Eventually(t, time.Minute, "every record is handled", func() error {
		g.mu.Lock()
		defer g.mu.Unlock()
		for p, records := range l.acked {
			for offset, value := range records {
				if g.handled[value] == 0 {
					return fmt.Errorf("record %d of partition %d is not", offset, p)
				}
			}
		}
		return nil
	})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var offsets kadm.OffsetResponses
	harness.Eventually(t, time.Minute, "the committed offsets are known", func() (err error) {
		if offsets, err = kadm.NewClient(g.c.client(t)).FetchOffsets(ctx, g.group); err == nil {
			err = offsets.Error()
		}
		return err
	})
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.committed) == 0 {
		t.Error("nothing was committed: the group proves nothing")
	}
	for p, at := range g.committed {
		if o, ok := offsets.Lookup(g.topic, p); !ok || o.At < at {
			t.Errorf("offset %d of partition %d was acknowledged as committed, now it is %d", at, p, o.At)
		}
	}
	for _, fault := range g.faults {
		t.Error(fault)
	}
	again := 0
	for _, n := range g.handled {
		again += n - 1
	}
	t.Logf("group %s: generation %d, %d records handled, %d times again", g.group, newest(g.claims), len(g.handled), again)
}

func newest(claims map[claim]string) int32 {
	generation := int32(math.MinInt32)
	for at := range claims {
		generation = max(generation, at.generation)
	}
	return generation
}

// coordinator returns which node coordinates a group.
func (c *cluster) coordinator(t *testing.T, group string) int {
	t.Helper()
	node := -1
	harness.Eventually(t, time.Minute, "the group has a coordinator", func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		found := kadm.NewClient(c.client(t)).FindGroupCoordinators(ctx, group)
		if err := found.Error(); err != nil {
			return err
		}
		node = int(found[group].NodeID)
		if _, known := c.nodes[node]; !known {
			return fmt.Errorf("node %d", node)
		}
		return nil
	})
	return node
}

// TestGroupOverCoordinatorKill: a group goes on when its coordinator dies, again and again: one owner of each partition in a
// generation, and no acknowledged commit is lost (rows 45–48).
func TestGroupOverCoordinatorKill(t *testing.T) {
	c := start(t, 3, groupSettings...)
	c.create(t, "orders", 6, 3, nil)
	c.inSync(t, "orders", 3)
	l := c.produce(t, "orders", 6)
	g := c.team("audit", "orders", kgo.Balancers(kgo.RoundRobinBalancer()))
	g.join(t, "anna", false)
	g.join(t, "bela", false)
	g.commits(t, 300)
	for round := range 2 {
		victim := c.coordinator(t, "audit")
		c.nodes[victim].kill()
		g.commits(t, 300)
		if round == 0 {
			g.join(t, "cleo", false)
			g.commits(t, 300)
		}
		c.nodes[victim].restart(t)
		c.inSync(t, "orders", 3)
		c.inSync(t, "__consumer_offsets", 3)
	}
	g.commits(t, 300)
	g.check(t, l)
	l.check(t, c)
}

// TestGroupOverCoordinatorPause: the coordinator sleeps for longer than its own session and the members'. What it says when it
// wakes up moves nobody (rows 3, 45, 46).
func TestGroupOverCoordinatorPause(t *testing.T) {
	thorough(t)
	c := start(t, 3, append([]string{quick, "broker.heartbeat.interval.ms=500"}, groupSettings...)...)
	c.create(t, "orders", 6, 3, nil)
	c.inSync(t, "orders", 3)
	l := c.produce(t, "orders", 6)
	g := c.team("audit", "orders", kgo.Balancers(kgo.CooperativeStickyBalancer()))
	g.join(t, "anna", false)
	second := g.join(t, "bela", false)
	g.commits(t, 300)
	victim := c.coordinator(t, "audit")
	c.nodes[victim].signal(t, syscall.SIGSTOP)
	g.commits(t, 300)
	second.leave() // a rebalance at the new coordinator while the old one still believes in its own members
	g.join(t, "cleo", false)
	g.commits(t, 300)
	c.nodes[victim].signal(t, syscall.SIGCONT)
	g.commits(t, 300)
	c.inSync(t, "orders", 3)
	g.check(t, l)
	l.check(t, c)
}

// TestGroupOfStaticMembers: members with names of their own come back to what they had, over a coordinator's death too, and
// nobody else is disturbed (row 45).
func TestGroupOfStaticMembers(t *testing.T) {
	thorough(t)
	c := start(t, 3, groupSettings...)
	members := scale(2, 30)
	c.create(t, "orders", int32(3*members), 3, nil)
	c.inSync(t, "orders", 3)
	l := c.produce(t, "orders", int32(3*members))
	g := c.team("audit", "orders", kgo.Balancers(kgo.CooperativeStickyBalancer()), kgo.SessionTimeout(10*time.Second))
	for i := range members - 1 {
		anna := g.join(t, "anna"+strconv.Itoa(i), true)
		if i > 0 {
			continue
		}
		// The first one leads the group. Were it bela, she would make a new plan when she is back, find it different, and ask for another
		// generation: that is franz-go's.
		harness.Eventually(t, time.Minute, "the first member has everything", func() error {
			if held := anna.holds(); len(held) != 3*members {
				return fmt.Errorf("it holds %v", held)
			}
			return nil
		})
	}
	second := g.join(t, "bela", true)
	harness.Eventually(t, time.Minute, "all have partitions", func() error {
		if held := second.holds(); len(held) != 3 {
			return fmt.Errorf("bela holds %v", held)
		}
		return nil
	})
	g.commits(t, 300)
	before, had := g.generation(), second.holds()
	second.leave()
	second = g.join(t, "bela", true)
	g.commits(t, 300)
	if now := g.generation(); now != before {
		t.Errorf("generation %d became %d, although every member came back in time", before, now)
	}
	second.leave()
	victim := c.coordinator(t, "audit")
	c.nodes[victim].kill()
	second = g.join(t, "bela", true)
	g.commits(t, 600)
	c.nodes[victim].restart(t)
	g.commits(t, 300)
	// A member whose heartbeat found nobody may join anew, and says then that it has nothing: in the generation that comes of it
	// everybody has as much as before, and not always the same.
	harness.Eventually(t, time.Minute, "bela has as much as before", func() error {
		if has := second.holds(); len(has) != len(had) || g.generation() == before && !slices.Equal(has, had) {
			return fmt.Errorf("it had %v and has %v", had, has)
		}
		return nil
	})
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	admin := kadm.NewClient(c.client(t))
	harness.Eventually(t, time.Minute, "each member has a name of its own", func() error {
		described, err := admin.DescribeGroups(ctx, "audit")
		if err == nil {
			err = described.Error()
		}
		if err != nil {
			return err
		}
		names := map[string]bool{}
		for _, m := range described["audit"].Members {
			if m.InstanceID != nil {
				names[*m.InstanceID] = true
			}
		}
		if n := len(described["audit"].Members); n != members || len(names) != members {
			return fmt.Errorf("%d members have %d names, and there are %d", n, len(names), members)
		}
		return nil
	})
	c.inSync(t, "orders", 3)
	g.check(t, l)
	l.check(t, c)
}

// TestGroupsOverRollingRestart: several groups of one coordinator each, cooperative ones and others, while every node is stopped and
// started: nobody starts over, nobody is stuck (rows 45–48).
func TestGroupsOverRollingRestart(t *testing.T) {
	c := start(t, 3, groupSettings...)
	c.create(t, "orders", 6, 3, nil)
	c.inSync(t, "orders", 3)
	l := c.produce(t, "orders", 6)
	var teams []*team
	for i := range scale(4, 16) {
		balancer := kgo.CooperativeStickyBalancer()
		if i%2 == 1 {
			balancer = kgo.RangeBalancer()
		}
		g := c.team("team-"+strconv.Itoa(i), "orders", kgo.Balancers(balancer))
		g.join(t, "anna", false)
		g.join(t, "bela", false)
		teams = append(teams, g)
	}
	for _, id := range c.ids() {
		for _, g := range teams {
			g.commits(t, 200)
		}
		c.nodes[id].stop(t)
		c.nodes[id].restart(t)
		c.inSync(t, "orders", 3)
		c.inSync(t, "__consumer_offsets", 3)
	}
	for _, g := range teams {
		g.commits(t, 200)
	}
	for _, g := range teams {
		g.check(t, l)
	}
	l.check(t, c)
}

// TestOffsetsOfManyCommits: thousands of commits are loaded by the next coordinator while a client waits (row 47).
func TestOffsetsOfManyCommits(t *testing.T) {
	thorough(t)
	c := start(t, 3)
	c.create(t, "orders", 20, 3, nil)
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(scale(10, 30))*time.Minute)
	defer cancel()
	cl := c.client(t)
	admin := kadm.NewClient(cl)
	commits := scale(5_000, 200_000)
	var work sync.WaitGroup
	var mu sync.Mutex
	var failed error
	for w := range 20 {
		work.Go(func() {
			for i := w; i < commits; i += 20 {
				var offsets kadm.Offsets
				offsets.AddOffset("orders", int32(w), int64(i), -1)
				if err := admin.CommitAllOffsets(ctx, "busy", offsets); err != nil {
					mu.Lock()
					failed = errors.Join(failed, err)
					mu.Unlock()
					return
				}
			}
		})
	}
	work.Wait()
	if failed != nil {
		t.Fatal(failed)
	}
	c.nodes[c.coordinator(t, "busy")].kill()
	began := time.Now()
	var offsets kadm.OffsetResponses
	harness.Eventually(t, time.Minute, "the next coordinator knows the offsets", func() (err error) {
		if offsets, err = admin.FetchOffsets(ctx, "busy"); err == nil {
			err = offsets.Error()
		}
		return err
	})
	t.Logf("offsets after %v", time.Since(began).Round(time.Millisecond))
	for w := range 20 {
		if o, ok := offsets.Lookup("orders", int32(w)); !ok || o.At != int64(commits-20+w) {
			t.Errorf("partition %d: %d, want %d", w, o.At, commits-20+w)
		}
	}
}
