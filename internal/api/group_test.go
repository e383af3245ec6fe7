package api

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func joinOf(member string) *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.MemberID, req.ProtocolType = 3, "g", member, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 10_000, 60_000
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name = "range"
	req.Protocols = append(req.Protocols, p)
	return req
}

// findGroups has the topic for groups created.
func (n *testNode) findGroups() {
	n.t.Helper()
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.Version, req.CoordinatorKey = 3, "g"
	if resp := n.ask(req).(*kmsg.FindCoordinatorResponse); resp.ErrorCode != 0 {
		n.t.Fatalf("find coordinator: error %d", resp.ErrorCode)
	}
}

// TestWaitingMembersHoldNobodyUp: while a member waits for others, other connections are served, and its own gets what
// may overlap in order behind its answer.
func TestWaitingMembersHoldNobodyUp(t *testing.T) {
	inNode(t, nodeOptions{}, func(n *testNode) {
		n.findGroups()
		waiting := n.dial(n.broker)
		defer waiting.close()
		join := joinOf("")
		before := time.Now()
		waiting.send(join)
		versions := kmsg.NewPtrApiVersionsRequest()
		waiting.send(versions)
		synctest.Wait()
		describe := kmsg.NewPtrDescribeGroupsRequest()
		describe.Groups = []string{"g"}
		if got := n.ask(describe).(*kmsg.DescribeGroupsResponse).Groups[0].State; got != "PreparingRebalance" || time.Since(before) > 0 {
			t.Errorf("while one waits: %s after %v", got, time.Since(before))
		}
		if resp := waiting.receive(join).(*kmsg.JoinGroupResponse); resp.ErrorCode != 0 || time.Since(before) != 3*time.Second {
			t.Errorf("joined after %v: %+v", time.Since(before), resp)
		}
		if resp := waiting.receive(versions).(*kmsg.ApiVersionsResponse); resp.ErrorCode != 0 {
			t.Errorf("api versions: %+v", resp)
		}
	})
}

// TestWaitingMembersAtTheEnd: a member that waits when the node stops is told to look for another coordinator, and one
// that has gone leaves nothing behind.
func TestWaitingMembersAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := startNode(t, nodeOptions{})
		n.findGroups()
		gone := n.dial(n.broker)
		gone.send(joinOf(""))
		synctest.Wait()
		gone.close()
		waiting := n.dial(n.broker)
		join := joinOf("")
		waiting.send(join)
		synctest.Wait()
		answer := make(chan int16, 1)
		go func() { answer <- waiting.receive(join).(*kmsg.JoinGroupResponse).ErrorCode }()
		n.stop()
		if code := <-answer; code != kerr.NotCoordinator.Code {
			t.Errorf("error %d", code)
		}
		waiting.close()
	})
}

// TestNoGroupsYet: while nobody has asked for a coordinator, and so there is no topic for groups, no node is one. Kafka's
// coordinator says the same of a partition that it has not loaded.
func TestNoGroupsYet(t *testing.T) {
	inNode(t, nodeOptions{}, func(n *testNode) {
		fetch := kmsg.NewPtrOffsetFetchRequest()
		fetch.Version = 8
		group := kmsg.NewOffsetFetchRequestGroup()
		group.Group = "g"
		fetch.Groups = append(fetch.Groups, group)
		if got := n.ask(fetch).(*kmsg.OffsetFetchResponse).Groups[0].ErrorCode; got != kerr.NotCoordinator.Code {
			t.Errorf("fetch of offsets: error %d", got)
		}
		if got := n.ask(joinOf("")).(*kmsg.JoinGroupResponse).ErrorCode; got != kerr.NotCoordinator.Code {
			t.Errorf("join: error %d", got)
		}
		describe := kmsg.NewPtrDescribeGroupsRequest()
		describe.Groups = []string{"g"}
		if got := n.ask(describe).(*kmsg.DescribeGroupsResponse).Groups[0].ErrorCode; got != kerr.NotCoordinator.Code {
			t.Errorf("describe: error %d", got)
		}
	})
}

// TestOffsetsTopicByName: the topic for groups has its own shape whoever names it first, a consumer that wants to read it
// included; a topic that something missing would need does not come into being as an ordinary one.
func TestOffsetsTopicByName(t *testing.T) {
	inNode(t, nodeOptions{}, func(n *testNode) {
		req := kmsg.NewPtrMetadataRequest()
		req.Version, req.AllowAutoTopicCreation = 12, true
		for _, name := range []string{"__consumer_offsets", "__transaction_state", "__share_group_state"} {
			topic := kmsg.NewMetadataRequestTopic()
			topic.Topic = &name
			req.Topics = append(req.Topics, topic)
		}
		topics := n.ask(req).(*kmsg.MetadataResponse).Topics
		if got := topics[0]; got.ErrorCode != 0 || len(got.Partitions) != int(n.api.o.Offsets.Partitions) || !got.IsInternal {
			t.Errorf("%s has %d partitions, want %d: %+v", *got.Topic, len(got.Partitions), n.api.o.Offsets.Partitions, got)
		}
		if got := n.loader.Image().Configs.Topic("__consumer_offsets")["cleanup.policy"]; got != "compact" {
			t.Errorf("its cleanup.policy is %q", got)
		}
		for _, got := range topics[1:] {
			if got.ErrorCode != kerr.UnknownTopicOrPartition.Code {
				t.Errorf("%s: error %d", *got.Topic, got.ErrorCode)
			}
		}
	})
}
