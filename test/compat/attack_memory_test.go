package compat

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestBombs: batches of 60 KB that hold 60 MB each, from many connections at once, do not add up.
func TestBombs(t *testing.T) {
	a := underAttack(t)
	r := dialRaw(t, a.Addr)
	createTopics(t, r)
	defer r.conn.Close()
	packed := bomb(60 << 20)
	future := time.Now().Add(2 * time.Hour) // beyond message.timestamp.after.max.ms: this alone has the records looked at
	for _, l := range []lie{
		{topic: "attack-compact", batch: func() []byte {
			b := plainBatch(time.Now(), "x")
			b.Attributes, b.Records = 1, packed
			return sealed(b)
		}},
		{topic: "attack-plain", batch: func() []byte {
			b := plainBatch(future, "x")
			b.Attributes, b.Records = 1, packed
			return sealed(b)
		}},
	} {
		var clients sync.WaitGroup
		for range 24 {
			clients.Go(func() {
				if answer := l.tell(t, a.Addr); answer == "closed" {
					t.Errorf("%s: the connection was closed", l.topic)
				}
			})
		}
		clients.Wait()
	}
	var clients sync.WaitGroup
	for range 24 {
		clients.Go(func() {
			r := dialRaw(t, a.Addr)
			defer r.conn.Close()
			if _, err := listedIn("attack-compact", 0, -3, -1)(r); err != nil {
				t.Error(err)
			}
		})
	}
	clients.Wait()
	a.unharmed(t, 1000)
}

// TestHeavyRequests: requests that are millions of names.
func TestHeavyRequests(t *testing.T) {
	a := underAttack(t)
	named := func(topics int) []byte {
		req := kmsg.NewPtrMetadataRequest()
		req.Version = 4
		for i := range topics {
			name := fmt.Sprintf("%x", i)
			req.Topics = append(req.Topics, kmsg.MetadataRequestTopic{Topic: &name})
		}
		return encode(req, 1)
	}
	large, refused := named(400_000), named(5_000_000)
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			r := dialRaw(t, a.Addr)
			defer r.conn.Close()
			if _, err := r.conn.Write(large); err != nil {
				t.Error(err)
				return
			}
			if _, err := r.frame(30 * time.Second); err != nil {
				t.Errorf("400,000 names: %v", err)
			}
		})
		clients.Go(func() {
			r := dialRaw(t, a.Addr)
			defer r.conn.Close()
			_, _ = r.conn.Write(refused)
			if _, err := r.frame(30 * time.Second); err == nil {
				t.Error("5,000,000 names were looked up")
			}
		})
	}
	clients.Wait()
	a.unharmed(t, 1000)
}
