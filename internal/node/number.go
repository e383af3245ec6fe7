package node

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/storage"
	"moldau/internal/uplink"
)

// ID is the number of this node; kafka.NoNode if it has none before Start.
func (n *Node) ID() kafka.NodeID { return n.cfg.ID }

// keepNumber goes on as the node that the directories belong to, if nobody says which one this is.
func (n *Node) keepNumber() error {
	if !n.cfg.MadeUpID {
		return nil
	}
	id, kept := storage.KeptNodeID(n.o.FS, n.cfg.Storage.Dirs)
	if !kept {
		return nil
	}
	return n.takeNumber(id)
}

// getNumber gets a number for this node: the active controller gives the next free one, and the directories keep it. A crash in between
// loses the number, which nobody gets then. Mirrors KafkaServer.getOrGenerateBrokerId of Kafka before 4.0.
func (n *Node) getNumber(ctx context.Context) error {
	id, err := n.askNumber(ctx)
	if err != nil {
		return err
	}
	if err := n.store.Number(id); err != nil {
		return &dataError{err}
	}
	n.o.Logger.Info("the controllers gave this node a number, which meta.properties keeps", "node", id)
	return n.takeNumber(id)
}

func (n *Node) takeNumber(id kafka.NodeID) error {
	numbered, err := n.o.Config.Numbered(id)
	if err != nil {
		return fmt.Errorf("the configuration of a node with the number %d: %w", id, err)
	}
	n.o.Config, n.cfg = numbered, numbered.Node()
	n.settings = newSettings(n)
	return nil
}

// numberPause is between two rounds of asking.
const numberPause = 500 * time.Millisecond

// askNumber asks until a controller gives a number, as long as initial.broker.registration.timeout.ms.
func (n *Node) askNumber(ctx context.Context) (kafka.NodeID, error) {
	limit := milliseconds(n.cfg.Session.InitialRegistrationTimeoutMs)
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var refusal error
	for told := n.elapsed(); ; {
		id, err := uplink.AskNodeID(bounded, n.controllers(), n.cfg.LeastID, n.o.Dial)
		switch {
		case err == nil:
			return id, nil
		case bounded.Err() == nil:
			refusal = err
		}
		if n.elapsed()-told >= patience {
			told = n.elapsed()
			n.o.Logger.Warn("still waiting for a controller that gives this node a number", "controllers", n.controllers(), "error", refusal)
		}
		timer := time.NewTimer(numberPause)
		select {
		case <-timer.C:
			continue
		case <-bounded.Done():
			timer.Stop()
		}
		if ctx.Err() != nil {
			return kafka.NoNode, fmt.Errorf("wait for a number: %w", context.Cause(ctx))
		}
		return kafka.NoNode, fmt.Errorf("no controller gave this node a number within initial.broker.registration.timeout.ms=%d: "+
			"set broker.id, or look whether these are nodes of the cluster: %w", limit.Milliseconds(), cmp.Or(refusal, bounded.Err()))
	}
}
