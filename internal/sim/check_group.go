package sim

import "moldau/internal/kafka"

// committedOffset is what is known of an offset that the group has committed for one partition. The numbers that are
// committed grow, so that an older one is told from a newer.
type committedOffset struct {
	sent  int64          // the highest number that somebody has sent
	floor int64          // the highest that was acked or read; 0: none
	loose map[int64]bool // numbers whose commits were never answered: they may still arrive, whenever they like
}

// generationOf is what is known of one generation.
type generationOf struct {
	owners map[int32]string // member ids by partition
	kept   map[int32]string // who owned it when the generation began, and went on
}

// nextCommit returns the number to commit next for a partition.
func (h *History) nextCommit(partition int32) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.commitLocked(partition)
	c.sent++
	return c.sent
}

func (h *History) commitLocked(partition int32) *committedOffset {
	c := h.commits[partition]
	if c == nil {
		c = &committedOffset{loose: make(map[int64]bool)}
		h.commits[partition] = c
	}
	return c
}

// groupKnowledge is what was known when a request was sent.
type groupKnowledge struct {
	generation int32 // the highest whose assignment somebody has
	floor      int64 // of the partition asked about
	losses     int
}

func (h *History) knownOfGroup(partition int32) groupKnowledge {
	h.mu.Lock()
	defer h.mu.Unlock()
	return groupKnowledge{h.generation, h.commitLocked(partition).floor, h.losses}
}

// assigned records a member's part of a generation: no partition has two owners in one.
func (h *History) assigned(generation int32, member string, partitions []int32) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.generation = max(h.generation, generation)
	h.answers++
	g := h.generationLocked(generation)
	for _, p := range partitions {
		if other, taken := g.owners[p]; taken && other != member && h.losses == 0 {
			h.faultLocked(oneOwner, "generation %d gave partition %d to %s and to %s", generation, p, other, member)
		}
		g.owners[p] = member
		h.checkKeptLocked(generation, p)
	}
}

func (h *History) generationLocked(generation int32) *generationOf {
	g := h.generations[generation]
	if g == nil {
		g = &generationOf{owners: make(map[int32]string), kept: make(map[int32]string)}
		h.generations[generation] = g
	}
	return g
}

// kept records what a cooperative member that is in a generation owned until it heard of its part: it did not stop for others.
func (h *History) kept(generation int32, member string, partitions []int32) {
	h.mu.Lock()
	defer h.mu.Unlock()
	g := h.generationLocked(generation)
	for _, p := range partitions {
		g.kept[p] = member
		h.checkKeptLocked(generation, p)
	}
}

// checkKeptLocked: what a member of a generation still owned when that began is its own in it, or nobody's.
func (h *History) checkKeptLocked(generation, partition int32) {
	g := h.generations[generation]
	keeper, kept := g.kept[partition]
	if owner, owned := g.owners[partition]; kept && owned && owner != keeper && h.losses == 0 {
		h.faultLocked(oneOwner, "generation %d gave partition %d to %s while %s owned it", generation, partition, owner, keeper)
	}
}

// commitAcked records that a commit was answered: a member of a generation that was over when it asked gets no such answer.
func (h *History) commitAcked(known groupKnowledge, generation, partition int32, number int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if generation < known.generation && known.losses == h.losses {
		h.faultLocked(oneOwner, "a commit of generation %d was acked after generation %d had begun", generation, known.generation)
	}
	h.commitCount++
	h.answers++
	c := h.commitLocked(partition)
	c.floor = max(c.floor, number)
}

// commitLost records that nobody knows what became of a commit.
func (h *History) commitLost(partition int32, number int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.commitLocked(partition).loose[number] = true
}

// committed records what somebody was told of a partition's offset: none that was acked or told is lost, or goes back, and
// none is made up.
func (h *History) committed(known groupKnowledge, partition int32, offset kafka.Offset) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.commitLocked(partition)
	h.answers++
	offset = max(offset, 0) // -1 is none, and numbers begin at 1
	switch {
	case offset > c.sent:
		h.faultLocked(oneOwner, "the offset of partition %d is %d, and nobody has committed more than %d", partition, offset, c.sent)
	case offset < known.floor && !c.loose[offset] && known.losses == h.losses:
		h.faultLocked(oneOwner, "the offset of partition %d is %d after %d", partition, offset, known.floor)
	case !c.loose[offset]:
		c.floor = max(c.floor, offset)
	}
}

// forgetCommitsLocked takes note of a power loss under the weaker promise.
func (h *History) forgetCommitsLocked() {
	h.generation = 0
	for _, c := range h.commits {
		c.floor = 0
	}
}
