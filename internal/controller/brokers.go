package controller

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

// registerBroker mirrors ClusterControlManager.registerBroker, except that a new incarnation with the same directories
// replaces the old one at once: their locks prove that the old process is gone (Kafka waits out the session, KAFKA-19130).
func (s *state) registerBroker(q *kmsg.BrokerRegistrationRequest) (Result, error) {
	response := q.ResponseKind().(*kmsg.BrokerRegistrationResponse)
	response.BrokerEpoch = -1
	old, known := s.image.Cluster.Broker(q.BrokerID)
	if err := s.checkRegistration(q, old); err != nil {
		response.ErrorCode, _ = faultOf(err)
		return Result{Response: response}, nil
	}
	record := &metadata.RegisterBrokerRecord{
		BrokerID:      q.BrokerID,
		IncarnationID: q.IncarnationID,
		Rack:          q.Rack,
		Fenced:        true,
		Features:      brokerFeatures(q),
	}
	for _, l := range q.Listeners {
		record.Endpoints = append(record.Endpoints, metadata.Endpoint{
			Name: l.Name, Host: l.Host, Port: l.Port, SecurityProtocol: l.SecurityProtocol,
		})
	}
	if metadata.DirectoriesSupported(s.level()) {
		record.LogDirs = dirs(q.LogDirs)
	}
	var records []metadata.Record
	amend := known && old.IncarnationID == kafka.UUID(q.IncarnationID)
	if amend {
		record.Fenced, record.InControlledShutdown, record.BrokerEpoch = old.Fenced, old.InControlledShutdown, old.Epoch
		record.CordonedLogDirs = old.CordonedLogDirs
	} else {
		if known {
			records = s.retire(old, q)
		}
		record.BrokerEpoch = s.nextOffset + int64(len(records))
	}
	response.BrokerEpoch = record.BrokerEpoch
	return Result{
		Records:  append(records, record),
		Response: response,
		Contact:  &contactNote{Broker: q.BrokerID, MetadataOffset: -1, New: !amend},
	}, nil
}

// retire ends an incarnation of a broker that another follows: whatever it led or was in sync for, the next one has to earn again.
// After an unclean stop it may have lost records, and is not eligible either (KIP-966). If none of its directories has come
// back, neither has any replica, be it one of which nobody was told where it lies.
func (s *state) retire(old *metadata.Broker, q *kmsg.BrokerRegistrationRequest) []metadata.Record {
	unclean := s.elrEnabled() && q.PreviousBrokerEpoch != old.Epoch
	wiped := len(old.LogDirs) > 0 && !slices.ContainsFunc(dirs(q.LogDirs), func(dir kafka.DirID) bool { return slices.Contains(old.LogDirs, dir) })
	gone := func(p *metadata.PartitionRegistration) bool {
		return wiped && slices.Contains(p.Replicas, old.ID) && p.Directory(old.ID) == kafka.DirUnassigned
	}
	return s.changeAll(
		func(p *metadata.PartitionRegistration) bool {
			return slices.Contains(p.ISR, old.ID) || p.Leader == old.ID || unclean && slices.Contains(p.ELR, old.ID) || gone(p)
		},
		func(p *metadata.PartitionRegistration, t *partitionTarget) {
			t.exclude(old.ID)
			if unclean {
				t.lost = old.ID
			}
			if gone(p) {
				t.directories = map[kafka.NodeID]kafka.DirID{old.ID: kafka.DirLost}
			}
		})
}

func (s *state) checkRegistration(q *kmsg.BrokerRegistrationRequest, old *metadata.Broker) error {
	if q.BrokerID < 0 { // in records they stand for nobody, and for no change
		return faultf(kerr.InvalidRequest, "Invalid negative broker ID.")
	}
	if q.ClusterID != s.ClusterID {
		return faultf(kerr.InconsistentClusterID, "Expected cluster ID %s, but got cluster ID %s", s.ClusterID, q.ClusterID)
	}
	if old != nil && s.contacts[q.BrokerID].Live && old.IncarnationID != kafka.UUID(q.IncarnationID) && !s.succeeds(q, old) {
		return faultf(kerr.DuplicateBrokerRegistration, "Another broker is registered with that broker id.")
	}
	if q.IsMigratingZkBroker {
		return faultf(kerr.BrokerIDNotRegistered, "Controller does not support registering ZK brokers.")
	}
	if metadata.DirectoriesSupported(s.level()) {
		if err := s.checkRegisteredDirs(q); err != nil {
			return err
		}
	}
	supported := map[string]bool{}
	for _, f := range brokerFeatures(q) {
		supported[f.Name] = true
		if err := s.checkRegisteredFeature(f); err != nil {
			return err
		}
	}
	for name := range s.image.Features.All() {
		if !supported[name] {
			if err := s.checkRegisteredFeature(metadata.FeatureRange{Name: name}); err != nil {
				return err
			}
		}
	}
	return nil
}

// succeeds reports whether a registration is of a process that follows on a living one over the same directories: their locks prove
// that that one is gone. A copy of its disk has the same directories, too, and is betrayed by its epoch: each incarnation stores its
// own before it is heard of again, and tells of the one that it finds, or of none.
func (s *state) succeeds(q *kmsg.BrokerRegistrationRequest, old *metadata.Broker) bool {
	stored := s.contacts[q.BrokerID].MetadataOffset >= 0
	another := stored && q.PreviousBrokerEpoch >= 0 && q.PreviousBrokerEpoch != old.Epoch
	return sameDirs(old.LogDirs, dirs(q.LogDirs)) && !another
}

func (s *state) checkRegisteredDirs(q *kmsg.BrokerRegistrationRequest) error {
	if len(q.LogDirs) == 0 {
		return faultf(kerr.InvalidRegistration, "No directories specified in request")
	}
	seen := map[kafka.DirID]bool{}
	for _, dir := range dirs(q.LogDirs) {
		if reservedDir(dir) {
			return faultf(kerr.InvalidRegistration, "Reserved directory ID in request")
		}
		if seen[dir] {
			return faultf(kerr.InvalidRegistration, "Duplicate directory ID in request")
		}
		seen[dir] = true
		for id, b := range s.image.Cluster.Brokers() {
			if id != q.BrokerID && slices.Contains(b.LogDirs, dir) {
				return faultf(kerr.InvalidRegistration, "Broker %d is already registered with directory %v", id, dir)
			}
		}
	}
	return nil
}

// reservedDir reports whether an id is one of the first hundred, which no directory has.
func reservedDir(dir kafka.DirID) bool {
	return [15]byte(dir[:15]) == [15]byte{} && dir[15] < 100
}

func (s *state) checkRegisteredFeature(f metadata.FeatureRange) error {
	if level := s.image.Features.Level(f.Name); !f.Has(level) {
		return faultf(kerr.UnsupportedVersion,
			"Unable to register because the broker does not support finalized version %d of %s. The broker wants a version between %d and %d, inclusive.",
			level, f.Name, f.Min, f.Max)
	}
	return nil
}

// brokerFeatures returns the ranges that a registration states. A broker that is silent about metadata.version supports
// only the first.
func brokerFeatures(q *kmsg.BrokerRegistrationRequest) []metadata.FeatureRange {
	var features []metadata.FeatureRange
	versioned := false
	for _, f := range q.Features {
		features = append(features, metadata.FeatureRange{Name: f.Name, Min: f.MinSupportedVersion, Max: f.MaxSupportedVersion})
		versioned = versioned || f.Name == metadata.FeatureMetadataVersion
	}
	if !versioned {
		features = append(features, metadata.FeatureRange{Name: metadata.FeatureMetadataVersion, Min: 1, Max: 1})
	}
	return features
}

func dirs(ids [][16]byte) []kafka.DirID {
	out := make([]kafka.DirID, len(ids))
	for i, id := range ids {
		out[i] = id
	}
	return out
}

func sameDirs(a, b []kafka.DirID) bool {
	if len(a) == 0 || len(a) != len(b) {
		return false
	}
	for _, dir := range a {
		if !slices.Contains(b, dir) {
			return false
		}
	}
	return true
}

// fence takes a broker out of service: what it leads moves, and it can lead nothing until it is heard of again.
func (s *state) fence(b *metadata.Broker) []metadata.Record {
	return append(s.leave(b.ID), &metadata.BrokerRegistrationChangeRecord{
		BrokerID: b.ID, BrokerEpoch: b.Epoch, Fenced: metadata.Fence,
	})
}

// unfence takes a broker into service: it gets the partitions that waited for it.
func (s *state) unfence(b *metadata.Broker) []metadata.Record {
	records := []metadata.Record{&metadata.BrokerRegistrationChangeRecord{
		BrokerID: b.ID, BrokerEpoch: b.Epoch, Fenced: metadata.Unfence,
	}}
	return append(records, s.changeAll(
		func(p *metadata.PartitionRegistration) bool { return p.Leader == kafka.NoNode },
		func(p *metadata.PartitionRegistration, t *partitionTarget) {
			acceptable := t.acceptable
			t.acceptable = func(id kafka.NodeID) bool {
				return id == b.ID && s.dirOnline(p, id) || acceptable(id) // the image still shows it as fenced
			}
		})...)
}

// unregisterBroker mirrors ReplicationControlManager.unregisterBroker, but refuses a broker that is in service: it would
// register again with its next heartbeat, and lose its place in every ISR for nothing.
func (s *state) unregisterBroker(q *kmsg.UnregisterBrokerRequest) (Result, error) {
	response := q.ResponseKind().(*kmsg.UnregisterBrokerResponse)
	b, ok := s.image.Cluster.Broker(q.BrokerID)
	if !ok {
		response.ErrorCode, response.ErrorMessage = faultOf(
			faultf(kerr.BrokerIDNotRegistered, "Broker ID %d is not currently registered", q.BrokerID))
		return Result{Response: response}, nil
	}
	if !b.Fenced {
		response.ErrorCode, response.ErrorMessage = faultOf(
			faultf(kerr.InvalidRequest, "Broker %d is in service. Stop it, and wait until it is fenced, before it is unregistered.", q.BrokerID))
		return Result{Response: response}, nil
	}
	var records []metadata.Record
	if s.elrEnabled() {
		records = s.lose(b.ID)
	} else {
		records = s.leave(b.ID)
	}
	records = append(records, &metadata.UnregisterBrokerRecord{BrokerID: b.ID, BrokerEpoch: b.Epoch})
	return Result{Records: records, Response: response, Contact: &contactNote{Broker: b.ID, Gone: true}}, nil
}

// registerController mirrors ClusterControlManager.registerController.
func (s *state) registerController(q *kmsg.ControllerRegistrationRequest) (Result, error) {
	response := q.ResponseKind().(*kmsg.ControllerRegistrationResponse)
	if !metadata.ControllersSupported(s.level()) {
		response.ErrorCode, response.ErrorMessage = faultOf(faultf(kerr.UnsupportedVersion,
			"The current MetadataVersion is too old to support controller registrations."))
		return Result{Response: response}, nil
	}
	record := &metadata.RegisterControllerRecord{ControllerID: q.ControllerID, IncarnationID: q.IncarnationID}
	for _, l := range q.Listeners {
		record.Endpoints = append(record.Endpoints, metadata.Endpoint{
			Name: l.Name, Host: l.Host, Port: l.Port, SecurityProtocol: l.SecurityProtocol,
		})
	}
	for _, f := range q.Features {
		record.Features = append(record.Features, metadata.FeatureRange{Name: f.Name, Min: f.MinSupportedVersion, Max: f.MaxSupportedVersion})
	}
	return Result{Records: []metadata.Record{record}, Response: response, Atomic: true}, nil
}
