package api

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/wire"
)

// enveloped asks the controller's listener for req as a broker would that passes it on.
func (n *testNode) enveloped(req kmsg.Request) *kmsg.EnvelopeResponse {
	client := "console"
	principal := kmsg.DefaultPrincipalData{Type: "User", Name: "alice"}
	e := kmsg.NewPtrEnvelopeRequest()
	e.RequestData = wire.AppendRequest(nil, 7, &client, req)[4:]
	e.RequestPrincipal = principal.AppendTo(nil)
	e.ClientHostAddress = []byte{127, 0, 0, 1}
	c := n.dial(n.control)
	defer c.close()
	return c.do(e).(*kmsg.EnvelopeResponse)
}

// TestEnvelope: what a broker passes on is answered as if it had been asked for directly (KIP-590).
func TestEnvelope(t *testing.T) {
	inNode(t, nodeOptions{}, func(n *testNode) {
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "orders", 1, 1
		create := kmsg.NewPtrCreateTopicsRequest()
		create.Version, create.TimeoutMillis = 7, 10000
		create.Topics = append(create.Topics, topic)
		e := n.enveloped(create)
		if e.ErrorCode != 0 {
			t.Fatalf("envelope: %v", kerr.ErrorForCode(e.ErrorCode))
		}
		answer := create.ResponseKind().(*kmsg.CreateTopicsResponse)
		id, err := wire.ReadResponse(e.ResponseData, answer)
		if err != nil || id != 7 || len(answer.Topics) != 1 || answer.Topics[0].ErrorCode != 0 {
			t.Fatalf("answer %d: %+v, %v", id, answer, err)
		}
		if _, ok := n.loader.Image().Topics.ByName("orders"); !ok {
			t.Error("the topic does not exist")
		}
	})
}

// TestEnvelopeOfAnother: only what brokers pass on may come in an envelope; the rest would get around a listener's rules.
func TestEnvelopeOfAnother(t *testing.T) {
	inNode(t, nodeOptions{}, func(n *testNode) {
		fetch := kmsg.NewPtrFetchRequest()
		fetch.Version = 12
		newer := kmsg.NewPtrDeleteTopicsRequest()
		newer.Version = 100
		for _, req := range []kmsg.Request{fetch, newer, kmsg.NewPtrBrokerHeartbeatRequest(), kmsg.NewPtrEnvelopeRequest()} {
			if e := n.enveloped(req); e.ErrorCode != kerr.InvalidRequest.Code {
				t.Errorf("%s version %d: error %d", kmsg.NameForKey(req.Key()), req.GetVersion(), e.ErrorCode)
			}
		}
	})
}
