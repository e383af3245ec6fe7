package sim

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/anishathalye/porcupine"

	"moldau/internal/kafka"
)

// Two histories are checked against models: what is in one partition, as appends and as questions for its end, and whether one
// topic exists, as creations and deletions by several clients at once.

// began returns an instant of the history: what is asked later has a greater one.
func (h *History) began() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.instant++
	return h.instant
}

// logOp is an append that was acked, or the answer to the question where a partition ends.
type logOp struct {
	ask   bool
	again bool         // the append was sent more than once
	epoch kafka.Epoch  // of the leader that answered or that appended
	base  kafka.Offset // of what was appended
	end   kafka.Offset // behind that, or the answer
}

// logState is the committed part of a partition.
type logState struct {
	epoch kafka.Epoch  // of the last leader that is known to have committed something, or to have told an end
	end   kafka.Offset // up to which it is known that leaders of this epoch and later ones have it
	acked kafka.Offset // behind the last append, or end
}

// logModel: acked appends follow one another, and nobody is told of an end before one that was known, unless by a leader of an
// earlier epoch, which does not know that it is over: Apache Kafka's leaders hold no lease.
//
// An append that was sent once is acked by the leader that made it, in its own epoch. Not so one that was sent again: the leader
// that made it may be deposed while nobody else has it, another leader may truthfully tell an end before it, and when the first is
// elected again, from the in-sync set or the eligible leader replicas (KIP-966), its log has the records still, under their old
// epoch, and the producer hears of them as duplicates. In which epoch they were committed nobody is told, so until something
// later is known a leader of any may be one that was deposed before.
func logModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return logState{epoch: -1} },
		Step: func(state, input, _ any) (bool, any) {
			s, op := state.(logState), input.(logOp)
			switch {
			case op.ask && op.epoch < s.epoch:
				return true, s
			case op.ask && op.end < s.end, !op.ask && op.base < s.acked:
				return false, s
			case op.ask:
				return true, logState{op.epoch, op.end, max(s.acked, op.end)}
			case op.again:
				return true, logState{max(s.epoch, op.epoch), s.end, op.end}
			case op.epoch < s.epoch:
				return false, s
			}
			return true, logState{op.epoch, op.end, op.end}
		},
	}
}

// appended notes an append that was acked, and whether it was sent more than once.
func (h *History) appended(client string, began int64, p Partition, base kafka.Offset, n int, again bool) {
	h.note(client, began, p, logOp{again: again, base: base, end: base + kafka.Offset(n)})
}

// asked notes what a client was told when it asked the leader of an epoch for the end.
func (h *History) asked(client string, began int64, p Partition, epoch kafka.Epoch, end kafka.Offset) {
	h.note(client, began, p, logOp{ask: true, epoch: epoch, end: end})
}

func (h *History) note(client string, began int64, p Partition, op logOp) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.instant++
	if op.ask {
		h.answers++
	}
	t := h.ofLocked(p)
	t.ops = append(t.ops, porcupine.Operation{ClientId: h.numberLocked(client), Input: op, Call: began, Return: h.instant})
}

// numberLocked is the client's number for porcupine.
func (h *History) numberLocked(client string) int {
	n, known := h.numbers[client]
	if !known {
		n = len(h.numbers)
		h.numbers[client] = n
	}
	return n
}

// checkLogLocked: there is an order of what clients did to a partition in which each was told the truth.
func (h *History) checkLogLocked(p Partition, t *told) {
	if h.losses > 0 || p.compacted() {
		return
	}
	epochs := make(map[kafka.Offset]kafka.Epoch)
	for _, r := range t.final {
		epochs[r.offset] = r.epoch
	}
	var ops []porcupine.Operation
	for _, op := range t.ops {
		in := op.Input.(logOp)
		if !in.ask {
			epoch, there := epochs[in.base]
			if !there {
				continue // deleted since, or lost, which another check tells
			}
			in.epoch = epoch
			op.Input = in
		}
		ops = append(ops, op)
	}
	if !porcupine.CheckOperations(logModel(), ops) {
		h.faultLocked(linear, "%v: no order of its %d appends and questions agrees with the answers", p, len(ops))
	}
}

// topicOp is one creation or deletion of the topic that clients race for, and what its client was told.
type topicOp struct {
	create bool
	known  bool // what came of it
	done   bool // if known: it took effect, and not: it found the topic as it wanted it
}

// raced notes one. What nobody answered may take effect whenever it likes. A broker that does not hear of a controller may
// have the request carried out twice, so that what was answered may also have taken effect before.
func (h *History) raced(client string, began int64, op topicOp) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.instant++
	if op.known {
		h.answers++
	}
	one := porcupine.Operation{ClientId: h.numberLocked(client), Input: op, Call: began, Return: h.instant}
	if !op.known {
		one.Return = math.MaxInt64
		one.ClientId = math.MaxInt32 - len(h.races) // it overlaps with what its client does next
	}
	h.races = append(h.races, one)
	if h.fleet && op.known {
		ghost := one
		ghost.ClientId = math.MaxInt32 - len(h.races)
		ghost.Input = topicOp{create: op.create}
		h.races = append(h.races, ghost)
	}
}

// topicModel: a creation works where the topic is not, a deletion where it is.
func topicModel() porcupine.Model {
	return (&porcupine.NondeterministicModel{
		Init: func() []any { return []any{false} },
		Step: func(state, input, _ any) []any {
			exists, op := state.(bool), input.(topicOp)
			switch {
			case !op.known && exists != op.create:
				return []any{exists, op.create}
			case !op.known:
				return []any{exists}
			case op.done && exists != op.create, !op.done && exists == op.create:
				return []any{op.create}
			}
			return nil
		},
	}).ToModel()
}

func (h *History) checkRacesLocked() {
	if h.losses > 0 || len(h.races) == 0 {
		return
	}
	ops := slices.Clone(h.races)
	slices.SortStableFunc(ops, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	if !porcupine.CheckOperations(topicModel(), ops) {
		h.faultLocked(linear, "no order of %d creations and deletions of a topic agrees with the answers", len(ops))
	}
}

// partitionsLocked are those that the history knows, in a fixed order.
func (h *History) partitionsLocked() []Partition {
	return slices.SortedFunc(maps.Keys(h.logs), func(a, b Partition) int { return cmp.Compare(a.String(), b.String()) })
}
