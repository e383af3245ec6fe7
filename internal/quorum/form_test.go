package quorum

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/vfs"
	"moldau/internal/wire"
)

// forming is a node that is not formatted.
type forming struct {
	m      *member
	o      FormOptions
	result chan error
	formed Formed
	cancel context.CancelFunc
}

// form lets a node of the world form a cluster with those that it lists.
func (w *world) form(id kafka.NodeID, change ...func(*FormOptions)) *forming {
	m, ok := w.nodes[id]
	if !ok {
		m = w.add(testVoter(id), nil)
	}
	o := FormOptions{
		FS: m.disk, Dir: "/meta", NodeID: id, DirID: m.self.DirID, Endpoints: m.self.Endpoints, CanVote: true,
		Dial: w.dialFrom(id), Now: time.Now, Logger: slog.New(slog.DiscardHandler),
	}
	for _, c := range change {
		c(&o)
	}
	ctx, cancel := context.WithCancel(context.Background())
	f := &forming{m: m, o: o, result: make(chan error, 1), cancel: cancel}
	m.mu.Lock()
	m.answer = o.Answer
	m.mu.Unlock()
	go func() {
		formed, err := Form(ctx, o)
		f.formed = formed
		f.result <- err
	}()
	w.t.Cleanup(cancel)
	return f
}

func bootstrap(ids ...kafka.NodeID) func(*FormOptions) {
	return func(o *FormOptions) {
		for _, id := range ids {
			o.Bootstrap = append(o.Bootstrap, addressOf(testVoter(id)))
		}
	}
}

// serveAsFormed runs the node in the cluster that it has formed or found.
func (f *forming) serveAsFormed(w *world) {
	w.t.Helper()
	f.m.options = func(o *Options) {
		o.ClusterID, o.Voters, o.Bootstrap, o.Joined = f.formed.ClusterID, f.formed.Voters, f.o.Bootstrap, f.formed.Join
	}
	f.m.mu.Lock()
	f.m.answer = nil
	f.m.mu.Unlock()
	w.start(f.m.self.ID)
}

// TestForming: three nodes that list each other become one cluster, whatever the order in which they start; one that comes later
// joins it.
func TestForming(t *testing.T) {
	for _, order := range [][]kafka.NodeID{{1, 2, 3}, {3, 2, 1}, {2, 3, 1}} {
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			inWorld(t, 0, func(w *world) {
				var all []*forming
				for _, id := range order {
					all = append(all, w.form(id, bootstrap(1, 2, 3)))
					time.Sleep(300 * time.Millisecond)
					if len(all) < 3 && (len(all[0].result) > 0 || len(all[len(all)-1].result) > 0) {
						t.Fatal("formed before all were there")
					}
				}
				for range all { // the lowest first; the others find it formatted
					i := slices.IndexFunc(all, func(f *forming) bool { return len(f.result) > 0 })
					if i < 0 {
						time.Sleep(200 * time.Millisecond)
						i = slices.IndexFunc(all, func(f *forming) bool { return len(f.result) > 0 })
					}
					if i < 0 {
						t.Fatal("nobody forms the cluster")
					}
					f := all[i]
					if err := <-f.result; err != nil {
						t.Fatal(err)
					}
					f.serveAsFormed(w)
				}
				leader, epoch := w.leader()
				w.voters(1, 2, 3)
				w.propose(leader, epoch, "a")
				w.agreed("a")
				for _, f := range all {
					if f.formed.ClusterID != all[0].formed.ClusterID || f.formed.Join {
						t.Errorf("node %d formed %+v", f.m.self.ID, f.formed)
					}
				}
				late := w.form(4, bootstrap(1, 2, 3))
				if err := <-late.result; err != nil || !late.formed.Join || late.formed.Voters != nil || late.formed.ClusterID != all[0].formed.ClusterID {
					t.Fatalf("the late node: %v, %+v", err, late.formed)
				}
				late.serveAsFormed(w)
				w.voters(1, 2, 3, 4)
				w.agreed("a")
				ctx, cancel := soon()
				defer cancel()
				if err := leader.q.RemoveVoter(ctx, late.m.self); err != nil {
					t.Fatal(err)
				}
				time.Sleep(5 * time.Second)
				w.voters(1, 2, 3) // it does not ask twice
			})
		})
	}
}

// TestFormingHeals: whoever crashes on the way, before or after the voter set was stored, finds its place again.
func TestFormingHeals(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		first, second := w.form(1, bootstrap(1, 2)), w.form(2, bootstrap(1, 2))
		if err := <-first.result; err != nil {
			t.Fatal(err)
		}
		before := first.formed
		// The first has stored the voter set, dies before it has stored the cluster id, and starts over.
		first.m.disk = first.m.disk.KillClone()
		first = w.form(1, bootstrap(1, 2))
		if err := <-first.result; err != nil {
			t.Fatal(err)
		}
		if first.formed.ClusterID == before.ClusterID {
			t.Error("the cluster id that nobody has heard of came back")
		}
		first.serveAsFormed(w)
		if err := <-second.result; err != nil {
			t.Fatal(err)
		}
		second.m.disk = second.m.disk.KillClone()
		second = w.form(2, bootstrap(1, 2))
		if err := <-second.result; err != nil || second.formed.Join || second.formed.ClusterID != first.formed.ClusterID {
			t.Fatalf("the second: %v, %+v", err, second.formed)
		}
		second.serveAsFormed(w)
		leader, epoch := w.leader()
		w.propose(leader, epoch, "a")
		w.agreed("a")
		if aside := append(strays(t, first.m.disk), strays(t, second.m.disk)...); len(aside) > 0 {
			t.Errorf("tries were kept: %v", aside)
		}
	})
}

// TestFormingWaits: what keeps nodes from forming a cluster is waited for, and named.
func TestFormingWaits(t *testing.T) {
	self := testVoter(1)
	info := func(id kafka.NodeID, listed ...string) *nodeInfo {
		return &nodeInfo{node: testVoter(id), listed: listed}
	}
	both := []string{"n1:9093", "n2:9093"}
	formatted := &nodeInfo{node: testVoter(2), clusterID: "one", voters: []Voter{testVoter(2), testVoter(3)}}
	with := func(i *nodeInfo, change func(*nodeInfo)) *nodeInfo {
		change(i)
		return i
	}
	for name, c := range map[string]struct {
		change  func(*FormOptions)
		answers []*nodeInfo
		waits   string
		err     string
		join    bool
		voters  int
	}{
		"all there":                {answers: []*nodeInfo{info(1, both...), info(2, both...)}, voters: 2},
		"silent":                   {answers: []*nodeInfo{info(1, both...), nil}, waits: "n2:9093 (no answer: gone)"},
		"lists others":             {answers: []*nodeInfo{info(1, both...), info(2, "n2:9093", "n3:9093")}, waits: "lists the controllers [n2:9093, n3:9093]"},
		"not the lowest":           {change: func(o *FormOptions) { o.NodeID, o.DirID = 2, testVoter(2).DirID }, answers: []*nodeInfo{info(1, both...), info(2, both...)}, waits: "node 1, which has the lowest id"},
		"not listed":               {change: func(o *FormOptions) { o.NodeID, o.DirID = 0, testVoter(9).DirID }, answers: []*nodeInfo{info(1, both...), info(2, both...)}, waits: "none of them"},
		"a broker":                 {change: func(o *FormOptions) { o.CanVote = false }, answers: []*nodeInfo{info(1, both...), info(2, both...)}, waits: "to form a cluster"},
		"one id twice":             {answers: []*nodeInfo{info(1, both...), with(info(2, both...), func(i *nodeInfo) { i.node.ID = 1 })}, waits: "given once"},
		"two addresses":            {answers: []*nodeInfo{info(1, both...), info(1, both...)}, voters: 1},
		"formatted":                {answers: []*nodeInfo{info(1, both...), formatted}, join: true},
		"formatted, silent":        {answers: []*nodeInfo{nil, formatted}, join: true},
		"formatted with me":        {answers: []*nodeInfo{nil, {node: testVoter(2), clusterID: "one", voters: []Voter{self, testVoter(2)}}}, voters: 2},
		"formatted with who I was": {answers: []*nodeInfo{nil, {node: testVoter(2), clusterID: "one", voters: []Voter{{ID: 1, DirID: kafka.DirID{77}}, testVoter(2)}}}, join: true},
		"another cluster":          {change: func(o *FormOptions) { o.ClusterID = "two" }, answers: []*nodeInfo{nil, formatted}, err: "belongs to cluster one, and cluster.id is two"},
		"two clusters":             {answers: []*nodeInfo{{node: testVoter(1), clusterID: "two"}, formatted}, err: "others that the configuration lists"},
		"another voter": {change: func(o *FormOptions) { o.Bootstrap, o.Voters = nil, []Listed{{1, "n1:9093"}, {3, "n2:9093"}} },
			answers: []*nodeInfo{info(1, "1@n1:9093", "3@n2:9093"), info(2, "1@n1:9093", "3@n2:9093")}, waits: "node 3 to listen at n2:9093, where node 2 does"},
	} {
		t.Run(name, func(t *testing.T) {
			o := FormOptions{NodeID: 1, DirID: self.DirID, Endpoints: self.Endpoints, CanVote: true, Bootstrap: both}
			if c.change != nil {
				c.change(&o)
			}
			formed, waits, err := o.decide(both, c.answers, []error{errors.New("gone"), errors.New("gone")})
			switch {
			case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)), c.err == "" && err != nil:
				t.Errorf("error %v, want %q", err, c.err)
			case c.waits == "" && waits != "" || !strings.Contains(waits, c.waits):
				t.Errorf("waits for %q, want %q", waits, c.waits)
			case formed.Join != c.join || len(formed.Voters) != c.voters:
				t.Errorf("formed %+v", formed)
			}
		})
	}
}

// TestFormingAtABroker: a node that was given the port for clients instead of the controller's says so, and does not send what would be
// an error in the other's log.
func TestFormingAtABroker(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	asked := make(chan int16, 8)
	go func() {
		defer close(asked)
		for {
			frame, err := wire.ReadFrame(far, 1<<20, func(n int) []byte { return make([]byte, n) })
			if err != nil {
				return
			}
			h, err := wire.ParseHeader(frame)
			if err != nil {
				return
			}
			asked <- h.Key
			resp := kmsg.NewPtrApiVersionsResponse()
			resp.Version = h.Version
			resp.ApiKeys = []kmsg.ApiVersionsResponseApiKey{{ApiKey: kmsg.Produce.Int16(), MaxVersion: 9}, {ApiKey: kmsg.ApiVersions.Int16(), MaxVersion: 3}}
			if _, err := far.Write(wire.AppendResponse(nil, h.CorrelationID, resp)); err != nil {
				return
			}
		}
	}()
	_, err := askNode(t.Context(), "n1:9092", func(context.Context, string) (net.Conn, error) { return near, nil })
	if !errors.Is(err, errBrokerListener) {
		t.Errorf("error %v", err)
	}
	for key := range asked {
		if key != kmsg.ApiVersions.Int16() {
			t.Errorf("it was sent a request with key %d", key)
		}
	}
}

// TestFormingGivesUp: a node that is stopped while it waits says what for.
func TestFormingGivesUp(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		f := w.form(1, bootstrap(1, 2))
		time.Sleep(time.Minute)
		f.cancel()
		if err := <-f.result; err == nil || !strings.Contains(err.Error(), "n2:9093 (no answer: ") {
			t.Errorf("gave up with %v", err)
		}
	})
}

// TestFormingSetsAside: a metadata log that is there, and belongs to no known cluster, is kept and not used.
func TestFormingSetsAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newDisk(t)
		q, _, epoch := start(t, disk)
		propose(t, q, epoch, "a")
		stop(t, q)
		o := FormOptions{FS: disk, Dir: "/meta", NodeID: 3, DirID: kafka.DirID{8}, CanVote: true, Voters: []Listed{{3, "n3:9093"}},
			Endpoints: testVoter(3).Endpoints, Now: time.Now, Logger: slog.New(slog.DiscardHandler)}
		formed, err := Form(context.Background(), o)
		if err != nil || len(formed.Voters) != 1 {
			t.Fatalf("%+v, %v", formed, err)
		}
		_, r, _ := start(t, disk, func(o *Options) { o.DirID, o.Voters = kafka.DirID{8}, formed.Voters })
		if _, state := r.snapshot(); len(state) > 0 {
			t.Errorf("the new log has %q", state)
		}
		if aside := strays(t, disk); len(aside) != 1 {
			t.Errorf("set aside: %v", aside)
		}
	})
}

func strays(t *testing.T, disk vfs.FS) (found []string) {
	t.Helper()
	entries, err := disk.List("/meta")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name, "-stray") {
			found = append(found, e.Name)
		}
	}
	return found
}
