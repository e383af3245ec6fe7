package znode

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

const newTopic = `{"version":1,"partitions":{"0":[1]}}`

// A write that is a command is answered when the tree shows what the cluster has done, and only the session that wrote it
// waits for that.
func TestCommandIsAnsweredWhenTheTreeShowsIt(t *testing.T) {
	inWorld(t, func(w *world) {
		asked := make(chan kmsg.Request, 1)
		w.command = func(_ context.Context, req kmsg.Request) (Outcome, error) {
			asked <- req
			resp := kmsg.NewPtrCreateTopicsResponse()
			topic := kmsg.NewCreateTopicsResponseTopic()
			topic.Topic = "orders"
			resp.Topics = append(resp.Topics, topic)
			return Outcome{Response: resp, Offset: w.Image().Offset + 1}, nil
		}
		a, b := w.call("a", Connect{TimeoutMs: 6000}), w.call("b", Connect{TimeoutMs: 30000})
		synctest.Wait()
		_, _ = a.messages()
		b.do(GetChildren{Path: "/brokers/topics", Watch: true})
		returned := make(chan struct{})
		go func() {
			w.Must(a.Do(context.Background(), 1, Create{Path: "/brokers/topics/orders", Data: []byte(newTopic), ACL: open()}))
			close(returned)
		}()
		synctest.Wait()
		if req, ok := (<-asked).(*kmsg.CreateTopicsRequest); !ok || req.Topics[0].Topic != "orders" {
			t.Fatalf("the controller was asked %+v", req)
		}
		if got, err := a.messages(); len(got) > 0 || err != nil {
			t.Fatalf("answered before the tree shows it: %+v, %v", got, err)
		}
		if m, _ := b.do(Exists{Path: "/brokers/topics/orders"}); m.Code != NoNode {
			t.Errorf("another client sees %+v", m)
		}
		id := kafka.TopicID{9}
		w.Apply(&metadata.TopicRecord{Name: "orders", TopicID: id}, &metadata.PartitionRecord{
			TopicID: id, Replicas: []kafka.NodeID{self}, ISR: []kafka.NodeID{self}, Leader: self, Directories: make([]kafka.DirID, 1),
		})
		<-returned
		synctest.Wait()
		got, err := a.messages()
		if err != nil || len(got) != 1 || got[0].Code != OK || got[0].Answer.(Created).Path != "/brokers/topics/orders" {
			t.Errorf("answer %+v, %v", got, err)
		}
		m, events := b.do(GetData{Path: "/brokers/topics/orders"})
		if len(events) != 1 || events[0] != (Event{NodeChildrenChanged, "/brokers/topics"}) || string(m.Answer.(Content).Data) != newTopic {
			t.Errorf("the other client: %+v %+v", m, events)
		}
		if m, _ := a.do2(2, SetData{"/brokers/ids", nil, -1}); m.Code != NoAuth {
			t.Errorf("a write that is nobody's: %+v", m)
		}
		if m, _ := a.do2(3, Multi{[]Op{Create{Path: "/brokers/topics/more", Data: []byte(newTopic), ACL: open()}}}); !m.Answer.(Results).Failed {
			t.Errorf("a command in a multi: %+v", m)
		}
	})
}

// A cluster that does not answer costs the client an error, and neither its session nor what it asks later.
func TestCommandThatFails(t *testing.T) {
	inWorld(t, func(w *world) {
		w.command = func(ctx context.Context, _ kmsg.Request) (Outcome, error) {
			<-ctx.Done()
			return Outcome{}, errors.New("no controller")
		}
		a := w.call("a", Connect{TimeoutMs: 4000})
		synctest.Wait()
		began := time.Now()
		m, _ := a.do2(1, Create{Path: "/brokers/topics/orders", Data: []byte(newTopic), ACL: open()})
		if m.Code != ConnectionLoss || time.Since(began) != 5*time.Second {
			t.Errorf("after %v: %+v", time.Since(began), m)
		}
		if m, _ := a.do2(2, Exists{Path: "/brokers/topics"}); m.Code != OK {
			t.Errorf("the session: %+v", m)
		}
		// It would have been shown, and never is.
		w.command = func(context.Context, kmsg.Request) (Outcome, error) {
			resp := kmsg.NewPtrCreateTopicsResponse()
			resp.Topics = append(resp.Topics, kmsg.NewCreateTopicsResponseTopic())
			return Outcome{Response: resp, Offset: 1 << 40}, nil
		}
		if m, _ := a.do2(3, Create{Path: "/brokers/topics/orders", Data: []byte(newTopic), ACL: open()}); m.Code != ConnectionLoss {
			t.Errorf("not shown in time: %+v", m)
		}
	})
}

// do2 is do with an xid of its own.
func (c *caller) do2(xid int32, op Op) (Message, []Event) {
	c.xid = xid - 1
	return c.do(op)
}

// Notes of changed settings are kept for a quarter of an hour.
func TestOldNotesGo(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.call("a", Connect{TimeoutMs: 30000})
		note := Create{Path: "/config/changes/config_change_", Data: []byte("{}"), ACL: open(), Flags: flagSequential}
		a.do(note)
		time.Sleep(14 * time.Minute)
		a = w.call("a", Connect{TimeoutMs: 30000})
		a.do(note)
		time.Sleep(2 * time.Minute)
		a = w.call("a", Connect{TimeoutMs: 30000})
		a.do(note)
		m, _ := a.do(GetChildren{Path: "/config/changes"})
		if got := m.Answer.(Children).Names; len(got) != 2 || got[0] != "config_change_0000000001" {
			t.Errorf("notes %q", got)
		}
	})
}
