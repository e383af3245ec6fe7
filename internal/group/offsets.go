package group

import (
	"maps"
	"slices"
	"unicode/utf16"

	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// Commit is a request to store offsets.
type Commit struct {
	Group      string
	Generation int32 // negative: not of a member
	MemberID   string
	InstanceID *string
	Version    int16 // of OffsetCommit
	// RetentionMs is how long to keep them, in versions 2 to 4; negative: as the node is set.
	RetentionMs int64
	Offsets     []Offset
}

// Offset is a committed offset of one partition.
type Offset struct {
	kafka.TopicPartition
	Offset      int64 // -1: none
	LeaderEpoch int32 // -1: not told
	Metadata    string
}

// newErrorVersion is the first version of OffsetCommit that tells of a group that is not there by its own error.
const newErrorVersion = 9

// commit stores offsets; the errors are those of each. Mirrors OffsetMetadataManager.commitOffset.
func (s *shard) commit(t *coordinator.Turn, c Commit) ([]error, error) {
	g := s.groups[c.Group]
	if err := g.checkCommit(c); err != nil {
		return nil, err
	}
	if g != nil && (g.state == stable || g.state == preparing) {
		if m := g.members[c.MemberID]; m != nil {
			s.expectHeartbeat(t, g, m, m.session)
		}
	}
	errs := make([]error, len(c.Offsets))
	records := make([]coordinator.Record, 0, len(c.Offsets))
	expires := int64(noExpiry)
	if c.RetentionMs >= 0 {
		expires = t.NowMs() + c.RetentionMs
	}
	for i, o := range c.Offsets {
		if tooLong(o.Metadata, int(s.c.o.MetadataMaxBytes)) {
			errs[i] = kerr.OffsetMetadataTooLarge
			continue
		}
		records = append(records, offsetRecord(c.Group, o.Topic, o.Partition, &committed{
			offset: o.Offset, leaderEpoch: o.LeaderEpoch, metadata: o.Metadata, at: t.NowMs(), expires: expires,
		}))
	}
	if err := t.Append(records...); err != nil {
		return nil, coordinator.Fault(err)
	}
	s.c.meters.commits.Add(float64(len(records)))
	return errs, nil
}

// checkCommit says why somebody must not commit for a group: it has members, and he is none of the current generation.
// Mirrors ClassicGroup.validateOffsetCommit.
func (g *group) checkCommit(c Commit) error {
	switch {
	case g == nil && c.Generation < 0:
		return nil // a consumer that assigns partitions to itself
	case g == nil && c.Version >= newErrorVersion:
		return kerr.GroupIDNotFound
	case g == nil:
		return kerr.IllegalGeneration
	case c.Generation < 0 && g.state == empty:
		return nil
	case c.Generation < 0 && c.MemberID == "" && c.InstanceID == nil:
		return kerr.UnknownMemberID
	}
	if err := g.check(c.MemberID, c.InstanceID); err != nil {
		return err
	}
	switch {
	case c.Generation != g.generation:
		return kerr.IllegalGeneration
	case g.state == completing:
		return kerr.RebalanceInProgress
	}
	return nil
}

// fetch returns what a group has committed for partitions, -1 where nothing.
func (s *shard) fetch(id string, partitions []kafka.TopicPartition) []Offset {
	g := s.groups[id]
	out := make([]Offset, len(partitions))
	for i, tp := range partitions {
		out[i] = Offset{TopicPartition: tp, Offset: -1, LeaderEpoch: noLeaderEpoch}
		if g == nil {
			continue
		}
		if c, ok := g.offsets[tp.Topic][tp.Partition]; ok {
			out[i] = offsetOf(tp, c)
		}
	}
	return out
}

// fetchAll returns everything that a group has committed, by topic and partition.
func (s *shard) fetchAll(id string) []Offset {
	g := s.groups[id]
	if g == nil {
		return nil
	}
	var out []Offset
	for tp, c := range g.all() {
		out = append(out, offsetOf(tp, c))
	}
	return out
}

// all yields offsets by topic and partition.
func (g *group) all() func(yield func(kafka.TopicPartition, committed) bool) {
	return func(yield func(kafka.TopicPartition, committed) bool) {
		for _, topic := range slices.Sorted(maps.Keys(g.offsets)) {
			of := g.offsets[topic]
			for _, p := range slices.Sorted(maps.Keys(of)) {
				if !yield(kafka.TopicPartition{Topic: topic, Partition: p}, of[p]) {
					return
				}
			}
		}
	}
}

func offsetOf(tp kafka.TopicPartition, c committed) Offset {
	return Offset{TopicPartition: tp, Offset: c.offset, LeaderEpoch: c.leaderEpoch, Metadata: c.metadata}
}

// deleteOffsets forgets offsets of topics that no member is subscribed to; the errors are those of each. Mirrors
// OffsetMetadataManager.deleteOffsets.
func (s *shard) deleteOffsets(t *coordinator.Turn, id string, partitions []kafka.TopicPartition) ([]error, error) {
	g := s.groups[id]
	switch {
	case g == nil:
		return nil, kerr.GroupIDNotFound
	case g.state != empty && g.protocolType != consumerProtocol:
		return nil, kerr.NonEmptyGroup // what its members want is theirs to know
	}
	errs := make([]error, len(partitions))
	var records []coordinator.Record
	for i, tp := range partitions {
		if g.state != empty && g.wants(tp.Topic) {
			errs[i] = kerr.GroupSubscribedToTopic
		} else if _, ok := g.offsets[tp.Topic][tp.Partition]; ok {
			records = append(records, offsetRecord(id, tp.Topic, tp.Partition, nil))
		}
	}
	if err := t.Append(records...); err != nil {
		return nil, coordinator.Fault(err)
	}
	return errs, nil
}

// tooLong measures a note as Apache Kafka does, in UTF-16 units. Longer than maxString nothing can be stored.
func tooLong(note string, most int) bool {
	return len(note) > maxString || len(note) > most && len(utf16.Encode([]rune(note))) > most
}
