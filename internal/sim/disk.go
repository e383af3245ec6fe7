package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"moldau/internal/vfs"
)

// ErrDead is what the seams of a dead node return for ever.
var ErrDead = errors.New("this node is dead")

// disk is what a node sees of its disk while it lives.
type disk struct {
	world *World
	host  string
	mem   *vfs.Mem
	fs    *vfs.Inject
	dead  chan struct{} // closed by the node's death
}

func newDisk(w *World, host string, mem *vfs.Mem, dead chan struct{}) *disk {
	d := &disk{world: w, host: host, mem: mem, fs: vfs.NewInject(mem), dead: dead}
	d.fs.Hook = d.before
	d.fs.After = d.after
	return d
}

// before parks every operation that changes the disk until the driver picks it.
func (d *disk) before(op vfs.Op) error {
	if d.isDead() {
		return ErrDead
	}
	if op.Kind.Mutates() {
		d.world.wait(fmt.Sprintf("disk %s %s %s", d.host, op.Kind, op.Path))
		if d.isDead() {
			return ErrDead
		}
	}
	return nil
}

// after parks every sync a second time, between its effect and its caller's knowledge of it.
func (d *disk) after(op vfs.Op, _ error) {
	syncs := op.Kind == vfs.OpSync || op.Kind == vfs.OpSyncData || op.Kind == vfs.OpSyncFS || op.Kind == vfs.OpSyncDir
	if syncs && !d.isDead() {
		d.world.wait(fmt.Sprintf("disk %s %s %s done", d.host, op.Kind, op.Path))
	}
}

func (d *disk) isDead() bool {
	select {
	case <-d.dead:
		return true
	default:
		return false
	}
}

// powerLoss returns the disk as it may look when the power comes back.
func (d *disk) powerLoss(rng *rand.Rand) *vfs.Mem {
	keep := []float64{0, 0.5, 1, rng.Float64()}[rng.IntN(4)]
	return d.mem.CrashClone(rng, keep)
}

// killed returns the disk as the next process finds it.
func (d *disk) killed() *vfs.Mem { return d.mem.KillClone() }
