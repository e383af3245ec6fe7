package node

import (
	"context"
	"errors"
	"time"
)

// errStopping is why the parts of a node end when it stops.
var errStopping = errors.New("the node stops")

// controlledShutdown is how long the controller may take to move leaderships away.
const controlledShutdown = 5 * time.Second

// Stop ends the node: leaderships are handed over, replies that are due go out, everything is on disk. When ctx ends
// before that, what is left is cut short, which is no worse than a kill. When Stop returns, nothing of the node runs. A
// second call waits for the first.
func (n *Node) Stop(ctx context.Context) error {
	if n.stopping.CompareAndSwap(false, true) {
		n.stopErr = n.stop(ctx)
		close(n.stopped)
	}
	<-n.stopped
	return n.stopErr
}

func (n *Node) stop(ctx context.Context) error {
	running := n.phase.Swap(phaseStopping) == phaseRunning
	var errs []error
	if running {
		n.o.Logger.Info("Starting controlled shutdown")
		if n.uplink != nil && n.cfg.Session.ControlledShutdown && n.alive() == nil {
			handover, cancel := context.WithTimeout(ctx, controlledShutdown)
			if err := n.uplink.Shutdown(handover); err != nil {
				n.o.Logger.Warn("leaderships were not handed over", "error", err)
			}
			cancel()
		}
	}
	if n.serving {
		n.quorum.HandOver(ctx) // while the other controllers can still speak to this one
	}
	if n.groups != nil {
		n.groups.Stop() // members that wait for others are told to look for another coordinator
	}
	if n.zookeeper != nil {
		n.tree.Stop()
		n.zookeeper.Stop() // its clients go to another node
	}
	if n.server != nil {
		drain, cancel := context.WithTimeout(ctx, time.Second)
		// Long polls that wait for records get cut: their clients come back to another broker.
		_ = n.server.Stop(drain)
		cancel()
	}
	n.cancel(errStopping)
	for _, l := range n.listeners {
		_ = l.ln.Close() // those that nobody serves yet
	}
	if n.uplink != nil {
		n.fetcher.Stop()
		n.beats.Close()
		n.admin.Close()
	}
	n.running.Wait()
	if n.serving {
		if n.controller != nil {
			n.controller.Stop()
		}
		errs = append(errs, n.quorum.Stop())
	}
	if n.store != nil {
		errs = append(errs, n.store.Stop(running && ctx.Err() == nil))
	}
	err := errors.Join(errs...)
	if running && err == nil {
		n.o.Logger.Info("shut down completed")
	}
	return err
}
