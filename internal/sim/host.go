package sim

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"moldau/internal/config"
	"moldau/internal/node"
	"moldau/internal/vfs"
)

// Host is a machine: a disk that outlives processes, and at most one node at a time.
type Host struct {
	world   *World
	network *Network
	name    string
	config  *config.Config
	mem     *vfs.Mem
	logger  *slog.Logger

	life *life
}

// life is one process of the node, from its start to its end.
type life struct {
	disk    *disk
	dead    chan struct{}
	node    *node.Node
	started chan error    // the outcome of Start
	settled chan struct{} // closed when Start has returned
	gone    chan struct{} // closed when Stop has
}

// NewHost returns a machine with an empty disk. properties is its server.properties.
func NewHost(w *World, n *Network, name, properties string, logger *slog.Logger) (*Host, error) {
	c, _, err := config.Load(config.Source{File: name, Text: []byte(properties)})
	if err != nil {
		return nil, err
	}
	mem := vfs.NewMem()
	mem.SetNow(time.Now)
	return &Host{world: w, network: n, name: name, config: c, mem: mem, logger: logger}, nil
}

// Start starts a process; Started tells when it serves.
func (h *Host) Start() error {
	l := &life{dead: make(chan struct{}), started: make(chan error, 1), settled: make(chan struct{}), gone: make(chan struct{})}
	l.disk = newDisk(h.world, h.name, h.mem, l.dead)
	n, err := node.Build(node.Options{
		Config: h.config, Logger: h.logger, FS: l.disk.fs, Listen: h.network.Listen(h.name), Dial: h.network.Dial(h.name), Now: time.Now,
		Hostname: func() (string, error) { return h.name, nil },
	})
	if err != nil {
		return fmt.Errorf("build %s: %w", h.name, err)
	}
	l.node = n
	h.life = l
	h.world.Note("%s starts", h.name)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		select {
		case <-l.dead:
			cancel()
		case <-l.gone:
		}
	}()
	go func() {
		defer cancel()
		l.started <- n.Start(ctx)
		close(l.settled)
	}()
	return nil
}

// Started waits, step by step, until the node serves.
func (h *Host) Started(steps int) error {
	var err error
	done := false
	if !h.world.Run(steps, func() bool {
		select {
		case err = <-h.life.started:
			done = true
		default:
		}
		return done
	}) {
		return fmt.Errorf("%s did not start within %d steps", h.name, steps)
	}
	return err
}

// Die ends the process at this instant. After a kill the disk keeps what programs saw; after a power loss, what was
// synced and by chance more.
func (h *Host) Die(power bool, rng *rand.Rand) error {
	l := h.life
	if power {
		h.mem = l.disk.powerLoss(rng)
	} else {
		h.mem = l.disk.killed()
	}
	h.mem.SetNow(time.Now)
	h.world.Note("%s dies, power lost: %t", h.name, power)
	close(l.dead)
	h.network.Drop(h.name)
	return h.leave(l)
}

// Stop ends the process as SIGTERM does.
func (h *Host) Stop() error { return h.leave(h.life) }

// leave waits until nothing of a process runs.
func (h *Host) leave(l *life) error {
	var stopErr error
	go func() {
		<-l.settled // of a dead node it ends with ErrDead, or because its context is over
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		stopErr = l.node.Stop(ctx)
		close(l.gone)
	}()
	if !h.world.Run(200000, func() bool {
		select {
		case <-l.gone:
			return true
		default:
			return false
		}
	}) {
		return fmt.Errorf("%s does not stop", h.name)
	}
	if l.disk.isDead() {
		return nil // the dead do not stop cleanly
	}
	return stopErr
}
