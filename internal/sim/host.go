package sim

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"testing/synctest"
	"time"

	"moldau/internal/config"
	"moldau/internal/kafka"
	"moldau/internal/node"
	"moldau/internal/vfs"
)

// Host is a machine: a disk that outlives processes, and at most one node at a time.
type Host struct {
	world   *World
	network *Network
	name    string
	id      kafka.NodeID
	config  func() (*config.Config, error) // its server.properties, as they are now
	mem     *vfs.Mem
	logger  *slog.Logger
	wrap    func(vfs.FS) vfs.FS // what lies between the node and its disk: nothing, or a planted bug

	skew  atomic.Int64 // of its wall clock, nanoseconds
	full  bool         // the disk is, since somebody made it so
	wiped bool         // its disks were made empty once
	life  *life        // nil: no process
}

// life is one process of the node, from its start to its end.
type life struct {
	disk    *disk
	dead    chan struct{}
	node    *node.Node
	giveUp  context.CancelFunc // ends Start
	settled chan struct{}      // closed when Start has returned
	err     error              // what it returned; written before
	gone    chan struct{}      // closed when Stop has
}

// NewHost returns a machine with an empty disk. properties is its server.properties, read at each start.
func NewHost(w *World, n *Network, id kafka.NodeID, name string, properties func() string, logger *slog.Logger) *Host {
	load := func() (*config.Config, error) {
		c, _, err := config.Load(config.Source{File: name, Text: []byte(properties())})
		return c, err
	}
	mem := vfs.NewMem()
	mem.SetNow(time.Now)
	return &Host{world: w, network: n, id: id, name: name, config: load, mem: mem, logger: logger, wrap: func(fs vfs.FS) vfs.FS { return fs }}
}

// Start starts a process; Started tells when it serves.
func (h *Host) Start() error {
	l := &life{dead: make(chan struct{}), settled: make(chan struct{}), gone: make(chan struct{})}
	l.disk = newDisk(h.world, h.name, h.mem, l.dead)
	cfg, err := h.config()
	if err != nil {
		return fmt.Errorf("configuration of %s: %w", h.name, err)
	}
	n, err := node.Build(node.Options{
		Config: cfg, Logger: h.logger, FS: h.wrap(l.disk.fs), Listen: h.network.Listen(h.name), Dial: h.network.Dial(h.name), Now: h.now,
		Hostname: func() (string, error) { return h.name, nil },
	})
	if err != nil {
		return fmt.Errorf("build %s: %w", h.name, err)
	}
	l.node = n
	h.life = l
	h.world.Note("%s starts", h.name)
	ctx, cancel := context.WithCancel(context.Background())
	l.giveUp = cancel
	go func() {
		select {
		case <-l.dead:
			cancel()
		case <-l.gone:
		}
	}()
	go func() {
		defer cancel()
		l.err = n.Start(ctx)
		close(l.settled)
	}()
	synctest.Wait() // whoever kills it at this instant finds it where it is each time
	return nil
}

// Started waits, step by step, until the node serves, but no longer than for d.
func (h *Host) Started(d time.Duration) error {
	if !h.world.Within(d, closed(h.life.settled)) {
		return fmt.Errorf("%s did not start within %v", h.name, d)
	}
	return h.life.err
}

// now is what the machine's wall clock shows.
func (h *Host) now() time.Time { return time.Now().Add(time.Duration(h.skew.Load())) }

// step makes the wall clock jump, but never further than a day from the true time.
func (h *Host) step(by time.Duration) {
	skew := min(max(time.Duration(h.skew.Load())+by, -day), day)
	h.skew.Store(int64(skew))
	h.world.Note("%s has a clock that is wrong by %v", h.name, skew)
}

// serves tells whether a process runs that has come as far as to serve.
func (h *Host) serves() bool { return h.life != nil && closed(h.life.settled)() && h.life.err == nil }

// wipe gives the machine, on which nothing runs, empty disks.
func (h *Host) wipe() {
	h.mem = vfs.NewMem()
	h.mem.SetNow(time.Now)
	h.wiped, h.full = true, false
	h.world.Note("%s has empty disks", h.name)
}

// Failed tells whether the node itself says that it cannot go on.
func (h *Host) Failed() bool { return closed(h.life.node.Failed())() }

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
	h.life = nil
	return h.leave(l)
}

// Stop ends the process as SIGTERM does, one that has not started yet too.
func (h *Host) Stop() error {
	l := h.life
	h.life = nil
	if !closed(l.settled)() {
		l.giveUp()
	}
	return h.leave(l)
}

// harmed tells whether an operation of the disk has failed, which takes a directory or the node out until a restart.
func (h *Host) harmed() bool { return h.life.disk.failed() }

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
	if !h.world.Within(2*time.Minute, closed(l.gone)) {
		return fmt.Errorf("%s does not stop", h.name)
	}
	if l.disk.isDead() {
		return nil // the dead do not stop cleanly
	}
	return stopErr
}

// closed tells, again and again, whether a channel is closed.
func closed(c <-chan struct{}) func() bool {
	return func() bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	}
}
