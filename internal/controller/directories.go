package controller

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

// takeOffline handles directories that a broker reports as failed: replicas there leave the ISR, and the registration
// loses the directories. Partitions that the records before already change are left to the next heartbeat, which repeats
// the report. Mirrors ReplicationControlManager.handleDirectoriesOffline.
func (s *state) takeOffline(b *metadata.Broker, offline []kafka.DirID, before []metadata.Record) []metadata.Record {
	if len(before) > 0 {
		return nil
	}
	var failed, online []kafka.DirID
	for _, dir := range b.LogDirs {
		if slices.Contains(offline, dir) {
			failed = append(failed, dir)
		} else {
			online = append(online, dir)
		}
	}
	if len(failed) == 0 {
		return nil
	}
	records := s.changeAll(
		func(p *metadata.PartitionRegistration) bool {
			return slices.Contains(p.Replicas, b.ID) && slices.Contains(failed, p.Directory(b.ID)) &&
				(slices.Contains(p.ISR, b.ID) || p.Leader == b.ID)
		},
		func(p *metadata.PartitionRegistration, t *partitionTarget) { t.exclude(b.ID) })
	if len(online) > 0 { // an empty list would mean "as they were"; a broker without a directory ends by itself
		records = append(records, &metadata.BrokerRegistrationChangeRecord{BrokerID: b.ID, BrokerEpoch: b.Epoch, LogDirs: online})
	}
	return records
}

// assignReplicasToDirs mirrors ReplicationControlManager.handleAssignReplicasToDirs (KIP-858): a broker tells where its
// replicas are.
func (s *state) assignReplicasToDirs(q *kmsg.AssignReplicasToDirsRequest) (Result, error) {
	response := q.ResponseKind().(*kmsg.AssignReplicasToDirsResponse)
	b, err := s.checkBrokerEpoch(q.BrokerID, q.BrokerEpoch)
	if !metadata.DirectoriesSupported(s.level()) {
		err = faultf(kerr.UnsupportedVersion, "Directory assignment is not supported yet.")
	}
	if err != nil {
		response.ErrorCode, _ = faultOf(err)
		return Result{Response: response}, nil
	}
	var records []metadata.Record
	seen := map[partitionKey]bool{}
	for _, d := range q.Directories {
		outDir := kmsg.NewAssignReplicasToDirsResponseDirectory()
		outDir.ID = d.ID
		for _, t := range d.Topics {
			outTopic := kmsg.NewAssignReplicasToDirsResponseDirectoryTopic()
			outTopic.TopicID = t.TopicID
			for _, part := range t.Partitions {
				out := kmsg.NewAssignReplicasToDirsResponseDirectoryTopicPartition()
				out.Partition = part.Partition
				key := partitionKey{t.TopicID, part.Partition}
				var record *metadata.PartitionChangeRecord
				err := error(kerr.InvalidRequest)
				if !seen[key] { // one replica is in one directory
					record, err = s.assignReplica(b, d.ID, key)
				}
				seen[key] = true
				if record != nil {
					records = append(records, record)
				}
				out.ErrorCode, _ = faultOf(err)
				outTopic.Partitions = append(outTopic.Partitions, out)
			}
			outDir.Topics = append(outDir.Topics, outTopic)
		}
		response.Directories = append(response.Directories, outDir)
	}
	return Result{Records: records, Response: response}, nil
}

func (s *state) assignReplica(b *metadata.Broker, dir kafka.DirID, key partitionKey) (*metadata.PartitionChangeRecord, error) {
	topic, ok := s.image.Topics.ByID(key.topic)
	if !ok {
		return nil, kerr.UnknownTopicID
	}
	p, ok := topic.Partitions.Get(key.partition)
	if !ok {
		return nil, kerr.UnknownTopicOrPartition
	}
	if !slices.Contains(p.Replicas, b.ID) {
		return nil, kerr.NotLeaderForPartition
	}
	t := s.keep(topic, p)
	t.directories = map[kafka.NodeID]kafka.DirID{b.ID: dir}
	if !hasOnlineDir(b, dir) { // it failed before the replica was known to be there
		t.exclude(b.ID)
		return s.change(topic, key.partition, p, t), nil
	}
	anew, err := s.begunAnew(b, p.Directory(b.ID))
	if err != nil {
		return nil, err
	}
	if anew {
		t.isr, t.lost, t.anew = without(t.isr, b.ID), b.ID, true
	}
	t.acceptable = func(id kafka.NodeID) bool {
		return s.image.Cluster.Active(id) && (id == b.ID || s.dirOnline(p, id))
	}
	return s.change(topic, key.partition, p, t), nil
}

// begunAnew tells whether a replica that says where it lies has none of the records that it had where it was. So it is if the broker
// came without that directory: a disk was replaced. From one that the broker has, or had until it failed, the replica can only have
// moved, with all its records. NOT_CONTROLLER: which of the two it is nobody knows here before the broker's next heartbeat.
func (s *state) begunAnew(b *metadata.Broker, was kafka.DirID) (bool, error) {
	k, heardOf := s.contacts[b.ID]
	switch {
	case hasOnlineDir(b, was) || slices.Contains(k.Failed, was):
		return false, nil
	case (!heardOf || k.MetadataOffset < 0) && was != kafka.DirLost:
		return false, kerr.NotController
	}
	return true, nil
}
