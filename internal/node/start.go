package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/controller"
	"moldau/internal/metadata"
	"moldau/internal/quorum"
)

// The phases of a node's life, as Apache Kafka's BrokerState calls them.
const (
	phaseStarting int32 = iota
	phaseRecovery
	phaseRunning
	phaseStopping
)

// Start brings the node up: when it returns nil, clients are served. After an error nothing of it is left. It has to be
// called once.
func (n *Node) Start(ctx context.Context) error {
	if err := n.start(ctx); err != nil {
		_ = n.Stop(context.Background())
		return err
	}
	return nil
}

func (n *Node) start(ctx context.Context) error {
	began := n.o.Now()
	n.o.Logger.Info("Starting", "node", n.cfg.ID, "logDirs", n.cfg.Storage.Dirs)
	if err := n.bind(); err != nil {
		return err
	}
	for _, l := range n.listeners {
		if l.purpose == forHTTP {
			n.serveHTTP(l.ln)
		}
	}
	if err := n.open(ctx); err != nil {
		return err
	}
	n.phase.Store(phaseRecovery)
	n.o.Logger.Info("Transitioning from STARTING to RECOVERY")
	if err := n.store.Start(); err != nil {
		return err
	}
	n.quorum.Start()
	n.serving = true
	n.running.Go(n.watch)
	n.running.Go(n.snapshots)
	if n.controller != nil {
		n.controller.Start()
		n.serve(true)
	}
	if n.cfg.Roles.Broker {
		if err := n.join(ctx); err != nil {
			return err
		}
	} else if err := n.awaitLeader(ctx); err != nil {
		return err
	}
	n.o.Logger.Info("Transitioning from RECOVERY to RUNNING")
	n.o.Logger.Info("Kafka Server started", "node", n.cfg.ID, "took", n.o.Now().Sub(began).Round(time.Millisecond))
	if n.cfg.Roles.Broker {
		n.running.Go(n.dialItself)
	}
	n.phase.Store(phaseRunning) // and /readyz says so: whoever waited for that finds the lines in the log
	return nil
}

// join makes this broker one of the cluster's, and serves clients.
func (n *Node) join(ctx context.Context) error {
	n.running.Go(func() { n.uplink.Run(n.ctx) })
	n.running.Go(n.followLeader)
	n.running.Go(n.wishes)
	n.running.Go(n.placements)
	n.running.Go(n.dropLagging)
	n.running.Go(func() { n.first.tell(n.ctx, n.o) })
	if err := n.awaitRegistration(ctx); err != nil {
		return err
	}
	n.serve(false)
	n.serveZooKeeper()
	unfenced := make(chan struct{})
	n.running.Go(func() {
		if n.uplink.WaitUnfenced(n.ctx) == nil {
			close(unfenced)
		}
	})
	if err := n.await(ctx, unfenced, "the controller to unfence this broker"); err != nil {
		return err
	}
	// And until it knows so itself: a client that comes at once finds this broker among the others.
	return n.await(ctx, n.gate.unfenced, "the metadata to say that this broker is unfenced")
}

// dialItself looks whether clients can reach this broker where they are told to, as far as that can be seen from here.
func (n *Node) dialItself() {
	for _, l := range n.listeners {
		if l.purpose != forKafka || l.Controller {
			continue
		}
		ctx, cancel := context.WithTimeout(n.ctx, patience)
		conn, err := n.o.Dial(ctx, l.Advertised.String())
		cancel()
		switch {
		case err == nil:
			_ = conn.Close()
		case n.ctx.Err() == nil:
			n.o.Logger.Warn("clients are told an address that this node cannot reach itself; set advertised.listeners to one that they can",
				"listener", l.Name, "address", l.Advertised.String(), "error", err)
		}
	}
}

// awaitRegistration waits for the controller to take this broker in, as long as initial.broker.registration.timeout.ms.
func (n *Node) awaitRegistration(ctx context.Context) error {
	limit := milliseconds(n.cfg.Session.InitialRegistrationTimeoutMs)
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := n.await(bounded, n.uplink.Registered(), "the controller to register this broker")
	if err == nil || ctx.Err() != nil || bounded.Err() == nil {
		return err
	}
	if why := n.uplink.Refusal(); why != nil {
		err = why
	}
	return fmt.Errorf("no controller registered this broker within initial.broker.registration.timeout.ms=%d: %w", limit.Milliseconds(), err)
}

// awaitLeader waits until the metadata quorum has a leader: a mere controller is of use from then on.
func (n *Node) awaitLeader(ctx context.Context) error {
	for {
		changed := n.quorum.Changed()
		if _, _, ok := n.quorum.Leader(); ok {
			return nil
		}
		if err := n.await(ctx, changed, "the metadata quorum to have a leader"); err != nil {
			return err
		}
	}
}

// patience is how long a step of the start may take before the log says what is waited for.
const patience = 10 * time.Second

// await waits for one step of the start.
func (n *Node) await(ctx context.Context, step <-chan struct{}, what string) error {
	for {
		timer := time.NewTimer(patience)
		select {
		case <-step:
			timer.Stop()
			return nil
		case <-n.failed:
			timer.Stop()
			return n.failure
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("wait for %s: %w", what, context.Cause(ctx))
		case <-timer.C:
			n.o.Logger.Warn("still waiting for "+what, "controllers", n.controllers())
		}
	}
}

// watch looks for what a node cannot live without, and passes on what the controller must know.
func (n *Node) watch() {
	for {
		select {
		case <-n.quorum.Failed():
			n.fail(fmt.Errorf("the metadata log: %w", n.quorum.Err()))
			return
		case <-n.store.Failures():
			if n.uplink != nil {
				n.uplink.Hurry()
			}
			online := 0
			for _, d := range n.store.Directories() {
				if d.Online() {
					online++
				}
			}
			if online == 0 {
				n.fail(errors.New("every log directory has failed"))
				return
			}
		case <-n.ctx.Done():
			return
		}
	}
}

// snapshots writes a snapshot of the image whenever the quorum wants one.
func (n *Node) snapshots() {
	for {
		select {
		case <-n.quorum.SnapshotWanted():
			if n.ctx.Err() != nil {
				return
			}
			image := n.loader.Image()
			id := quorum.SnapshotID{EndOffset: image.Offset + 1, Epoch: image.Epoch}
			if err := n.quorum.WriteSnapshot(id, func(record func([]byte) error) error { return writeImage(image, record) }); err != nil {
				n.o.Logger.Error("cannot write a snapshot of the metadata", "snapshot", id, "error", err)
			}
		case <-n.ctx.Done():
			return
		}
	}
}

func writeImage(image *metadata.Image, record func([]byte) error) error {
	var err error
	image.EncodeRecords(func(value []byte) {
		if err == nil {
			err = record(value)
		}
	})
	return err
}

// local answers a request to the controller in this process.
func (n *Node) local(ctx context.Context, req kmsg.Request, principal, clientID string) (kmsg.Response, error) {
	return n.controller.Handle(ctx, controller.Request{Body: req, Principal: principal, ClientID: clientID})
}

// ready is nil when clients can be served.
func (n *Node) ready() error {
	switch n.phase.Load() {
	case phaseRunning:
		if done, all := n.first.opened(); done < all {
			return fmt.Errorf("recovering: %d of %d partitions are open", done, all)
		}
		return nil
	case phaseStopping:
		return errors.New("stopping")
	case phaseRecovery:
		if done, all := n.first.opened(); all > 0 {
			return fmt.Errorf("starting: %d of %d partitions are open", done, all)
		}
	}
	return errors.New("starting")
}

// recovered is how far the start is, in percent: 100 only when all is done.
func (n *Node) recovered() int {
	phase := n.phase.Load()
	if phase < phaseRecovery {
		return 0
	}
	done, all := n.first.opened()
	switch {
	case done < all:
		return 100 * done / all
	case phase >= phaseRunning:
		return 100
	case all > 0:
		return 99
	}
	return 0
}

// alive is nil while the process can still do its work.
func (n *Node) alive() error {
	select {
	case <-n.failed:
		return n.failure
	default:
		return nil
	}
}

// Failed is closed when the node cannot go on and has to be stopped; Err then says why.
func (n *Node) Failed() <-chan struct{} { return n.failed }

// Err returns why the node failed; valid once Failed is closed.
func (n *Node) Err() error { return n.failure }
