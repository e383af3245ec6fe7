package compat

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestThousandsOfConnections: connections that say nothing, or half a word, cost little and keep nobody out.
func TestThousandsOfConnections(t *testing.T) {
	a := underAttack(t)
	const connections = 3000
	conns := make([]net.Conn, connections)
	defer func() {
		for _, c := range conns {
			if c != nil {
				_ = c.Close()
			}
		}
	}()
	for i := range conns {
		conn, err := net.Dial("tcp", a.Addr)
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		conns[i] = conn
		if _, err := conn.Write([]byte{0, 0, 1, 0, 0, 18, 0, 3}[:i%9]); err != nil {
			t.Fatal(err)
		}
	}
	a.serves(t, "meanwhile")
	for _, c := range conns {
		_ = c.Close()
	}
	a.unharmed(t, 150)
}

// TestDribbledRequests: a request that comes in byte by byte does not keep its connection for longer than
// connections.max.idle.ms, and no honest client waits for it.
func TestDribbledRequests(t *testing.T) {
	a := underAttack(t, "connections.max.idle.ms=1500")
	began := time.Now()
	var dribblers sync.WaitGroup
	for range 200 {
		dribblers.Go(func() {
			conn, err := net.Dial("tcp", a.Addr)
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			frame := append([]byte{0, 0, 0x10, 0}, bytes.Repeat([]byte{0, 0, 0, 0, 0, 0, 0, 1}, 512)...)
			for i := range frame {
				if _, err := conn.Write(frame[i : i+1]); err != nil {
					return
				}
				_ = conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
				if _, err := conn.Read(make([]byte, 1)); err == io.EOF {
					return
				} else if e, ok := err.(net.Error); !ok || !e.Timeout() {
					return
				}
			}
			t.Error("a whole request got through byte by byte")
		})
	}
	a.serves(t, "meanwhile")
	dribblers.Wait()
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("dribbling connections lived for %v", took)
	}
	a.unharmed(t, 150)
}

// TestAnswersThatNobodyReads: a client that asks and does not read costs no more than a few answers, and not for ever.
func TestAnswersThatNobodyReads(t *testing.T) {
	a := underAttack(t, "connections.max.idle.ms=2000")
	r := dialRaw(t, a.Addr)
	createTopics(t, r)
	for range 20 {
		l := lie{batch: func() []byte { return sealed(plainBatch(time.Now(), string(make([]byte, 900<<10)))) }}
		if got := l.tell(t, a.Addr); got != "accepted" {
			t.Fatal(got)
		}
	}
	r.conn.Close()
	fetch := kmsg.NewPtrFetchRequest()
	fetch.Version, fetch.MaxBytes, fetch.SessionEpoch, fetch.MinBytes = 12, 50<<20, -1, 1
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic = "attack-plain"
	partition := kmsg.NewFetchRequestTopicPartition()
	partition.PartitionMaxBytes = 50 << 20
	topic.Partitions = append(topic.Partitions, partition)
	fetch.Topics = append(fetch.Topics, topic)
	metadata := kmsg.NewPtrMetadataRequest()
	metadata.Version = 9
	var greedy sync.WaitGroup
	for range 100 {
		greedy.Go(func() {
			conn, err := net.Dial("tcp", a.Addr)
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
			for i := range 2000 {
				req := kmsg.Request(fetch)
				if i%2 == 1 {
					req = metadata
				}
				if _, err := conn.Write(encode(req, int32(i))); err != nil {
					break
				}
			}
			// The node has to end it: nothing is read here until it does.
			_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
			for {
				time.Sleep(100 * time.Millisecond)
				if _, err := conn.Write([]byte{0}); err != nil {
					if e, ok := err.(net.Error); ok && e.Timeout() {
						t.Error("a connection that is not read from lives on")
					}
					return
				}
			}
		})
	}
	a.serves(t, "meanwhile")
	greedy.Wait()
	a.unharmed(t, 250)
}

// TestForgedBroker: who can reach the controller listener can speak in a broker's name. The broker comes back.
func TestForgedBroker(t *testing.T) {
	a := underAttack(t)
	for name, change := range map[string]func(req *kmsg.BrokerHeartbeatRequest){
		"shutdown": func(req *kmsg.BrokerHeartbeatRequest) { req.WantShutdown = true },
		"fence":    func(req *kmsg.BrokerHeartbeatRequest) { req.WantFence = true },
		"both":     func(req *kmsg.BrokerHeartbeatRequest) { req.WantFence, req.WantShutdown = true, true },
	} {
		r := dialRaw(t, a.Controller)
		hit := false
		for epoch := range int64(200) {
			req := kmsg.NewPtrBrokerHeartbeatRequest()
			req.Version, req.BrokerID, req.BrokerEpoch = 1, 1, epoch
			change(req)
			resp, err := r.ask(req)
			if err != nil {
				t.Fatal(err)
			}
			hit = hit || resp.(*kmsg.BrokerHeartbeatResponse).ErrorCode == 0
		}
		r.conn.Close()
		if !hit {
			t.Errorf("%s: no epoch was the broker's", name)
		}
		a.writable(t, name)
	}
	r := dialRaw(t, a.Addr)
	defer r.conn.Close()
	req := kmsg.NewPtrUnregisterBrokerRequest()
	req.BrokerID = 1
	resp, err := r.ask(req)
	if err != nil || resp.(*kmsg.UnregisterBrokerResponse).ErrorCode != kerr.InvalidRequest.Code { // it is in service
		t.Fatalf("unregister: %v %v", resp, err)
	}
	a.unharmed(t, 150)
}

// writable waits until topics can be made and written to again.
func (a *attacked) writable(t *testing.T, what string) {
	t.Helper()
	r := dialRaw(t, a.Addr)
	defer r.conn.Close()
	ask := creation(func(topic *kmsg.CreateTopicsRequestTopic) {})
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		code, err := ask(r)
		if err != nil {
			t.Fatal(err)
		}
		if code == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: 20 s later: %v", what, kerr.ErrorForCode(code))
		}
	}
	a.serves(t, "after-"+what)
	a.serves(t, "before") // a topic from before the attack
}
