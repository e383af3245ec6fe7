package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/batch"
	"moldau/internal/config"
	"moldau/internal/coordinator"
	"moldau/internal/kafka"
	"moldau/internal/quorum"
	"moldau/internal/uplink"
	"moldau/internal/znode"
	"moldau/internal/zookeeper"
)

// ZooKeeper's own defaults: a tick of 2 s, and sessions of 2 to 20 of them.
const (
	tickMs       = 2000
	minTimeoutMs = 2 * tickMs
	maxTimeoutMs = 20 * tickMs
)

// treeBytes are the least transactions of the ZooKeeper tree that are worth a snapshot.
const treeBytes = 16 << 20

// buildZooKeeper makes what ZooKeeper clients are served by.
func (n *Node) buildZooKeeper(clusterID string) {
	n.tree = znode.New(znode.Options{
		ClusterID: clusterID, Image: n.loader.Image, Controller: n.activeID, Command: n.command,
		MinTimeoutMs: minTimeoutMs, MaxTimeoutMs: maxTimeoutMs,
		CommandTimeout: milliseconds(n.cfg.Network.RequestTimeoutMs), SnapshotBytes: treeBytes,
		Logger: n.o.Logger, Metrics: n.metrics,
		Runtime: coordinator.Options{
			NodeID: n.cfg.ID, Replicas: n.replicas, Codec: batch.None, LoadBytes: int(n.cfg.Groups.LoadBytes),
			Now: n.o.Now, Elapsed: n.elapsed, Lease: n.lease(),
		},
	})
	n.zookeeper = zookeeper.New(zookeeper.Options{
		NodeID: n.cfg.ID, Tree: n.tree, Create: n.createTree, Dial: n.dialBroker, Image: n.loader.Image, Elapsed: n.elapsed, Chroot: n.cfg.ZooKeeper.Chroot,
		MinTimeoutMs: minTimeoutMs, MaxTimeoutMs: maxTimeoutMs, Logger: n.o.Logger, Metrics: n.metrics,
	})
}

// activeID is the active controller, as far as this node knows.
func (n *Node) activeID() kafka.NodeID {
	if active, ok := n.active(); ok {
		return active.ID
	}
	return kafka.NoNode
}

// command has the active controller do what a ZooKeeper client has ordered. What it has done is in the metadata up to the
// quorum's high watermark of a later moment.
func (n *Node) command(ctx context.Context, req kmsg.Request) (znode.Outcome, error) {
	resp, err := n.uplink.Forward(ctx, req, uplink.Client{Principal: "User:ANONYMOUS", ID: "zookeeper"})
	if err != nil {
		return znode.Outcome{}, err
	}
	for {
		end, err := n.metadataEnd(ctx)
		if err == nil {
			return znode.Outcome{Response: resp, Offset: end - 1}, nil
		}
		n.pause(wishBackoff)
		if ctx.Err() != nil {
			return znode.Outcome{}, fmt.Errorf("ask how far the metadata are: %w", err)
		}
	}
}

// metadataEnd is the quorum's high watermark.
func (n *Node) metadataEnd(ctx context.Context) (kafka.Offset, error) {
	if status := n.quorum.Status(); status.LeaderID == n.cfg.ID {
		return status.HighWatermark, nil
	}
	req := kmsg.NewPtrDescribeQuorumRequest()
	topic, partition := kmsg.NewDescribeQuorumRequestTopic(), kmsg.NewDescribeQuorumRequestTopicPartition()
	topic.Topic, topic.Partitions = quorum.TopicName, append(topic.Partitions, partition)
	req.Topics = append(req.Topics, topic)
	req.Version = req.MaxVersion()
	answered, err := n.admin.Call(ctx, req, uplink.Client{Principal: "User:ANONYMOUS", ID: "zookeeper"})
	if err != nil {
		return 0, err
	}
	resp, ok := answered.(*kmsg.DescribeQuorumResponse)
	if !ok || len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return 0, fmt.Errorf("answered with a %T", answered)
	}
	p := resp.Topics[0].Partitions[0]
	return p.HighWatermark, errors.Join(kerr.ErrorForCode(resp.ErrorCode), kerr.ErrorForCode(p.ErrorCode))
}

// createTree makes the topic of the ZooKeeper tree, with as many replicas as there are brokers for: they grow with the
// cluster, as those of all internal topics do.
func (n *Node) createTree(ctx context.Context) error {
	factor := int16(0)
	for _, b := range n.loader.Image().Cluster.Brokers() {
		if b.Active() && factor < n.cfg.Groups.ReplicationFactor {
			factor++
		}
	}
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = znode.Topic, 1, max(factor, 1)
	for _, c := range []struct{ name, value string }{
		{"cleanup.policy", "delete"}, // of what snapshots have made old, and of nothing else
		{"retention.ms", "-1"},
		{"retention.bytes", "-1"},
		{"max.message.bytes", strconv.Itoa(znode.MaxRecordBytes)},
	} {
		entry := kmsg.NewCreateTopicsRequestTopicConfig()
		entry.Name, entry.Value = c.name, &c.value
		t.Configs = append(t.Configs, entry)
	}
	return n.uplink.AutoCreateAs(ctx, t)
}

// dialBroker connects to another broker's listener for brokers.
func (n *Node) dialBroker(ctx context.Context, id kafka.NodeID) (net.Conn, error) {
	address, ok := n.brokerAddress(id)
	if !ok {
		return nil, fmt.Errorf("node %d has no listener %s: %w", id, n.cfg.Network.InterBroker, kerr.BrokerNotAvailable)
	}
	return n.o.Dial(ctx, address)
}

// zookeeperListeners are where ZooKeeper clients are served. A mere controller has nothing for them.
func (n *Node) zookeeperListeners() []config.Listener {
	if !n.cfg.Roles.Broker {
		return nil
	}
	return n.cfg.ZooKeeper.Listeners
}

// serveZooKeeper accepts connections of ZooKeeper clients.
func (n *Node) serveZooKeeper() {
	for _, l := range n.listeners {
		if l.purpose != forZooKeeper {
			continue
		}
		n.running.Go(func() {
			if err := n.zookeeper.Serve(l.ln); err != nil && n.ctx.Err() == nil {
				n.fail(fmt.Errorf("zookeeper.listeners: %w", err))
			}
		})
	}
}
