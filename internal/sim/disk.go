package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

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

	open atomic.Int64 // files

	mu      sync.Mutex
	trouble *trouble
	lost    string // the directory in which nothing works any more; "" for none
	harmed  bool   // an operation has failed
}

// trouble is an error that waits for its operation.
type trouble struct {
	kind vfs.OpKind
	path string // part of it
	nth  int    // such operation from now on
}

func newDisk(w *World, host string, mem *vfs.Mem, dead chan struct{}) *disk {
	d := &disk{world: w, host: host, mem: mem, fs: vfs.NewInject(mem), dead: dead}
	d.fs.Hook = d.before
	d.fs.After = d.after
	d.fs.SetRules(d.verdict)
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
func (d *disk) after(op vfs.Op, err error) {
	switch {
	case op.Kind == vfs.OpClose:
		d.open.Add(-1)
	case (op.Kind == vfs.OpOpen || op.Kind == vfs.OpCreate) && err == nil:
		d.open.Add(1)
	}
	syncs := op.Kind == vfs.OpSync || op.Kind == vfs.OpSyncData || op.Kind == vfs.OpSyncFS || op.Kind == vfs.OpSyncDir
	if syncs && !d.isDead() {
		d.world.wait(fmt.Sprintf("disk %s %s %s done", d.host, op.Kind, op.Path))
	}
}

// verdict is the rule that makes operations fail.
func (d *disk) verdict(op vfs.Op) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lost != "" && strings.HasPrefix(op.Path, d.lost+"/") {
		d.harmed = true
		return syscall.EIO
	}
	t := d.trouble
	if t == nil || op.Kind != t.kind || !strings.Contains(op.Path, t.path) {
		return nil
	}
	if t.nth--; t.nth > 0 {
		return nil
	}
	d.trouble, d.harmed = nil, true
	d.world.Note("disk %s %s %s fails", d.host, op.Kind, op.Path)
	return syscall.EIO
}

// expect makes an operation fail some time; nil: none.
func (d *disk) expect(t *trouble) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.trouble = t
}

// lose has every operation in a directory fail from now on.
func (d *disk) lose(dir string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lost = dir
	d.world.Note("%s loses %s", d.host, dir)
}

// failed tells whether an operation has failed.
func (d *disk) failed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.harmed
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
