package quorum

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"moldau/internal/kafka"
)

// walk is a random life of up to six nodes: kills, power cuts, cut links, voters that come and go, snapshots, and proposals all the
// while. What the ring of crashes does in one order it does in many.
type walk struct {
	saga
	rng   *rand.Rand
	nodes []kafka.NodeID
	cut   map[kafka.NodeID]bool
}

func (k *walk) any() kafka.NodeID { return k.nodes[k.rng.IntN(len(k.nodes))] }

// down counts the voters that are down or cut off, as the newest leader sees them.
func (k *walk) down() (down, of int) {
	leader, ok := k.anyLeader()
	if !ok {
		return 1, 1
	}
	for _, v := range leader.q.Status().VoterSet {
		of++
		if q, _ := k.w.nodes[v.ID].running(); q == nil || k.cut[v.ID] {
			down++
		}
	}
	return down, of
}

func (k *walk) anyLeader() (found *member, ok bool) {
	var newest kafka.Epoch
	for _, id := range k.nodes {
		m := k.w.nodes[id]
		if q, _ := m.running(); q == nil || k.cut[id] {
			continue
		}
		if epoch, leads := m.r.leading(); leads && epoch > newest {
			found, newest = m, epoch
		}
	}
	return found, found != nil
}

func (k *walk) step(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	id := k.any()
	m := k.w.nodes[id]
	q, _ := m.running()
	switch roll := k.rng.IntN(100); {
	case roll < 40:
		if leader, ok := k.anyLeader(); ok {
			epoch, _ := leader.r.leading()
			k.count++
			v := fmt.Sprintf("record %d", k.count)
			if _, done, err := leader.q.Propose(epoch, values(v)); err == nil {
				select {
				case err = <-done:
					if err == nil {
						k.acked = append(k.acked, v)
					}
				case <-time.After(time.Duration(k.rng.IntN(3000)) * time.Millisecond):
				}
			}
		}
	case roll < 50:
		if down, of := k.down(); q != nil && 2*(down+1) < of {
			k.note()
			if k.w.kill(id); k.rng.IntN(2) == 0 {
				m.disk = m.disk.CrashClone(k.rng, k.rng.Float64())
			}
		}
	case roll < 54:
		if down, of := k.down(); q != nil && 2*(down+1) < of && !k.cut[id] {
			k.note()
			k.w.stop(id)
		}
	case roll < 64:
		if q == nil {
			k.w.start(id)
		}
	case roll < 70:
		if down, of := k.down(); 2*(down+1) < of || k.cut[id] {
			k.cut[id] = !k.cut[id]
			k.w.cut(id, k.cut[id])
		}
	case roll < 76:
		if leader, ok := k.anyLeader(); ok && q != nil && !k.cut[id] {
			_ = leader.q.AddVoter(ctx, m.self)
		}
	case roll < 80:
		if leader, ok := k.anyLeader(); ok {
			if down, of := k.down(); of > 3 && 2*(down+1) < of {
				_ = leader.q.RemoveVoter(ctx, m.self)
			}
		}
	case roll < 86:
		if q != nil {
			snapshot, state := m.r.snapshot()
			_ = q.WriteSnapshot(snapshot, emitAll(state))
		}
	default:
		time.Sleep(time.Duration(k.rng.IntN(1500)) * time.Millisecond)
	}
	synctest.Wait()
	for _, id := range k.nodes {
		if q, _ := k.w.nodes[id].running(); q != nil && q.Err() != nil {
			t.Fatalf("node %d: %v", id, q.Err())
		}
	}
}

// settle heals everything and checks what is promised.
func (k *walk) settle(t *testing.T) {
	k.note()
	for _, id := range k.nodes {
		if k.cut[id] {
			k.w.cut(id, false)
		}
		if q, _ := k.w.nodes[id].running(); q == nil {
			k.w.start(id)
		}
	}
	k.cut = map[kafka.NodeID]bool{}
	last := ""
	k.w.await("a record is committed", 20*time.Second, func() bool {
		leader, ok := k.anyLeader()
		if !ok {
			return false
		}
		epoch, _ := leader.r.leading()
		k.count++
		last = fmt.Sprintf("record %d", k.count)
		_, done, err := leader.q.Propose(epoch, values(last))
		if err != nil {
			return false
		}
		select {
		case err = <-done:
		case <-time.After(3 * time.Second):
			return false
		}
		if err == nil {
			k.acked = append(k.acked, last)
		}
		return err == nil
	})
	var first []string
	k.w.await("everybody has "+last, 20*time.Second, func() bool {
		for _, id := range k.nodes {
			if _, state := k.w.nodes[id].r.snapshot(); len(state) == 0 || string(state[len(state)-1]) != last {
				return false
			}
		}
		return true
	})
	for _, id := range k.nodes {
		_, state := k.w.nodes[id].r.snapshot()
		var got []string
		for _, v := range state {
			got = append(got, string(v))
		}
		if first == nil {
			first = got
		}
		if !slices.Equal(got, first) {
			t.Fatalf("node %d has\n%q, node %d\n%q", id, got, k.nodes[0], first)
		}
	}
	next := 0
	for _, v := range k.acked {
		i := slices.Index(first[next:], v)
		if i < 0 {
			t.Fatalf("%q was acked and is gone or out of order in %q", v, first)
		}
		next += i + 1
	}
	k.note()
	by := map[string]string{}
	for lead := range k.leads {
		epoch, node, _ := strings.Cut(lead, " by ")
		if other, ok := by[epoch]; ok {
			t.Fatalf("nodes %s and %s both led epoch %s", other, node, epoch)
		}
		by[epoch] = node
	}
}

// TestRandomLives: whatever happens to a minority, and to all of them one after the other, what was acked stays, everybody has the
// same, and no epoch has two leaders.
func TestRandomLives(t *testing.T) {
	seeds := uint64(40)
	if testing.Short() {
		seeds = 8
	}
	for seed := range seeds {
		inWorld(t, 3, func(w *world) {
			k := &walk{saga: saga{w: w, leads: make(map[string]bool)}, rng: rand.New(rand.NewPCG(seed, 7)), nodes: []kafka.NodeID{1, 2, 3, 4, 5}, cut: map[kafka.NodeID]bool{}}
			for _, id := range k.nodes[3:] {
				w.add(testVoter(id), func(*Options) {})
			}
			for _, id := range k.nodes {
				m := w.nodes[id]
				m.options = with(m.options, func(o *Options) {
					o.SegmentBytes, o.RetentionBytes = 600, 0
					for _, other := range k.nodes {
						o.Bootstrap = append(o.Bootstrap, addressOf(testVoter(other)))
					}
				})
				w.start(id)
			}
			for range 120 {
				k.step(t)
			}
			k.settle(t)
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
