package group

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
)

// TestThousandMembers: a large group forms, is assigned, loses members, and everybody gets the part that is theirs.
func TestThousandMembers(t *testing.T) {
	inWorld(t, func(w *world) {
		const members = 1000
		w.groups.MaxSize = members
		w.Restart()
		type joined = coordinator.Promise[*kmsg.JoinGroupResponse]
		var joins []*joined
		join := func(id string) *joined {
			req := joinRequest("g", 100)
			req.MemberID, req.Version = id, 3
			p := w.c.Join(req, Client{ID: "c"})
			return p
		}
		for range members {
			joins = append(joins, join(""))
		}
		time.Sleep(6 * time.Second)
		synctest.Wait()
		answer := func(p *joined) *kmsg.JoinGroupResponse {
			resp, err := p.Answer()
			if err != nil || resp.ErrorCode != 0 {
				t.Fatalf("join: %v, %+v", err, resp)
			}
			return resp
		}
		var ids []string
		for _, p := range joins {
			ids = append(ids, answer(p).MemberID)
		}
		sync := func(generation int32, ids []string) {
			var parts []*syncAnswer
			for i, id := range ids {
				req := kmsg.NewPtrSyncGroupRequest()
				req.Group, req.MemberID, req.Generation = "g", id, generation
				if i == 0 {
					for _, each := range ids {
						a := kmsg.NewSyncGroupRequestGroupAssignment()
						a.MemberID, a.MemberAssignment = each, []byte(each)
						req.GroupAssignment = append(req.GroupAssignment, a)
					}
				}
				parts = append(parts, w.c.Sync(req))
			}
			synctest.Wait()
			for i, p := range parts {
				if resp, err := p.Answer(); err != nil || string(resp.MemberAssignment) != ids[i] {
					t.Fatalf("member %d got %+v, %v", i, resp, err)
				}
			}
		}
		sync(1, ids)
		for i, id := range ids[members-10:] {
			p := w.c.Leave("g", []kmsg.LeaveGroupRequestMember{{MemberID: id}})
			synctest.Wait()
			if errs, err := p.Answer(); err != nil || errs[0] != nil {
				t.Fatalf("leave %d: %v %v", i, errs, err)
			}
		}
		ids = ids[:members-10]
		joins = joins[:0]
		for _, id := range ids {
			joins = append(joins, join(id))
		}
		synctest.Wait()
		if got := answer(joins[0]); got.Generation != 2 || len(got.Members) != members-10 {
			t.Errorf("generation %d with %d members", got.Generation, len(got.Members))
		}
		sync(2, ids)
	})
}
