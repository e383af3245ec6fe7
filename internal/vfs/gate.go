package vfs

import (
	"strings"
	"sync"
)

// Gate holds operations back while it is shut, as the Hook of an Inject: every sync of a log's records, or the writes that Stall
// names. Its zero value is open.
type Gate struct {
	mu      sync.Mutex
	shut    chan struct{} // nil: open
	stalled string
	broken  error
}

// Stall makes it hold back writes to paths that contain path, and no syncs any more.
func (g *Gate) Stall(path string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stalled = path
}

// Break makes all that comes to the gate fail with err when it may go on.
func (g *Gate) Break(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.broken = err
}

// Hook is for Inject.Hook.
func (g *Gate) Hook(op Op) error {
	g.mu.Lock()
	wait, here := g.shut, (op.Kind == OpSync || op.Kind == OpSyncData) && strings.HasSuffix(op.Path, ".log")
	if g.stalled != "" {
		here = op.Kind == OpWrite && strings.Contains(op.Path, g.stalled)
	}
	g.mu.Unlock()
	if !here {
		return nil
	}
	if wait != nil {
		<-wait
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.broken
}

// Close shuts the gate.
func (g *Gate) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut == nil {
		g.shut = make(chan struct{})
	}
}

// Open lets go on what waits, and what comes.
func (g *Gate) Open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut != nil {
		close(g.shut)
		g.shut = nil
	}
}
