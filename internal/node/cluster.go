package node

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"syscall"
	"time"

	"moldau/internal/controller"
	"moldau/internal/kafka"
	"moldau/internal/quorum"
	"moldau/internal/replica"
	"moldau/internal/uplink"
)

// active is where the active controller is, as far as this node knows.
func (n *Node) active() (uplink.Active, bool) {
	leader, _, ok := n.quorum.Leader()
	if !ok || len(leader.Endpoints) == 0 {
		return uplink.Active{}, false
	}
	at := slices.IndexFunc(leader.Endpoints, func(e quorum.Endpoint) bool { return e.Name == n.cfg.Network.Controllers[0] })
	e := leader.Endpoints[max(0, at)] // one of another name is better than none
	return uplink.Active{ID: leader.ID, Address: net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port)))}, true
}

// brokerAddress is where another broker listens for brokers.
func (n *Node) brokerAddress(id kafka.NodeID) (string, bool) {
	b, ok := n.loader.Image().Cluster.Broker(id)
	if !ok {
		return "", false
	}
	e, ok := b.Endpoint(n.cfg.Network.InterBroker)
	return net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port))), ok
}

// probe looks whether somebody listens at one of a broker's addresses.
func (n *Node) probe(ctx context.Context, addresses []string) controller.ProbeResult {
	refused := 0
	for _, address := range addresses {
		conn, err := n.o.Dial(ctx, address)
		if err == nil {
			_ = conn.Close()
			return controller.Alive
		}
		if errors.Is(err, syscall.ECONNREFUSED) {
			refused++
		}
	}
	if refused == len(addresses) {
		return controller.Refused
	}
	return controller.Unknown
}

// followLeader tells a new active controller of this broker at once.
func (n *Node) followLeader() {
	known := uplink.Active{ID: -1}
	for {
		changed := n.quorum.Changed()
		if now, ok := n.active(); ok && now != known {
			known = now
			n.uplink.Hurry()
		}
		select {
		case <-changed:
		case <-n.quorum.Failed():
			return
		case <-n.ctx.Done():
			return
		}
	}
}

// registered is told of each registration of this broker.
func (n *Node) registered(epoch int64) error {
	if err := n.store.SetBrokerEpoch(epoch); err != nil {
		return err
	}
	n.gate.OpenAt(epoch) // the epoch is the offset of the registration
	return nil
}

// maxWishes bounds the in-sync sets that one request asks for.
const maxWishes = 1000

// wishes passes on which in-sync sets the leaders here want.
func (n *Node) wishes() {
	for {
		select {
		case w := <-n.replicas.Wishes():
			n.ask(n.gather(w))
		case <-n.ctx.Done():
			return
		}
	}
}

// gather takes what else has been wished for.
func (n *Node) gather(first replica.Wish) []replica.Wish {
	all := []replica.Wish{first}
	for len(all) < maxWishes {
		select {
		case w := <-n.replicas.Wishes():
			all = append(all, w)
		default:
			return all
		}
	}
	return all
}

// ask sends wishes to the controller. What it does not take may be wished for again; what it takes arrives as metadata.
func (n *Node) ask(wishes []replica.Wish) {
	changes := make([]uplink.ISRChange, len(wishes))
	for i, w := range wishes {
		changes[i] = uplink.ISRChange{TopicID: w.TopicID, Partition: w.TP.Partition, LeaderEpoch: w.LeaderEpoch, PartitionEpoch: w.PartitionEpoch}
		for _, id := range w.ISR {
			changes[i].ISR = append(changes[i].ISR, uplink.ISRMember{ID: id, BrokerEpoch: -1})
		}
	}
	errs, err := n.uplink.AlterPartition(n.ctx, changes)
	for i, w := range wishes {
		if err == nil && errs[i] == nil {
			continue
		}
		if p, gone := n.replicas.ByID(w.TopicID, w.TP.Partition); gone == nil {
			p.WishFailed(w)
		}
	}
	if err == nil || n.ctx.Err() != nil {
		return
	}
	n.o.Logger.Warn("the controller did not take changes of in-sync sets", "partitions", len(wishes), "error", err)
	n.pause(wishBackoff)
}

// wishBackoff is how long the leaders here keep their wishes to themselves after a failure.
const wishBackoff = 50 * time.Millisecond

func (n *Node) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-n.ctx.Done():
	}
}

// dropLagging looks for followers that have fallen behind, twice in the time that they may be behind.
func (n *Node) dropLagging() {
	lagMax := milliseconds(n.cfg.Replicas.LagMaxMs)
	for n.ctx.Err() == nil {
		n.pause(max(lagMax/2, time.Millisecond))
		n.replicas.DropLagging(lagMax)
	}
}

// controllers are the addresses where this node looks for controllers.
func (n *Node) controllers() []string {
	var out []string
	for _, v := range n.cfg.Quorum.Voters {
		out = append(out, v.Address.String())
	}
	for _, a := range n.cfg.Quorum.Bootstrap {
		out = append(out, a.String())
	}
	return out
}
