package uplink

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/wire"
)

// remote is another node's controller, at the far end of pipes.
type remote struct {
	t      *testing.T
	active bool
	mute   bool // heartbeats are not answered

	mu        sync.Mutex
	conns     []net.Conn
	dialled   int
	enveloped []string // principals
	direct    int
	serving   sync.WaitGroup
}

func (r *remote) dial(context.Context, string) (net.Conn, error) {
	near, far := net.Pipe()
	r.mu.Lock()
	r.conns = append(r.conns, far)
	r.dialled++
	r.mu.Unlock()
	r.serving.Go(func() { r.serve(far) })
	return near, nil
}

// cut breaks every connection, and waits until nobody serves it any more.
func (r *remote) cut() {
	r.mu.Lock()
	for _, c := range r.conns {
		_ = c.Close()
	}
	r.conns = nil
	r.mu.Unlock()
	r.serving.Wait()
}

func (r *remote) serve(c net.Conn) {
	in := bufio.NewReader(c)
	for {
		frame, err := wire.ReadFrame(in, 1<<20, func(n int) []byte { return make([]byte, n) })
		if err != nil {
			return
		}
		h, err := wire.ParseHeader(frame)
		if err != nil {
			r.t.Error(err)
			return
		}
		req, err := wire.DecodeRequest(h, frame[h.BodyOffset:])
		if err != nil {
			r.t.Error(err)
			return
		}
		resp := r.answer(req)
		if resp == nil {
			continue
		}
		resp.SetVersion(h.Version)
		if _, err := c.Write(wire.AppendResponse(nil, h.CorrelationID, resp)); err != nil {
			return
		}
	}
}

func (r *remote) answer(req kmsg.Request) kmsg.Response {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch req := req.(type) {
	case *kmsg.ApiVersionsRequest:
		resp := kmsg.NewPtrApiVersionsResponse()
		for _, key := range []kmsg.Key{kmsg.BrokerHeartbeat, kmsg.CreateTopics, kmsg.Envelope} {
			k := kmsg.NewApiVersionsResponseApiKey()
			k.ApiKey, k.MaxVersion = key.Int16(), 7
			resp.ApiKeys = append(resp.ApiKeys, k)
		}
		return resp
	case *kmsg.BrokerHeartbeatRequest:
		r.direct++
		if r.mute {
			return nil
		}
		return kmsg.NewPtrBrokerHeartbeatResponse()
	case *kmsg.EnvelopeRequest:
		resp := kmsg.NewPtrEnvelopeResponse()
		var p kmsg.DefaultPrincipalData
		h, err := wire.ParseHeader(req.RequestData)
		if err := errors.Join(err, p.ReadFrom(req.RequestPrincipal)); err != nil {
			r.t.Error(err)
		}
		inner, err := wire.DecodeRequest(h, req.RequestData[h.BodyOffset:])
		if err != nil {
			r.t.Error(err)
		}
		if !r.active {
			resp.ErrorCode = kerr.NotController.Code
			return resp
		}
		r.enveloped = append(r.enveloped, p.Type+":"+p.Name+"/"+*h.ClientID)
		answer := inner.ResponseKind()
		resp.ResponseData = wire.AppendResponse(nil, h.CorrelationID, answer)[4:]
		return resp
	}
	r.t.Errorf("asked for %T", req)
	return nil
}

// linked runs a test with an uplink whose controller is remote.
func linked(t *testing.T, test func(t *testing.T, r *remote, l *Link, u *Uplink)) {
	synctest.Test(t, func(t *testing.T) {
		r := &remote{t: t, active: true}
		l := NewLink(LinkOptions{
			NodeID: 1, Dial: r.dial,
			Where: func() (Active, bool) { return Active{ID: 2, Address: "two:9093"}, true },
		})
		u := New(Options{NodeID: 1, Call: l.Call, Timeout: time.Second})
		test(t, r, l, u)
		l.Close()
		r.cut()
	})
}

// TestEnvelopes: a client's request travels in an envelope with its name, a broker's own as it is.
func TestEnvelopes(t *testing.T) {
	linked(t, func(t *testing.T, r *remote, l *Link, u *Uplink) {
		create := kmsg.NewPtrCreateTopicsRequest()
		create.Version = 7
		resp, err := u.Forward(t.Context(), create, Client{Principal: "User:alice", ID: "console"})
		if _, ok := resp.(*kmsg.CreateTopicsResponse); err != nil || !ok {
			t.Fatalf("%T, %v", resp, err)
		}
		if _, err := l.Call(t.Context(), kmsg.NewPtrBrokerHeartbeatRequest(), itself); err != nil {
			t.Fatal(err)
		}
		if len(r.enveloped) != 1 || r.enveloped[0] != "User:alice/console" || r.direct != 1 || r.dialled != 1 {
			t.Errorf("enveloped %q, %d direct, %d connections", r.enveloped, r.direct, r.dialled)
		}
	})
}

// TestForwardOutlivesAnElection: what a client asks for while nobody leads, or while the connection is lost, is done later.
func TestForwardOutlivesAnElection(t *testing.T) {
	linked(t, func(t *testing.T, r *remote, _ *Link, u *Uplink) {
		r.active = false
		done := make(chan error, 1)
		create := kmsg.NewPtrCreateTopicsRequest()
		create.Version = 7
		go func() {
			_, err := u.Forward(t.Context(), create, itself)
			done <- err
		}()
		time.Sleep(time.Second)
		r.cut()
		r.mu.Lock()
		r.active = true
		r.mu.Unlock()
		if err := <-done; err != nil || len(r.enveloped) != 1 || r.dialled != 2 {
			t.Errorf("%v, %d enveloped, %d connections", err, len(r.enveloped), r.dialled)
		}
	})
}

// TestForwardGivesUp: without a controller the client hears of it in its own time.
func TestForwardGivesUp(t *testing.T) {
	linked(t, func(t *testing.T, r *remote, _ *Link, u *Uplink) {
		r.active = false
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		create := kmsg.NewPtrCreateTopicsRequest()
		create.Version = 7
		if _, err := u.Forward(ctx, create, itself); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, kerr.NotController) {
			t.Error(err)
		}
	})
}

// TestMovedEndsCalls: who waits for an answer of a controller that is paused, or for a connection to it, hears of the next one as
// soon as there is one.
func TestMovedEndsCalls(t *testing.T) {
	for name, connects := range map[string]bool{"connected": true, "connecting": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				old, next := &remote{t: t, active: true, mute: true}, &remote{t: t, active: true}
				var paused sync.WaitGroup
				var where atomic.Pointer[Active]
				where.Store(&Active{ID: 2, Address: "two:9093"})
				l := NewLink(LinkOptions{
					NodeID: 1, Where: func() (Active, bool) { return *where.Load(), true },
					Dial: func(ctx context.Context, address string) (net.Conn, error) {
						switch {
						case address == "three:9093":
							return next.dial(ctx, address)
						case connects:
							return old.dial(ctx, address)
						}
						near, far := net.Pipe() // taken by the kernel, read by nobody
						paused.Go(func() { _, _ = io.Copy(io.Discard, far) })
						return near, nil
					},
				})
				failed := make(chan error, 1)
				go func() {
					_, err := l.Call(t.Context(), kmsg.NewPtrBrokerHeartbeatRequest(), itself)
					failed <- err
				}()
				synctest.Wait()
				where.Store(&Active{ID: 3, Address: "three:9093"})
				began := time.Now()
				l.Moved()
				if err := <-failed; !errors.Is(err, kerr.NotController) || time.Since(began) > 0 {
					t.Errorf("after %v: %v", time.Since(began), err)
				}
				if _, err := l.Call(t.Context(), kmsg.NewPtrBrokerHeartbeatRequest(), itself); err != nil || next.direct != 1 {
					t.Errorf("the next controller heard of %d heartbeats: %v", next.direct, err)
				}
				l.Close()
				old.cut()
				next.cut()
				paused.Wait()
			})
		})
	}
}

// TestNotServedThere: a version that the controller does not know is refused here, not guessed at there.
func TestNotServedThere(t *testing.T) {
	linked(t, func(t *testing.T, _ *remote, l *Link, _ *Uplink) {
		if _, err := l.Call(t.Context(), kmsg.NewPtrDeleteTopicsRequest(), itself); !errors.Is(err, kerr.UnsupportedVersion) {
			t.Error(err)
		}
	})
}

// TestInSyncSets: each change gets its own answer.
func TestInSyncSets(t *testing.T) {
	topic := kafka.TopicID{1}
	u := New(Options{NodeID: 1, Timeout: time.Second, Call: func(_ context.Context, req kmsg.Request, _ Client) (kmsg.Response, error) {
		asked := req.(*kmsg.AlterPartitionRequest)
		if len(asked.Topics) != 1 || len(asked.Topics[0].Partitions) != 2 || asked.Topics[0].Partitions[1].NewEpochISR[0].BrokerEpoch != 5 {
			t.Errorf("asked %+v", asked)
		}
		resp := kmsg.NewPtrAlterPartitionResponse()
		answer := kmsg.NewAlterPartitionResponseTopic()
		answer.TopidID = topic
		answer.Partitions = []kmsg.AlterPartitionResponseTopicPartition{{Partition: 1}, {Partition: 0, ErrorCode: kerr.FencedLeaderEpoch.Code}}
		resp.Topics = append(resp.Topics, answer)
		return resp, nil
	}})
	errs, err := u.AlterPartition(t.Context(), []ISRChange{
		{TopicID: topic, Partition: 0, ISR: []ISRMember{{1, -1}}},
		{TopicID: topic, Partition: 1, ISR: []ISRMember{{1, 5}, {2, 6}}},
	})
	if err != nil || !errors.Is(errs[0], kerr.FencedLeaderEpoch) || errs[1] != nil {
		t.Errorf("%v, %v", errs, err)
	}
}
