package controller

import (
	"slices"
	"strconv"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

// election says how far a leader choice may go.
type election int8

const (
	electOnline    election = iota // keep the leader if it is fit, else take an in-sync or eligible replica
	electPreferred                 // move to the first replica if it is fit
	electUnclean                   // as online, and any active replica when nobody else is left
)

// partitionTarget is what shall become of a partition; the leader follows from it.
type partitionTarget struct {
	replicas    []kafka.NodeID
	adding      []kafka.NodeID
	removing    []kafka.NodeID
	isr         []kafka.NodeID
	directories map[kafka.NodeID]kafka.DirID // of replicas that moved; nil: none did
	recovery    int8
	lost        kafka.NodeID // a replica that lost what it had not yet synced; kafka.NoNode: none
	anew        bool         // it lost everything, and begins anew
	election    election
	acceptable  func(kafka.NodeID) bool // who may lead at all
}

// keep returns the target that leaves a partition as it is, with the election that its topic allows.
func (s *state) keep(topic *metadata.Topic, p *metadata.PartitionRegistration) partitionTarget {
	t := partitionTarget{
		replicas:   p.Replicas,
		adding:     p.AddingReplicas,
		removing:   p.RemovingReplicas,
		isr:        p.ISR,
		recovery:   p.LeaderRecoveryState,
		lost:       kafka.NoNode,
		acceptable: func(id kafka.NodeID) bool { return s.image.Cluster.Active(id) && s.dirOnline(p, id) },
	}
	if s.uncleanElection(topic.Name) {
		t.election = electUnclean
	}
	return t
}

// dirOnline reports whether the directory of a replica is, as far as is known, online (KIP-858).
func (s *state) dirOnline(p *metadata.PartitionRegistration, id kafka.NodeID) bool {
	b, ok := s.image.Cluster.Broker(id)
	return ok && hasOnlineDir(b, p.Directory(id))
}

func hasOnlineDir(b *metadata.Broker, dir kafka.DirID) bool {
	switch dir {
	case kafka.DirUnassigned, kafka.DirMigrating:
		return true
	case kafka.DirLost:
		return false
	}
	return len(b.LogDirs) == 0 || slices.Contains(b.LogDirs, dir)
}

func (s *state) elrEnabled() bool {
	return metadata.ELRSupported(s.level()) && s.image.Features.Level(metadata.FeatureEligibleLeaderReplicas) > 0
}

// change returns the record that makes a partition what the target says, or nil if there is nothing to do. It mirrors
// PartitionChangeBuilder.build; KIP-455, KIP-841, KIP-966.
func (s *state) change(topic *metadata.Topic, index int32, p *metadata.PartitionRegistration, t partitionTarget) *metadata.PartitionChangeRecord {
	r := &metadata.PartitionChangeRecord{
		PartitionID: index, TopicID: topic.ID,
		Leader: metadata.LeaderUnchanged, LeaderRecoveryState: metadata.RecoveryUnchanged,
	}
	t.completeReassignment()
	isr := t.isr
	var elr []kafka.NodeID
	if s.elrEnabled() {
		elr = eligible(p, t, s.minInSync(topic, len(t.replicas)))
	}

	leader, unclean := s.elect(p, isr, elr, t)
	if leader != p.Leader {
		r.Leader = leader
		switch {
		case unclean:
			isr, elr = []kafka.NodeID{leader}, nil
			t.recovery = metadata.LeaderRecovering
		case slices.Contains(elr, leader):
			isr, elr = []kafka.NodeID{leader}, without(elr, leader)
		}
		// The election may have been all that a reassignment waited for; nobody else would look at it again.
		t.isr = isr
		t.completeReassignment()
		isr, elr = t.isr, only(elr, t.replicas)
		if len(isr) >= s.minInSync(topic, len(t.replicas)) {
			elr = nil // the minimum was lowered, or there are fewer replicas: the watermark moves without them now
		}
	}
	// Whoever lost its replica learns of it from a new leader epoch.
	if r.Leader == metadata.LeaderUnchanged && !containsAll(t.replicas, p.Replicas) {
		r.Leader = p.Leader
	}
	// Without eligible replicas in the log, the last in-sync one stays in the ISR: it alone has everything, unless it is the
	// one that lost it.
	if !slices.Equal(isr, p.ISR) && (len(isr) > 0 || s.elrEnabled() || slices.Contains(p.ISR, t.lost)) {
		r.ISR = notNil(isr)
	}
	if !slices.Equal(elr, p.ELR) {
		r.EligibleLeaderReplicas = notNil(elr)
	}
	if s.elrEnabled() {
		changeLastKnown(p, &t, r)
	} else if len(p.LastKnownELR) > 0 {
		r.LastKnownELR = []kafka.NodeID{}
	}
	// Before 3.6-IV0 followers learned of a smaller ISR only from a new leader epoch (KAFKA-15021).
	if s.level() < 12 && r.ISR != nil && r.Leader == metadata.LeaderUnchanged && !containsAll(r.ISR, p.ISR) {
		r.Leader = p.Leader
	}
	s.changeAssignment(p, &t, r)
	if t.recovery != p.LeaderRecoveryState {
		r.LeaderRecoveryState = t.recovery
	}
	if changesNothing(r) {
		return nil
	}
	return r
}

func (s *state) changeAssignment(p *metadata.PartitionRegistration, t *partitionTarget, r *metadata.PartitionChangeRecord) {
	if metadata.DirectoriesSupported(s.level()) {
		if directories := s.directories(p, t); !slices.Equal(directories, p.Directories) {
			r.Directories = directories
		}
	}
	if !slices.Equal(t.replicas, p.Replicas) {
		r.Replicas = t.replicas
	}
	if !slices.Equal(t.removing, p.RemovingReplicas) {
		r.RemovingReplicas = notNil(t.removing)
	}
	if !slices.Equal(t.adding, p.AddingReplicas) {
		r.AddingReplicas = notNil(t.adding)
	}
}

// directories returns where the target's replicas are: where they moved, or were, or a new one begins.
func (s *state) directories(p *metadata.PartitionRegistration, t *partitionTarget) []kafka.DirID {
	out := make([]kafka.DirID, len(t.replicas))
	for i, id := range t.replicas {
		dir, moved := t.directories[id]
		switch {
		case moved:
			out[i] = dir
		case slices.Contains(p.Replicas, id):
			out[i] = p.Directory(id)
		default:
			out[i] = s.defaultDir(id)
		}
	}
	return out
}

func changesNothing(r *metadata.PartitionChangeRecord) bool {
	return r.ISR == nil && r.Leader == metadata.LeaderUnchanged && r.LeaderRecoveryState == metadata.RecoveryUnchanged &&
		r.Replicas == nil && r.AddingReplicas == nil && r.RemovingReplicas == nil && r.Directories == nil &&
		r.EligibleLeaderReplicas == nil && r.LastKnownELR == nil
}

// eligible returns the replicas that may lead although they are out of sync: while the ISR is smaller than the minimum
// the watermark stands still, so whoever was in sync when it shrank has all of it, unless it lost data since.
func eligible(p *metadata.PartitionRegistration, t partitionTarget, minInSync int) []kafka.NodeID {
	if len(t.isr) >= minInSync {
		return nil
	}
	var elr []kafka.NodeID
	for _, id := range t.replicas { // the order of the replicas, so that equal states give equal records
		if (slices.Contains(p.ELR, id) || slices.Contains(p.ISR, id)) && !slices.Contains(t.isr, id) && id != t.lost {
			elr = append(elr, id)
		}
	}
	return elr
}

// elect chooses the leader; unclean says that it may lack records.
func (s *state) elect(p *metadata.PartitionRegistration, isr, elr []kafka.NodeID, t partitionTarget) (leader kafka.NodeID, unclean bool) {
	fit := func(id kafka.NodeID) bool {
		return (slices.Contains(isr, id) || len(isr) == 0 && slices.Contains(elr, id)) && t.acceptable(id)
	}
	if t.election == electPreferred && fit(t.replicas[0]) {
		return t.replicas[0], false
	}
	if fit(p.Leader) {
		return p.Leader, false
	}
	for _, id := range t.replicas {
		if fit(id) {
			return id, false
		}
	}
	// Nobody is left. The last one that led has at least as much as any other, unless it begins anew.
	if s.elrEnabled() && len(isr) == 0 && len(elr) == 0 && len(p.LastKnownELR) == 1 {
		if last := p.LastKnownELR[0]; slices.Contains(t.replicas, last) && t.acceptable(last) && !t.beginsAnew(last) {
			return last, true
		}
	}
	if t.election == electUnclean {
		for _, id := range t.replicas {
			if t.acceptable(id) {
				return id, true
			}
		}
	}
	return kafka.NoNode, false
}

func (t *partitionTarget) beginsAnew(id kafka.NodeID) bool { return t.anew && id == t.lost }

// changeLastKnown remembers the leader of a partition whose ISR became empty, until there is a leader again or it begins anew.
func changeLastKnown(p *metadata.PartitionRegistration, t *partitionTarget, r *metadata.PartitionChangeRecord) {
	emptied := r.ISR != nil && len(r.ISR) == 0
	switch {
	case slices.ContainsFunc(p.LastKnownELR, t.beginsAnew):
		r.LastKnownELR = []kafka.NodeID{}
	case emptied && slices.Contains(t.replicas, p.Leader) && !slices.Equal(p.LastKnownELR, []kafka.NodeID{p.Leader}):
		r.LastKnownELR = []kafka.NodeID{p.Leader}
	case emptied:
	case len(p.LastKnownELR) > 0 && (r.Leader >= 0 || p.Leader != kafka.NoNode && r.Leader == metadata.LeaderUnchanged):
		r.LastKnownELR = []kafka.NodeID{}
	}
}

// changeAll changes every partition that the filter wants.
func (s *state) changeAll(want func(*metadata.PartitionRegistration) bool, target func(*metadata.PartitionRegistration, *partitionTarget)) []metadata.Record {
	var records []metadata.Record
	for _, topic := range s.image.Topics.All() {
		for index, p := range topic.Partitions.All() {
			if !want(p) {
				continue
			}
			t := s.keep(topic, p)
			target(p, &t)
			if r := s.change(topic, index, p, t); r != nil {
				records = append(records, r)
			}
		}
	}
	return records
}

// leave takes a broker out of every ISR, and moves what it leads.
func (s *state) leave(id kafka.NodeID) []metadata.Record {
	return s.changeAll(
		func(p *metadata.PartitionRegistration) bool { return slices.Contains(p.ISR, id) || p.Leader == id },
		func(p *metadata.PartitionRegistration, t *partitionTarget) { t.exclude(id) })
}

// lose takes a broker that is gone with its data out of every ISR and from among the eligible.
func (s *state) lose(id kafka.NodeID) []metadata.Record {
	return s.changeAll(
		func(p *metadata.PartitionRegistration) bool {
			return slices.Contains(p.ISR, id) || slices.Contains(p.ELR, id)
		},
		func(p *metadata.PartitionRegistration, t *partitionTarget) {
			t.exclude(id)
			t.lost = id
		})
}

func (t *partitionTarget) exclude(id kafka.NodeID) {
	acceptable := t.acceptable
	t.isr = without(t.isr, id)
	t.acceptable = func(other kafka.NodeID) bool { return other != id && acceptable(other) }
}

// The configuration names that decide elections.
const (
	minInsync       = "min.insync.replicas"
	uncleanElection = "unclean.leader.election.enable"
)

// minInSync is the min.insync.replicas in force for a topic, at most the number of replicas.
func (s *state) minInSync(topic *metadata.Topic, replicas int) int {
	minimum := int(s.Config.MinInsyncReplicas)
	for _, values := range []map[string]string{
		s.image.Configs.Topic(topic.Name), s.image.Configs.Get(metadata.ConfigBroker, ""),
	} {
		if n, err := strconv.Atoi(values[minInsync]); err == nil {
			minimum = n
			break
		}
	}
	return min(max(minimum, 1), replicas)
}

func (s *state) uncleanElection(topic string) bool {
	for _, values := range []map[string]string{
		s.image.Configs.Topic(topic), s.image.Configs.Get(metadata.ConfigBroker, ""),
	} {
		if b, err := strconv.ParseBool(values[uncleanElection]); err == nil {
			return b
		}
	}
	return s.Config.UncleanLeaderElection
}

func without(ids []kafka.NodeID, id kafka.NodeID) []kafka.NodeID {
	out := make([]kafka.NodeID, 0, len(ids))
	for _, other := range ids {
		if other != id {
			out = append(out, other)
		}
	}
	return out
}

// only returns the ids that are among others, in their order.
func only(ids, others []kafka.NodeID) []kafka.NodeID { return except(ids, except(ids, others)) }

func containsAll(all, some []kafka.NodeID) bool {
	for _, id := range some {
		if !slices.Contains(all, id) {
			return false
		}
	}
	return true
}

// notNil tells "empty it" from "leave it".
func notNil(ids []kafka.NodeID) []kafka.NodeID {
	if ids == nil {
		return []kafka.NodeID{}
	}
	return ids
}
