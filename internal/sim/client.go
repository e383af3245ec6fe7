package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/peer"
)

// attempt is how long a client waits for one answer.
const attempt = 3 * time.Second

// client is a producer, consumer or admin of a few lines, so that it adds no scheduling of its own: one request at a
// time, one connection, every answer recorded.
type client struct {
	world    *World
	name     string
	seeds    []string
	replicas int // of topics that it makes
	dial     func(ctx context.Context, address string) (net.Conn, error)
	rng      *rand.Rand
	topics   *catalogue
	history  *History

	conns map[string]*peer.Conn
	rot   bool   // bytes on disks may change
	asked string // the node that do asked last
	route route
}

func newClient(w *World, n *Network, name string, plan Plan, topics *catalogue, h *History) *client {
	c := &client{world: w, name: name, seeds: plan.brokers(), replicas: plan.Replicas, rot: plan.has(Rot), conns: make(map[string]*peer.Conn), dial: n.Dial(name), topics: topics, history: h}
	var salt uint64
	for _, b := range []byte(name) {
		salt = salt*31 + uint64(b)
	}
	c.rng = rand.New(rand.NewPCG(w.seed, salt))
	return c
}

// do sends one request to whoever is to answer it.
func (c *client) do(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	address, err := c.find(ctx, req)
	if err != nil {
		return nil, err
	}
	c.asked = address
	return c.ask(ctx, address, req)
}

// ask sends one request to one node, over a new connection if there is none.
func (c *client) ask(ctx context.Context, address string, req kmsg.Request) (kmsg.Response, error) {
	conn := c.conns[address]
	if conn == nil {
		var err error
		conn, err = peer.Dial(ctx, address, peer.Options{Dial: c.dial, ClientID: c.name, SoftwareName: "sim", SoftwareVersion: "1"})
		if err != nil {
			return nil, err
		}
		c.conns[address] = conn
	}
	resp, err := conn.Do(ctx, req)
	if err != nil {
		conn.Close()
		delete(c.conns, address)
	}
	return resp, err
}

func (c *client) close() {
	for _, address := range c.seeds {
		if conn := c.conns[address]; conn != nil {
			conn.Close()
			delete(c.conns, address)
		}
	}
}

// insist does something over and over until it succeeds or ctx ends. A code that says that the node has a bug ends it too.
func (c *client) insist(ctx context.Context, what string, try func() error) bool {
	for ctx.Err() == nil {
		err := try()
		if err == nil {
			return true
		}
		if errors.Is(err, kerr.UnknownServerError) {
			c.history.fault(sound, "%s: %s: %v", c.name, what, err)
			return false
		}
		c.rest(ctx)
	}
	return false
}

// rest waits a little, as a client does after a failure. No two clients wake at the same instant: the order in which they
// would then go on is not the driver's to choose. Who is where is asked again afterwards.
func (c *client) rest(ctx context.Context) {
	c.route = route{}
	timer := time.NewTimer(20*time.Millisecond + time.Duration(c.rng.Int64N(int64(80*time.Millisecond))))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
