package sim

import (
	"fmt"
	"slices"
	"sync"

	"github.com/anishathalye/porcupine"

	"moldau/internal/kafka"
)

// History is what clients were told, for the checkers: check_acked.go, check_producer.go and check_start.go each say what
// follows from it.
type History struct {
	fleet       bool  // several nodes
	lazy        bool  // the weaker promise of log.flush.before.ack=false: a power loss may take what no sync has covered
	retainBytes int64 // retention.bytes of every topic, 0 for none
	recordBytes int64 // more than a record takes, its share of the batch included
	tell        func(Broken)

	mu       sync.Mutex
	attempts map[string]bool // values that were sent
	logs     map[Partition]*told
	owners   map[int64]string // producer ids
	gone     map[kafka.TopicID]fate
	ordered  map[string]bool // names of idempotent producers
	faults   []Broken        // promises that were broken while it ran
	ackCount int
	answers  int // that were checked
	instant  int64
	numbers  map[string]int        // of clients, for porcupine
	races    []porcupine.Operation // creations and deletions of one topic
	losses   int                   // power losses under the weaker promise
	ballots  map[voter]*ballot

	generation  int32 // of the group, the highest that somebody has a part of
	generations map[int32]*generationOf
	commits     map[int32]*committedOffset // by partition
	commitCount int

	tree treeHistory
}

// told is what is known of one partition.
type told struct {
	acks    map[kafka.Offset]string // acked values
	ackedBy map[kafka.Offset]string // who said so
	bytes   map[kafka.Offset]uint64 // what tells the batch that a record was read in from others
	ops     []porcupine.Operation
	reads   map[kafka.Offset]string // values that consumers saw
	where   map[string]kafka.Offset // of a value that was seen
	final   []record                // what was there in the end

	highWatermark kafka.Offset // the highest told
	cutting       kafka.Offset // records below may be deleted by a client's will
	cut           kafka.Offset // records below are
	cutIn         kafka.Epoch  // in which that was confirmed
	finalStart    kafka.Offset
	ended         bool // final and finalStart are set
}

// fate is how far a topic's deletion has come.
type fate int

const (
	alive fate = iota
	deleting
	deleted
)

// NewHistory returns a history of nothing. tell is called with each fault, at once.
func NewHistory(plan Plan, tell func(Broken)) *History {
	recordBytes := int64(120)
	if plan.Large {
		recordBytes += 3000
	}
	return &History{
		fleet: plan.Nodes > 1, lazy: plan.Lazy, retainBytes: plan.RetainBytes, recordBytes: recordBytes, tell: tell,
		attempts: make(map[string]bool), logs: make(map[Partition]*told), owners: make(map[int64]string),
		gone: make(map[kafka.TopicID]fate), ordered: make(map[string]bool), ballots: make(map[voter]*ballot),
		numbers: make(map[string]int), generations: make(map[int32]*generationOf), commits: make(map[int32]*committedOffset),
		tree: newTreeHistory(),
	}
}

func (h *History) ofLocked(p Partition) *told {
	t := h.logs[p]
	if t == nil {
		t = &told{
			acks: make(map[kafka.Offset]string), ackedBy: make(map[kafka.Offset]string), bytes: make(map[kafka.Offset]uint64),
			reads: make(map[kafka.Offset]string), where: make(map[string]kafka.Offset),
		}
		h.logs[p] = t
	}
	return t
}

func (h *History) fault(p Promise, format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faultLocked(p, format, args...)
}

func (h *History) faultLocked(p Promise, format string, args ...any) {
	fault := Broken{p, fmt.Sprintf(format, args...)}
	h.faults = append(h.faults, fault)
	h.tell(fault)
}

func (h *History) sent(values []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, v := range values {
		h.attempts[v] = true
	}
}

// Acked returns how many records have been acked.
func (h *History) Acked() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ackCount
}

// Commits returns how many commits of a group have been acked.
func (h *History) Commits() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.commitCount
}

// Answers returns how many answers have been checked.
func (h *History) Answers() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.answers
}

// IsBroken tells whether a promise was broken.
func (h *History) IsBroken() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.faults) > 0
}

// mayLose tells whether acked records may be gone.
func (h *History) mayLose() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.losses > 0
}

// seen returns the highest watermark that a client was told.
func (h *History) seen(p Partition) kafka.Offset {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ofLocked(p).highWatermark
}

func (h *History) deleting(id kafka.TopicID) { h.mark(id, deleting) }
func (h *History) deleted(id kafka.TopicID)  { h.mark(id, deleted) }

func (h *History) mark(id kafka.TopicID, f fate) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.gone[id] = f
}

// ended records what a log was when everything was over.
func (h *History) ended(p Partition, start kafka.Offset, all []record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.ofLocked(p)
	t.finalStart, t.final, t.ended = start, all, true
}

// survived takes note of a power loss under the weaker promise: of each partition only what is in kept was durable.
func (h *History) survived(kept map[Partition]span) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.losses++
	h.forgetCommitsLocked()
	for p, t := range h.logs {
		s := kept[Partition{id: p.id, number: p.number}]
		for offset := range t.acks {
			if offset < s.start || offset >= s.end {
				delete(t.acks, offset)
			}
		}
		for offset, value := range t.reads {
			if offset < s.start || offset >= s.end {
				delete(t.reads, offset)
				delete(t.where, value)
				delete(t.bytes, offset)
			}
		}
		t.highWatermark = min(t.highWatermark, s.end)
	}
}

// close checks what can only be said once everything has been read to its end.
func (h *History) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.partitionsLocked() {
		t := h.logs[p]
		if !t.ended && h.gone[p.id] == alive {
			h.faultLocked(ackedStay, "%v is there no more", p)
			continue
		}
		if t.ended {
			h.checkAckedLocked(p, t)
			h.checkLeadersLocked(p, t)
			h.checkLogLocked(p, t)
			h.checkProducersLocked(p, t)
			h.checkStartLocked(p, t)
		}
	}
	h.checkRacesLocked()
	h.checkTreeLocked()
}

// Broken returns the promises that were broken, in the order in which that was noticed.
func (h *History) Broken() []Broken {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.faults[:min(len(h.faults), 20)])
}
