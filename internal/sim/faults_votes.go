package sim

import (
	"path/filepath"
	"slices"
	"sync"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/quorum"
	"moldau/internal/vfs"
)

// loseVote takes from a voter what it has promised to the others: its term and vote, its metadata log, or all that it has. It comes
// back as somebody who has no vote, until it is given one. The others are a majority of the voters, and have what it had.
func (c *course) loseVote() {
	h := c.hosts[c.rng.IntN(len(c.hosts))]
	c.world.Within(time.Second, c.allServe)
	if !c.dispensable(h) {
		return
	}
	log := c.plan.dirs()[0] + "/__cluster_metadata-0"
	state := log + "/quorum-state" // not there before the first election that it hears of
	all := c.rng.IntN(3) == 0 && c.plan.wipes() && c.spare(h, func(string) bool { return true })
	c.hit(LostVote, h)
	c.die(h, false)
	c.controllers.see(voter{id: h.id})
	remembers, err := vfs.Exists(h.mem, state)
	if err != nil {
		c.fail(sound, "%v", err)
	}
	known := c.newest()
	switch {
	case all:
		h.wipe()
	case c.rng.IntN(2) == 0 || !remembers:
		c.world.Note("%s has no metadata log", h.name)
		c.take(h, log, h.mem.RemoveAll)
	default:
		c.world.Note("%s has no term and vote", h.name)
		c.take(h, state, h.mem.Remove)
	}
	c.revive(h)
	if all {
		c.untilGone(h, known)
	}
}

// take takes something from a disk that nobody uses, durably.
func (c *course) take(h *Host, path string, remove func(path string) error) {
	err := remove(path)
	if err == nil {
		err = h.mem.SyncDir(filepath.Dir(path))
	}
	if err != nil {
		c.fail(sound, "%v", err)
	}
}

func (c *course) allServe() bool {
	return !slices.ContainsFunc(c.hosts, func(h *Host) bool { return !h.serves() })
}

// dispensable tells whether the metadata quorum can do without what a node remembers: everybody knows the same voters, and enough
// of the others are who the set says. Where an operator changes the set, one change may be under way that nobody knows of yet.
func (c *course) dispensable(h *Host) bool {
	set, agreed := c.voters()
	if !agreed {
		return false
	}
	others := 0
	for _, v := range set {
		if v.ID != h.id && c.hosts[v.ID-1].life.node.Quorum().Self.DirID == v.DirID {
			others++
		}
	}
	if c.plan.Voting {
		return others-1 > (len(set)-1)/2
	}
	return others > len(set)/2
}

// voters is the voter set, if all nodes serve and know the same.
func (c *course) voters() (set []quorum.Voter, agreed bool) {
	for i, h := range c.hosts {
		if !h.serves() {
			return nil, false
		}
		its := h.life.node.Quorum().VoterSet
		if i > 0 && !slices.EqualFunc(set, its, quorum.SameVoter) {
			return nil, false
		}
		set = its
	}
	return set, true
}

// relisten has a controller listen at another port from its next start on. Of one at a time the others do not know where it is, and
// it is one that their configuration names: where the last voter is, nobody else could tell them.
func (c *course) relisten() {
	h := c.hosts[c.rng.IntN(len(c.hosts))]
	c.world.Within(time.Second, c.allServe)
	set, agreed := c.voters()
	elsewhere := func(v quorum.Voter) bool { return int(v.Endpoints[0].Port) != c.controllers.port(v.ID) }
	if !agreed || len(set) < 2 || slices.ContainsFunc(set, elsewhere) || int(h.id) > c.plan.Voters {
		return
	}
	c.hit(OtherPort, h)
	c.stop(h)
	c.controllers.changePort(h.id)
	c.world.Note("%s has its controller at port %d", h.name, c.controllers.port(h.id))
	c.revive(h)
}

// checkVoters: before long everybody knows the same voters, each is who the set says, and listens where it says.
func (c *course) checkVoters() {
	right := func() bool {
		set, agreed := c.voters()
		wrong := func(v quorum.Voter) bool {
			self := c.hosts[v.ID-1].life.node.Quorum().Self
			return self.DirID != v.DirID || int(v.Endpoints[0].Port) != c.controllers.port(v.ID)
		}
		return agreed && len(set) > 0 && !slices.ContainsFunc(set, wrong)
	}
	if c.world.Within(patience, right) {
		return
	}
	for _, h := range c.hosts {
		if h.serves() {
			c.world.Note("%s knows the voters %v", h.name, h.life.node.Quorum().VoterSet)
		}
	}
	c.fail(inTime, "not all know the same voters, as they are, %v after the last fault", patience)
}

// controllers is what an operator knows of the nodes that may vote.
type controllers struct {
	mu    sync.Mutex
	ports []int         // where they listen, by place
	dirs  []kafka.DirID // who they are in the quorum; zero: nobody has seen it yet, or not since it lost its vote
}

func newControllers(nodes int) *controllers {
	return &controllers{ports: slices.Repeat([]int{9093}, nodes), dirs: make([]kafka.DirID, nodes)}
}

func (c *controllers) allPorts() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.ports)
}

func (c *controllers) port(id kafka.NodeID) int { return c.allPorts()[id-1] }

func (c *controllers) changePort(id kafka.NodeID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ports[id-1] ^= 9093 ^ 9094
}

// who is the voter that a node is, with a directory id of zero if that is not known.
func (c *controllers) who(id kafka.NodeID) voter {
	c.mu.Lock()
	defer c.mu.Unlock()
	return voter{id, c.dirs[id-1]}
}

func (c *controllers) see(v voter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dirs[v.id-1] = v.dir
}

// seeControllers notes who nodes are that serve.
func (c *course) seeControllers() {
	for _, h := range c.hosts {
		if h.serves() {
			c.controllers.see(voter{h.id, h.life.node.Quorum().Self.DirID})
		}
	}
}
