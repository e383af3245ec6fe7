package group

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
)

// kind is the type of group that ListGroups tells (KIP-848).
const kind = "classic"

// describe shows a group. Assignors' metadata are shown while there is a generation.
func (s *shard) describe(id string) (*kmsg.DescribeGroupsResponseGroup, error) {
	g := s.groups[id]
	if g == nil {
		return nil, kerr.GroupIDNotFound
	}
	out := kmsg.NewDescribeGroupsResponseGroup()
	out.Group, out.State, out.ProtocolType = g.id, g.state.String(), g.protocolType
	if g.state == stable && g.protocol != nil {
		out.Protocol = *g.protocol
	}
	for _, m := range g.order {
		shown := kmsg.NewDescribeGroupsResponseGroupMember()
		shown.MemberID, shown.InstanceID, shown.ClientID, shown.ClientHost = m.id, m.instance, m.client.ID, m.client.Host
		shown.MemberAssignment = m.assignment
		if g.state == stable {
			shown.ProtocolMetadata = m.metadata(out.Protocol)
		}
		out.Members = append(out.Members, shown)
	}
	return &out, nil
}

// list is the groups in given states and of given types; none given: all.
func (s *shard) list(states, types []string) []kmsg.ListGroupsResponseGroup {
	among := func(names []string, name string) bool {
		return len(names) == 0 || slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
	}
	var out []kmsg.ListGroupsResponseGroup
	for _, g := range s.sorted() {
		if among(states, g.state.String()) && among(types, kind) {
			listed := kmsg.NewListGroupsResponseGroup()
			listed.Group, listed.ProtocolType, listed.GroupState, listed.GroupType = g.id, g.protocolType, g.state.String(), kind
			out = append(out, listed)
		}
	}
	return out
}

// delete removes a group that has no members, and all that it has committed.
func (s *shard) delete(t *coordinator.Turn, id string) error {
	g := s.groups[id]
	switch {
	case g == nil:
		return kerr.GroupIDNotFound
	case g.state != empty:
		return kerr.NonEmptyGroup
	}
	var records []coordinator.Record
	for tp := range g.all() {
		records = append(records, offsetRecord(id, tp.Topic, tp.Partition, nil))
	}
	if err := t.Append(append(records, groupRecord(nil, id))...); err != nil {
		return coordinator.Fault(err)
	}
	s.drop(t, g)
	return nil
}
