package sim

import (
	"runtime"
	"strings"
	"testing/synctest"
)

// checkLeaks: when every node has stopped cleanly and every client has gone, nothing runs that did not run before, every
// connection is closed and every file.
func (c *course) checkLeaks(before int) {
	synctest.Wait()
	if n := runtime.NumGoroutine(); n > before {
		c.fail(noLeaks, "%d goroutines are left behind", n-before)
	}
	if open := c.network.Open(""); len(open) > 0 {
		c.fail(noLeaks, "ends of connections are left open: %s", strings.Join(open, ", "))
	}
	for _, d := range c.disks {
		if n := d.open.Load(); n > 0 {
			c.fail(noLeaks, "%s has left %d files open", d.host, n)
		}
	}
}

// checkClosed: a node that has stopped cleanly has closed its ends of connections, and does not leave that to the other ends.
func (c *course) checkClosed(h *Host) {
	if open := c.network.Open(h.name); len(open) > 0 {
		c.fail(noLeaks, "%s has stopped and left its ends of connections open: %s", h.name, strings.Join(open, ", "))
	}
}
