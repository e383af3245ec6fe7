package group

import (
	"slices"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
)

// state is where a group is between two generations, in Kafka's words.
type state int8

const (
	empty      state = iota // no members; offsets, perhaps
	preparing               // members are asked to join again
	completing              // all have joined; the leader works out the assignment
	stable                  // each has its part
)

// String is the name that clients know.
func (s state) String() string {
	return [...]string{"Empty", "PreparingRebalance", "CompletingRebalance", "Stable"}[s]
}

// consumerProtocol is the protocol type whose subscriptions the coordinator can read.
const consumerProtocol = "consumer"

// group is one consumer group.
type group struct {
	id           string
	protocolType string // "": it never had members
	generation   int32
	protocol     *string // the chosen assignor
	leader       string  // member id; "": none
	state        state
	since        int64 // when it came to that state, in ms; -1: unknown

	members    map[string]*member
	order      []*member            // in the order in which they came
	instances  map[string]*member   // static ones by instance id
	pending    map[string]*pending  // ids given out, and not used yet (KIP-394)
	subscribed map[string]bool      // topics that members want; nil: unknown
	offsets    map[string]partition // by topic
	heldBytes  int                  // of all members
	held       *atomic.Int64        // the same of all groups of the node

	first    bool              // the rebalance under way began with an empty group
	newcomer bool              // during it, somebody came since the last look
	timer    coordinator.Timer // the end of the join, or of the wait for syncs
}

// partition is committed offsets by partition.
type partition = map[int32]committed

// pending is a member id that was given out.
type pending struct {
	timeout coordinator.Timer
}

func newGroup(id string, held *atomic.Int64) *group {
	return &group{id: id, held: held, since: -1, members: map[string]*member{}, instances: map[string]*member{}, pending: map[string]*pending{}, offsets: map[string]partition{}}
}

// hold counts bytes that members make the node hold.
func (g *group) hold(bytes int) {
	g.heldBytes += bytes
	g.held.Add(int64(bytes))
}

func (g *group) become(s state, nowMs int64) { g.state, g.since = s, nowMs }

// add puts a member in. The first is the leader.
func (g *group) add(m *member) {
	if len(g.order) == 0 {
		g.leader = m.id
	}
	g.members[m.id] = m
	g.order = append(g.order, m)
	if m.static() {
		g.instances[*m.instance] = m
	}
	g.hold(m.bytes())
	delete(g.pending, m.id)
}

// remove takes a member out. Its timer and what it waits for are the caller's.
func (g *group) remove(m *member) {
	delete(g.members, m.id)
	g.order = slices.DeleteFunc(g.order, func(other *member) bool { return other == m })
	if m.static() && g.instances[*m.instance] == m {
		delete(g.instances, *m.instance)
	}
	g.hold(-m.bytes())
	if g.leader == m.id {
		g.leader = ""
		if len(g.order) > 0 {
			g.leader = g.order[0].id
		}
	}
}

// change gives a member what it says anew.
func (g *group) change(m *member, protocols []protocol, rebalanceMs, sessionMs int32) {
	g.hold(-m.bytes())
	m.protocols, m.rebalance, m.session = protocols, rebalanceMs, sessionMs
	g.hold(m.bytes())
}

// allJoined reports whether the join needs to wait for nobody.
func (g *group) allJoined() bool {
	return len(g.pending) == 0 && !slices.ContainsFunc(g.order, func(m *member) bool { return m.join == nil })
}

// joining is how many members wait for the end of the join.
func (g *group) joining() int {
	n := 0
	for _, m := range g.order {
		if m.join != nil {
			n++
		}
	}
	return n
}

// electJoined makes sure that the leader is one who has joined, and reports whether there is one.
func (g *group) electJoined() bool {
	if leader := g.members[g.leader]; leader != nil && leader.join != nil {
		return true
	}
	for _, m := range g.order {
		if m.join != nil {
			g.leader = m.id
			return true
		}
	}
	return false
}

// supports reports whether somebody with these protocols can be a member: there is an assignor that all know.
func (g *group) supports(protocolType string, protocols []kmsg.JoinGroupRequestProtocol) bool {
	if g.state == empty {
		return protocolType != "" && len(protocols) > 0
	}
	if protocolType != g.protocolType {
		return false
	}
	return slices.ContainsFunc(protocols, func(p kmsg.JoinGroupRequestProtocol) bool { return g.knowers(p.Name) == len(g.order) })
}

// knowers is how many members know an assignor.
func (g *group) knowers(name string) int {
	n := 0
	for _, m := range g.order {
		if slices.ContainsFunc(m.protocols, func(p protocol) bool { return p.name == name }) {
			n++
		}
	}
	return n
}

// choose returns the assignor that most members prefer among those that all know; the one that was voted for first, if
// several have as many votes. "" if there is none.
func (g *group) choose() string {
	common := map[string]bool{}
	for _, p := range g.order[0].protocols {
		common[p.name] = g.knowers(p.name) == len(g.order)
	}
	votes := map[string]int{}
	best := ""
	for _, m := range g.order {
		if i := slices.IndexFunc(m.protocols, func(p protocol) bool { return common[p.name] }); i >= 0 {
			votes[m.protocols[i].name]++
		}
	}
	for _, m := range g.order {
		i := slices.IndexFunc(m.protocols, func(p protocol) bool { return common[p.name] })
		if i >= 0 && (best == "" || votes[m.protocols[i].name] > votes[best]) {
			best = m.protocols[i].name
		}
	}
	return best
}

// rebalanceMs is how long a join may take: as long as the most patient member says.
func (g *group) rebalanceMs() int32 {
	var longest int32
	for _, m := range g.order {
		longest = max(longest, m.rebalance)
	}
	return longest
}

// check says why a request that claims to be of a member is not. Mirrors ClassicGroup.validateMember.
func (g *group) check(id string, instance *string) error {
	if instance != nil {
		known := g.instances[*instance]
		switch {
		case known == nil:
			return kerr.UnknownMemberID
		case known.id != id:
			return kerr.FencedInstanceID // another process has taken this one's place
		}
	}
	if g.members[id] == nil {
		return kerr.UnknownMemberID
	}
	return nil
}

// value is the group as its record has it, with the assignment given.
func (g *group) value(assignment func(*member) []byte) *kmsg.GroupMetadataValue {
	v := kmsg.NewGroupMetadataValue()
	v.ProtocolType, v.Generation, v.Protocol, v.CurrentStateTimestamp = g.protocolType, g.generation, g.protocol, g.since
	if g.leader != "" {
		v.Leader = &g.leader
	}
	for _, m := range g.order {
		stored := kmsg.NewGroupMetadataValueMember()
		stored.MemberID, stored.InstanceID, stored.ClientID, stored.ClientHost = m.id, m.instance, m.client.ID, m.client.Host
		stored.RebalanceTimeoutMillis, stored.SessionTimeoutMillis = m.rebalance, m.session
		if g.protocol != nil {
			stored.Subscription = m.metadata(*g.protocol)
		}
		stored.Assignment = assignment(m)
		v.Members = append(v.Members, stored)
	}
	return &v
}

// readSubscriptions works out which topics members want, where that can be known.
func (g *group) readSubscriptions() {
	g.subscribed = nil
	if g.protocolType != consumerProtocol {
		return
	}
	topics := map[string]bool{}
	for _, m := range g.order {
		if g.protocol == nil || !readSubscription(m.metadata(*g.protocol), topics) {
			return
		}
	}
	g.subscribed = topics
}

// readSubscription adds the topics of one subscription, which every version begins with (ConsumerProtocolSubscription).
func readSubscription(b []byte, topics map[string]bool) bool {
	r := reader{b: b}
	if version := r.int16(); version < 0 {
		return false
	}
	for n := r.int32(); n > 0 && !r.bad; n-- {
		topics[string(r.string())] = true
	}
	return !r.bad
}

// wants reports whether members are subscribed to a topic. When a consumer group's subscriptions cannot be read, to all.
func (g *group) wants(topic string) bool {
	if g.subscribed != nil {
		return g.subscribed[topic]
	}
	return g.protocolType == consumerProtocol
}
