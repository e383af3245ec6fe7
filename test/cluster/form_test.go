package cluster

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"moldau/test/harness"
)

// TestForms: three nodes that know where the controllers are, and nothing else, become one cluster, and a topic with three
// replicas keeps what it is given.
func TestForms(t *testing.T) {
	c := start(t, 3)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	harness.Eventually(t, time.Minute, "all brokers are known", func() error {
		m, err := kadm.NewClient(c.client(t)).BrokerMetadata(ctx)
		if err == nil && len(m.Brokers) != 3 {
			err = fmt.Errorf("brokers %v", m.Brokers.NodeIDs())
		}
		return err
	})
	c.create(t, "orders", 3, 3, nil)
	c.inSync(t, "orders", 3)
	l := c.produce(t, "orders", 3)
	l.await(t, 500)
	l.check(t, c)
}

// TestLateNode: the nodes wait for the last of those that are to form the cluster.
func TestLateNode(t *testing.T) {
	c := prepare(t, 3)
	c.nodes[3].spawn(t)
	c.nodes[1].spawn(t)
	<-time.After(500 * time.Millisecond)
	c.nodes[2].spawn(t)
	for _, id := range c.ids() {
		c.nodes[id].ready(t)
	}
	c.create(t, "orders", 1, 3, nil)
	c.inSync(t, "orders", 3)
}
