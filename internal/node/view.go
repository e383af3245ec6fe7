package node

import (
	"moldau/internal/metadata"
	"moldau/internal/quorum"
	"moldau/internal/replica"
)

// Image is the metadata as this node knows them. Valid once Start has returned.
func (n *Node) Image() *metadata.Image { return n.loader.Image() }

// Partitions are those with a replica on this node, none on a mere controller. Valid once Start has returned.
func (n *Node) Partitions() []*replica.Partition {
	if n.replicas == nil {
		return nil
	}
	return n.replicas.Partitions()
}

// Quorum is the metadata quorum as this node sees it. Valid once Start has returned.
func (n *Node) Quorum() quorum.Status { return n.quorum.Status() }
