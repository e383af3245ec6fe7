package group

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

func joinRequest(group string, metadataBytes int) *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.ProtocolType, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 9, group, "consumer", 10_000, 10_000
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name, p.Metadata = "range", make([]byte, metadataBytes)
	req.Protocols = append(req.Protocols, p)
	return req
}

// joins is the error that a join is answered with at once.
func (w *world) joins(req *kmsg.JoinGroupRequest, client Client) error {
	w.T.Helper()
	p := w.c.Join(req, client)
	synctest.Wait()
	select {
	case <-p.Given():
	default:
		return nil
	}
	resp, err := p.Answer()
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.ErrorCode)
}

func (w *world) wantError(err error, want *kerr.Error) {
	w.T.Helper()
	if err != want {
		w.T.Errorf("got %v, want %v", err, want)
	}
}

// TestLargeMembers: what a member, a group, and all groups make the node hold has an end, and what goes is let go of.
func TestLargeMembers(t *testing.T) {
	inWorld(t, func(w *world) {
		w.groups.MaxSize = 1000
		w.Restart()
		old := joinRequest("g", maxMemberBytes)
		old.Version = 3 // in at once
		w.wantError(w.joins(old, Client{}), kerr.GroupMaxSizeReached)
		const share = maxMemberBytes - 4096
		for g := range maxNodeBytes / maxGroupBytes {
			for range maxGroupBytes / maxMemberBytes {
				req := joinRequest(fmt.Sprint("g", g), share)
				req.Version = 3
				if err := w.joins(req, Client{}); err != nil {
					t.Fatalf("group %d: %v", g, err)
				}
			}
			req := joinRequest(fmt.Sprint("g", g), share)
			req.Version = 3
			w.wantError(w.joins(req, Client{}), kerr.GroupMaxSizeReached)
		}
		other := joinRequest("other", share)
		other.Version = 3
		w.wantError(w.joins(other, Client{}), kerr.GroupMaxSizeReached)
	})
}

// TestManyPendingMembers: ids that nobody comes back with are bounded, and those who are members are not touched by it.
func TestManyPendingMembers(t *testing.T) {
	inWorld(t, func(w *world) {
		static := joinRequest("g", 10)
		static.InstanceID = kmsg.StringPtr("i")
		if err := w.joins(static, Client{}); err != nil {
			t.Fatal(err)
		}
		for range maxPending {
			w.c.Join(joinRequest("g", 10), Client{})
		}
		w.wantError(w.joins(joinRequest("g", 10), Client{}), kerr.GroupMaxSizeReached)
		second := joinRequest("g", 10)
		second.InstanceID = kmsg.StringPtr("j")
		if err := w.joins(second, Client{}); err != nil {
			t.Errorf("a static member: %v", err)
		}
	})
}

// TestLongNames: what could not be stored is refused, and a note is measured as Java does.
func TestLongNames(t *testing.T) {
	inWorld(t, func(w *world) {
		long := strings.Repeat("x", 1<<15)
		w.wantError(w.joins(joinRequest(long, 1), Client{}), kerr.InvalidGroupID)
		w.wantError(w.joins(joinRequest("g", 1), Client{ID: long}), kerr.InvalidRequest)
		req := joinRequest("g", 1)
		req.InstanceID = &long
		w.wantError(w.joins(req, Client{}), kerr.InvalidRequest)
		req = joinRequest("g", 1)
		req.ProtocolType = long
		w.wantError(w.joins(req, Client{}), kerr.InvalidRequest)
		req = joinRequest("g", 1)
		req.Protocols[0].Name = long
		w.wantError(w.joins(req, Client{}), kerr.InvalidRequest)
		for note, want := range map[string]error{
			"12345678": nil, "123456789": kerr.OffsetMetadataTooLarge,
			"grüßegrü": nil, "😀😀😀😀": nil, "😀😀😀😀😀": kerr.OffsetMetadataTooLarge,
		} {
			p := w.c.Commit(Commit{Group: "g", Generation: -1, RetentionMs: -1, Offsets: []Offset{{TopicPartition: kafka.TopicPartition{Topic: "orders"}, Metadata: note}}})
			synctest.Wait()
			errs, err := p.Answer()
			if err != nil || errs[0] != want {
				t.Errorf("note %q: %v, %v", note, errs, err)
			}
		}
		commit := w.c.Commit(Commit{Group: long, Generation: -1})
		if _, err := commit.Answer(); err != kerr.InvalidGroupID {
			t.Errorf("commit: %v", err)
		}
	})
}
