package sim

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
)

// ballot is what is known of one voter.
type ballot struct {
	known bool // an answer said whether it votes, and nothing was asked since
	votes bool
	loose bool // a request was never answered, and may be carried out whenever somebody likes
}

// electing records that somebody asks for a change of a vote.
func (h *History) electing(v voter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	b := h.ballots[v]
	if b == nil {
		b = &ballot{}
		h.ballots[v] = b
	}
	b.known = false
}

// elected records the answer.
func (h *History) elected(v voter, votes bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	b := h.ballots[v]
	switch {
	case err == nil:
		h.answers++
		b.known, b.votes = true, votes
	case errors.Is(err, kerr.UnknownServerError):
		h.faultLocked(sound, "a vote of node %d: %v", v.id, err)
	case !errors.Is(err, kerr.VoterNotFound) && !errors.Is(err, kerr.DuplicateVoter):
		b.loose = true
	}
}

// electedInTheEnd records who votes when all is over: what was acked last of a voter is so.
func (h *History) electedInTheEnd(voters []voter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	byNode := func(a, b voter) int { return cmp.Or(cmp.Compare(a.id, b.id), slices.Compare(a.dir[:], b.dir[:])) }
	for _, v := range slices.SortedFunc(maps.Keys(h.ballots), byNode) {
		b := h.ballots[v]
		if b.known && !b.loose && b.votes != slices.Contains(voters, v) {
			h.faultLocked(ackedStay, "that node %d with disk %v has a vote was acked as %t, and is not so", v.id, v.dir, b.votes)
		}
	}
}
