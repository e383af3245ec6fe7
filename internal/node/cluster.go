package node

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/controller"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/quorum"
	"moldau/internal/replica"
	"moldau/internal/uplink"
	"moldau/internal/wire"
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

// followLeader gives up what the last active controller was asked, and tells a new one of this broker at once.
func (n *Node) followLeader() {
	known := uplink.Active{ID: -1}
	for {
		changed := n.quorum.Changed()
		if now, ok := n.active(); ok && now != known {
			known = now
			n.beats.Moved()
			n.admin.Moved()
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

// peers watches the other brokers in the metadata.
type peers struct{ n *Node }

// Apply tells the controller at once how far this broker has come when another is about to go, or gone: one that shuts down
// waits until all others know who leads in its place.
func (p peers) Apply(delta *metadata.Delta, _ *metadata.Image) {
	if slices.ContainsFunc(delta.ChangedBrokers(), func(id kafka.NodeID) bool { return id != p.n.cfg.ID }) {
		p.n.uplink.Hurry()
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

// wishes passes on which in-sync sets the leaders here want. Whether a request that nobody answered was carried out is
// unknown, and a leader may forget a wish only when it was refused: so it is sent again until somebody answers.
func (n *Node) wishes() {
	var open []replica.Wish
	for n.ctx.Err() == nil {
		open = newest(append(open, n.replicas.TakeWishes(maxWishes-len(open))...))
		if len(open) == 0 {
			select {
			case <-n.replicas.Wished():
			case <-n.ctx.Done():
			}
			continue
		}
		unanswered := n.ask(open)
		if len(unanswered) > 0 {
			n.pause(wishBackoff)
		}
		open = unanswered
	}
}

// newest drops the wishes that a later one of the same partition follows: since they were sent the metadata have moved on, and
// the controller takes one change of a partition in a request.
func newest(wishes []replica.Wish) []replica.Wish {
	type partition struct {
		topic kafka.TopicID
		index int32
	}
	last := make(map[partition]int, len(wishes))
	for i, w := range wishes {
		last[partition{w.TopicID, w.TP.Partition}] = i
	}
	kept := make([]replica.Wish, 0, len(last))
	for i, w := range wishes {
		if last[partition{w.TopicID, w.TP.Partition}] == i {
			kept = append(kept, w)
		}
	}
	return kept
}

// ask sends wishes to the controller, tells the leaders which were refused, and returns those that have to be sent again.
// What was granted arrives as metadata.
func (n *Node) ask(wishes []replica.Wish) (again []replica.Wish) {
	changes := make([]uplink.ISRChange, len(wishes))
	for i, w := range wishes {
		changes[i] = uplink.ISRChange{TopicID: w.TopicID, Partition: w.TP.Partition, LeaderEpoch: w.LeaderEpoch, PartitionEpoch: w.PartitionEpoch}
		for j, id := range w.ISR {
			changes[i].ISR = append(changes[i].ISR, uplink.ISRMember{ID: id, BrokerEpoch: w.Epochs[j]})
		}
	}
	errs, err := n.uplink.AlterPartition(n.ctx, changes)
	if err != nil {
		if n.ctx.Err() == nil && !errors.Is(err, kerr.NotController) {
			n.o.Logger.Warn("the controller did not answer for in-sync sets; asking again", "partitions", len(wishes), "error", err)
		}
		return wishes
	}
	for i, w := range wishes {
		switch kerr.TypedErrorForCode(wire.Code(errs[i])) {
		case nil:
		case kerr.IneligibleReplica, kerr.OperationNotAttempted:
			if p, gone := n.replicas.ByID(w.TopicID, w.TP.Partition); gone == nil {
				p.WishFailed(w)
			}
		case kerr.FencedLeaderEpoch, kerr.InvalidUpdateVersion, kerr.NewLeaderElected,
			kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.InvalidRequest:
			// The metadata have moved on, by this very wish perhaps: they answer it, and until then the watermark has to
			// wait for the set that was wished for (Partition.handleAlterPartitionError).
		default:
			again = append(again, w)
		}
	}
	return again
}

// maxPlacements bounds the replicas that one request tells the places of (AssignmentsManager.MAX_ASSIGNMENTS_PER_REQUEST).
const maxPlacements = 2250

// placements tells the controller in which directories replicas lie, until the metadata say so.
func (n *Node) placements() {
	for n.ctx.Err() == nil {
		all := n.replicas.Placements()
		if len(all) == 0 {
			select {
			case <-n.replicas.Placed():
			case <-n.ctx.Done():
			}
			continue
		}
		all = all[:min(len(all), maxPlacements)]
		assignments := make([]uplink.Assignment, len(all))
		for i, p := range all {
			assignments[i] = uplink.Assignment{TopicID: p.TopicID, Partition: p.TP.Partition, Dir: p.Dir}
		}
		pause := 200 * time.Millisecond // in which the metadata answer
		switch err := n.uplink.AssignReplicas(n.ctx, assignments); {
		case err == nil || n.ctx.Err() != nil:
		case errors.Is(err, kerr.UnsupportedVersion): // until metadata.version is raised
			pause = time.Minute
		default:
			pause = time.Second
			n.o.Logger.Warn("the controller was not told where replicas lie; telling it again", "error", err)
		}
		n.pause(pause)
	}
}

// wishBackoff is the pause before wishes are sent again.
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
