package zookeeper

import (
	"bytes"
	"testing"
)

// A client that writes the chroot sees the same tree as one that does not, and hears of paths as it writes them.
func TestChroot(t *testing.T) {
	inWorld(t, Limits{}, func(w *world) {
		w.server.o.Chroot = "/kafka"
		w.lead(self)
		old, plain := w.connection(w.server), w.connection(w.server)
		old.connect()
		plain.connect()
		flag := func(path string, watch byte) []byte { return append(appendString(nil, path), watch) }
		end := func(c client, body []byte, want string) {
			t.Helper()
			c.send(body)
			if got := c.frame(); !bytes.HasSuffix(got, []byte(want)) {
				t.Errorf("%x answered with %q, want …%q", body, got, want)
			}
		}
		old.send(request(1, opGetChildren, flag("/kafka", 1)...))
		if got := old.frame(); !bytes.Contains(got, []byte("brokers")) {
			t.Errorf("children of the chroot: %q", got)
		}
		end(old, request(2, opCreate, createBody("/kafka", nil, 0)...), "\xff\xff\xff\x92") // as the first tool of all does
		end(plain, request(1, opCreate, createBody("/x", []byte("data"), 0)...), "/x")
		if got := old.frame(); !bytes.HasSuffix(got, []byte("\x00\x00\x00\x06/kafka")) {
			t.Errorf("event %q", got)
		}
		old.send(request(3, opGetData, flag("/kafka/x", 1)...))
		if got := old.frame(); !bytes.Contains(got, []byte("data")) {
			t.Errorf("a node below the chroot: %q", got)
		}
		end(plain, request(2, opGetChildren, flag("/kafka", 0)...), "zookeeper") // it is the root for whoever names it
		end(old, request(4, opCreate, createBody("/kafka/y", nil, 0)...), "/kafka/y")
	})
}
