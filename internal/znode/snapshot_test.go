package znode

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// dump is the whole state in text, but for what a leader grants anew.
func (w *world) dump() string {
	s := &script{world: w}
	var out strings.Builder
	w.Must(w.c.turn(func(sh *shard, _ *coordinator.Turn) {
		fmt.Fprintf(&out, "zxid=%d sessions=%d metadata=%d bytes=%d\n", sh.zxid, sh.lastSession, sh.mirror.shown, sh.tree.bytes)
		for path, n := range sh.tree.nodes {
			if parent, name := split(path); path != "/" {
				if _, ok := sh.tree.nodes[parent].children[name]; !ok {
					w.T.Errorf("%s is not among its parent's children", path)
				}
			}
			for name := range n.children {
				if sh.tree.nodes[below(path, name)] == nil {
					w.T.Errorf("%s has no child %s", path, name)
				}
			}
		}
		for _, path := range slices.Sorted(maps.Keys(sh.tree.nodes)) {
			n := sh.tree.nodes[path]
			fmt.Fprintf(&out, "%s %v %q %+v %v %d\n", path, n.view, n.data, n.stat, n.acl, len(n.children))
		}
	}))
	return out.String() + s.tree()
}

// Whatever happens while a snapshot is being written, what is loaded from it is the tree as it was; and the log does not grow
// for ever.
func TestSnapshotWhileTheTreeChanges(t *testing.T) {
	inWorld(t, func(w *world) {
		w.Stop()
		w.snapshotBytes = 200 << 10
		w.Epoch++
		w.Start()
		rng := rand.New(rand.NewPCG(1, 2))
		a := w.call("a", Connect{TimeoutMs: 40000})
		b := w.call("b", Connect{TimeoutMs: 40000})
		synctest.Wait()
		var log int64
		for round := range 12 {
			for range 100 {
				c := a
				if rng.IntN(2) == 0 {
					c = b
				}
				path := fmt.Sprintf("/t%d", rng.IntN(30))
				if rng.IntN(3) > 0 {
					path += fmt.Sprintf("/u%d", rng.IntN(5))
				}
				data := make([]byte, rng.IntN(8<<10))
				if rng.IntN(20) == 0 {
					time.Sleep(partPause)
				}
				switch rng.IntN(5) {
				case 0, 1:
					c.do(Create{Path: path, Data: data, ACL: open(), Flags: int32(rng.IntN(4))})
				case 2:
					c.do(SetData{path, data, -1})
				case 3:
					c.do(SetACL{path, []ACL{{int32(rng.IntN(31)) | permAll, anyone}, {permRead, ID{"ip", "10.0.0.1"}}}, -1})
				case 4:
					c.do(Delete{path, -1})
				}
			}
			want := w.dump()
			w.resign()
			w.elect()
			if got := w.dump(); got != want {
				t.Fatalf("round %d: loaded\n%s\nwant\n%s", round, got, want)
			}
			for _, c := range []**caller{&a, &b} {
				session := (*c).session
				*c = w.call((*c).name, Connect{SessionID: session.SessionID, Password: session.Password[:], TimeoutMs: 40000})
				synctest.Wait()
				(*c).do(Ping{})
			}
			p, err := w.Set.Partition(kafka.TopicPartition{Topic: Topic})
			w.Must(err)
			log = int64(p.LogStart())
		}
		if log == 0 {
			t.Fatal("nothing of the log was ever deleted")
		}
	})
}
