package compat

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/test/harness"
)

// TestNewPartitionsLeaveTheNodeReady: /readyz is about the partitions that were there at the start. Else anybody who
// makes a large topic would take the node out of its load balancer.
func TestNewPartitionsLeaveTheNodeReady(t *testing.T) {
	n := harness.Start(t)
	r := dialRaw(t, n.Addr)
	defer r.conn.Close()
	for range 5 {
		code, err := creation(func(topic *kmsg.CreateTopicsRequestTopic) { topic.NumPartitions = 300 })(r)
		if err != nil || code != 0 {
			t.Fatalf("create: %v, %v", answerName(code), err)
		}
		for _, path := range []string{"/readyz", "/startupz"} {
			if status, body := n.Get(t, path); status != 200 {
				t.Fatalf("%s: %d %s", path, status, body)
			}
		}
	}
}
