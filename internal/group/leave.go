package group

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
)

// leave takes members out at once. The errors are those of each. Mirrors classicGroupLeaveToClassicGroup.
func (s *shard) leave(t *coordinator.Turn, id string, leaving []kmsg.LeaveGroupRequestMember) []error {
	g := s.groups[id]
	errs := make([]error, len(leaving))
	left := false
	for i, l := range leaving {
		if g == nil {
			errs[i] = kerr.UnknownMemberID
			continue
		}
		if p := g.pending[l.MemberID]; p != nil {
			t.Cancel(&p.timeout)
			delete(g.pending, l.MemberID)
			left = true
			continue
		}
		m := g.members[l.MemberID]
		var err error
		if l.MemberID == "" && l.InstanceID != nil { // an operator removes a static member by its name
			m = g.instances[*l.InstanceID]
			if m == nil {
				err = kerr.UnknownMemberID
			}
		} else {
			err = g.check(l.MemberID, l.InstanceID)
		}
		if errs[i] = err; err == nil {
			s.expel(t, g, m)
			left = true
		}
	}
	if left {
		s.bereave(t, g)
	}
	return errs
}
