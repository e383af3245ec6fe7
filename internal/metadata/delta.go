package metadata

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"moldau/internal/kafka"
)

// Delta is what records change of an image: the image that results, and which parts of it differ from the base.
type Delta struct {
	base *Image
	next Image

	topics  map[kafka.TopicID]map[int32]struct{} // touched topics, with the partitions touched
	owned   map[kafka.TopicID]*Topic             // topics that no image has yet, so that they may change in place
	brokers map[kafka.NodeID]struct{}
	configs map[ConfigResource]struct{}

	producerIDs, quotas, acls bool
}

// NewDelta returns an empty change of base.
func NewDelta(base *Image) *Delta {
	return &Delta{
		base:    base,
		next:    *base,
		topics:  map[kafka.TopicID]map[int32]struct{}{},
		owned:   map[kafka.TopicID]*Topic{},
		brokers: map[kafka.NodeID]struct{}{},
		configs: map[ConfigResource]struct{}{},
	}
}

// Base returns the image that the delta changes.
func (d *Delta) Base() *Image { return d.base }

// Image returns the base with the changes, as of the given offset and epoch.
func (d *Delta) Image(offset kafka.Offset, epoch kafka.Epoch) *Image {
	clear(d.owned)
	image := d.next
	image.Offset, image.Epoch = offset, epoch
	return &image
}

// Replay applies one record. An error means that the log contradicts itself; the delta must then be dropped. The record
// must not be changed afterwards: the image may keep parts of it.
func (d *Delta) Replay(r Record) error {
	switch r := r.(type) {
	case *RegisterBrokerRecord:
		d.brokers[r.BrokerID] = struct{}{}
		d.next.Cluster.brokers = d.next.Cluster.brokers.with(r.BrokerID, newBroker(r))
	case *UnregisterBrokerRecord:
		if _, err := d.broker(r.BrokerID, r.BrokerEpoch); err != nil {
			return fmt.Errorf("unregister broker: %w", err)
		}
		d.next.Cluster.brokers = d.next.Cluster.brokers.without(r.BrokerID)
	case *FenceBrokerRecord:
		return d.changeBroker(&BrokerRegistrationChangeRecord{BrokerID: r.ID, BrokerEpoch: r.Epoch, Fenced: Fence})
	case *UnfenceBrokerRecord:
		return d.changeBroker(&BrokerRegistrationChangeRecord{BrokerID: r.ID, BrokerEpoch: r.Epoch, Fenced: Unfence})
	case *BrokerRegistrationChangeRecord:
		return d.changeBroker(r)
	case *RegisterControllerRecord:
		d.next.Cluster.controllers = d.next.Cluster.controllers.with(r.ControllerID, &Controller{
			ID: r.ControllerID, IncarnationID: r.IncarnationID, ZkMigrationReady: r.ZkMigrationReady,
			Endpoints: r.Endpoints, Features: r.Features,
		})
	case *UnregisterControllerRecord:
		d.next.Cluster.controllers = d.next.Cluster.controllers.without(r.ControllerID)

	case *TopicRecord:
		if other, ok := d.next.Topics.ByName(r.Name); ok {
			return fmt.Errorf("create topic %s with id %v: it exists with id %v", r.Name, r.TopicID, other.ID)
		}
		if other, ok := d.next.Topics.ByID(r.TopicID); ok {
			return fmt.Errorf("create topic %s with id %v: topic %s has that id", r.Name, r.TopicID, other.Name)
		}
		d.touch(r.TopicID)
		d.own(&Topic{Name: r.Name, ID: r.TopicID, Partitions: newOrderedTree[int32, *PartitionRegistration]()})
	case *PartitionRecord:
		return d.replacePartition(r.TopicID, r.PartitionID, newPartition(r))
	case *PartitionChangeRecord:
		_, old, err := d.partition(r.TopicID, r.PartitionID)
		if err != nil {
			return fmt.Errorf("change partition: %w", err)
		}
		return d.replacePartition(r.TopicID, r.PartitionID, old.Change(r))
	case *RemoveTopicRecord:
		topic, ok := d.next.Topics.ByID(r.TopicID)
		if !ok {
			return fmt.Errorf("remove topic: there is none with id %v", r.TopicID)
		}
		d.touch(r.TopicID)
		delete(d.owned, r.TopicID)
		d.next.Topics = d.next.Topics.without(topic)
		resource := ConfigResource{ConfigTopic, topic.Name}
		if _, ok := d.next.Configs.resources.Get(resource); ok {
			d.configs[resource] = struct{}{}
			d.next.Configs.resources = d.next.Configs.resources.without(resource)
		}
	case *ClearElrRecord:
		return d.clearELR(r.TopicName)

	case *ConfigRecord:
		d.configs[ConfigResource{ConfigType(r.ResourceType), r.ResourceName}] = struct{}{}
		d.next.Configs = d.next.Configs.with(r)
	case *FeatureLevelRecord:
		if r.FeatureLevel == 0 {
			d.next.Features.levels = d.next.Features.levels.without(r.Name)
		} else {
			d.next.Features.levels = d.next.Features.levels.with(r.Name, r.FeatureLevel)
		}
	case *ZkMigrationStateRecord:
		d.next.Features.zkMigrationState = r.ZkMigrationState
	case *ProducerIDsRecord:
		d.producerIDs = true
		d.next.ProducerIDs.Next = r.NextProducerID
	case *ClientQuotaRecord:
		d.quotas = true
		d.next.ClientQuotas = d.next.ClientQuotas.with(r)

	case *AccessControlEntryRecord:
		d.acls = true
		d.next.Acls.entries = d.next.Acls.entries.with(r.ID, r)
	case *RemoveAccessControlEntryRecord:
		d.acls = true
		d.next.Acls.entries = d.next.Acls.entries.without(r.ID)
	case *UserScramCredentialRecord:
		d.next.Scram.credentials = d.next.Scram.credentials.with(ScramKey{r.Mechanism, r.Name}, r)
	case *RemoveUserScramCredentialRecord:
		d.next.Scram.credentials = d.next.Scram.credentials.without(ScramKey{r.Mechanism, r.Name})
	case *DelegationTokenRecord:
		d.next.DelegationTokens.tokens = d.next.DelegationTokens.tokens.with(r.TokenID, r)
	case *RemoveDelegationTokenRecord:
		d.next.DelegationTokens.tokens = d.next.DelegationTokens.tokens.without(r.TokenID)

	case *NoOpRecord:
		d.next.Cluster.nextNodeID = max(d.next.Cluster.nextNodeID, r.NextNodeID)
	case *BeginTransactionRecord, *EndTransactionRecord, *AbortTransactionRecord:
		return fmt.Errorf("replay %T: marks of metadata transactions are for the loader, which holds back what lies between", r)
	default:
		return fmt.Errorf("replay %T: not known", r)
	}
	return nil
}

func newBroker(r *RegisterBrokerRecord) *Broker {
	return &Broker{
		ID:                   r.BrokerID,
		Epoch:                r.BrokerEpoch,
		IncarnationID:        r.IncarnationID,
		Endpoints:            r.Endpoints,
		Features:             r.Features,
		Rack:                 r.Rack,
		Fenced:               r.Fenced,
		InControlledShutdown: r.InControlledShutdown,
		IsMigratingZkBroker:  r.IsMigratingZkBroker,
		LogDirs:              r.LogDirs,
		CordonedLogDirs:      r.CordonedLogDirs,
	}
}

// broker returns a broker that a record is about to change, marked as touched.
func (d *Delta) broker(id kafka.NodeID, epoch int64) (*Broker, error) {
	b, ok := d.next.Cluster.brokers.Get(id)
	if !ok {
		return nil, fmt.Errorf("broker %d is not registered", id)
	}
	if b.Epoch != epoch {
		return nil, fmt.Errorf("broker %d has epoch %d, the record is for %d", id, b.Epoch, epoch)
	}
	d.brokers[id] = struct{}{}
	return b, nil
}

func (d *Delta) changeBroker(r *BrokerRegistrationChangeRecord) error {
	old, err := d.broker(r.BrokerID, r.BrokerEpoch)
	if err != nil {
		return fmt.Errorf("change registration: %w", err)
	}
	next := *old
	switch r.Fenced {
	case 0:
	case Fence:
		next.Fenced = true
	case Unfence:
		next.Fenced = false
	default:
		return fmt.Errorf("change registration of broker %d: fenced has the unknown value %d", r.BrokerID, r.Fenced)
	}
	switch r.InControlledShutdown {
	case 0:
	case StartControlledShutdown:
		next.InControlledShutdown = true
	default:
		return fmt.Errorf("change registration of broker %d: in controlled shutdown has the unknown value %d",
			r.BrokerID, r.InControlledShutdown)
	}
	if len(r.LogDirs) > 0 {
		next.LogDirs = r.LogDirs
	}
	if r.CordonedLogDirs != nil {
		next.CordonedLogDirs = r.CordonedLogDirs
	}
	d.next.Cluster.brokers = d.next.Cluster.brokers.with(r.BrokerID, &next)
	return nil
}

func (d *Delta) touch(id kafka.TopicID) map[int32]struct{} {
	partitions, ok := d.topics[id]
	if !ok {
		partitions = map[int32]struct{}{}
		d.topics[id] = partitions
	}
	return partitions
}

func (d *Delta) partition(id kafka.TopicID, partition int32) (*Topic, *PartitionRegistration, error) {
	topic, ok := d.next.Topics.ByID(id)
	if !ok {
		return nil, nil, fmt.Errorf("there is no topic with id %v", id)
	}
	p, ok := topic.Partitions.Get(partition)
	if !ok {
		return nil, nil, fmt.Errorf("topic %s has no partition %d", topic.Name, partition)
	}
	return topic, p, nil
}

func (d *Delta) replacePartition(id kafka.TopicID, partition int32, p *PartitionRegistration) error {
	topic, ok := d.next.Topics.ByID(id)
	if !ok {
		return fmt.Errorf("set partition %d: there is no topic with id %v", partition, id)
	}
	d.touch(id)[partition] = struct{}{}
	next, ok := d.owned[id]
	if !ok {
		next = &Topic{Name: topic.Name, ID: id, Partitions: topic.Partitions}
		d.own(next)
	}
	before := next.Partitions.Len()
	next.Partitions = next.Partitions.with(partition, p)
	d.next.Topics.partitions += next.Partitions.Len() - before
	return nil
}

// own puts a topic into the next image that may change in place until that image is given out. A topic of many partitions
// comes as many records; copying the way to it for each would be most of the work of loading an image.
func (d *Delta) own(topic *Topic) {
	d.owned[topic.ID] = topic
	d.next.Topics = d.next.Topics.with(topic)
}

// clearELR mirrors TopicsDelta.replay(ClearElrRecord): no epoch moves, since no decision about the partition changed.
func (d *Delta) clearELR(name string) error {
	var topics []*Topic
	if name != "" {
		topic, ok := d.next.Topics.ByName(name)
		if !ok {
			return fmt.Errorf("clear eligible leader replicas: there is no topic %s", name)
		}
		topics = append(topics, topic)
	} else {
		for _, topic := range d.next.Topics.All() {
			topics = append(topics, topic)
		}
	}
	for _, topic := range topics {
		for partition, p := range topic.Partitions.All() {
			if len(p.ELR) == 0 && len(p.LastKnownELR) == 0 {
				continue
			}
			next := *p
			next.ELR, next.LastKnownELR = nil, nil
			if err := d.replacePartition(topic.ID, partition, &next); err != nil {
				return err
			}
		}
	}
	return nil
}

// TopicChange is what happened to one topic that is still, or now, there.
type TopicChange struct {
	Before     *Topic // nil: the topic is new
	After      *Topic
	Partitions []int32 // new or changed, ascending
}

// ChangedTopics returns the topics that are new or changed, by name.
func (d *Delta) ChangedTopics() []TopicChange {
	var changes []TopicChange
	for id, partitions := range d.topics {
		after, ok := d.next.Topics.ByID(id)
		if !ok {
			continue
		}
		before, _ := d.base.Topics.ByID(id)
		changes = append(changes, TopicChange{Before: before, After: after, Partitions: sortedKeys(partitions, cmp.Compare[int32])})
	}
	slices.SortFunc(changes, func(a, b TopicChange) int { return strings.Compare(a.After.Name, b.After.Name) })
	return changes
}

// DeletedTopics returns the topics that were in the base and are gone, by name. A topic that was deleted and created
// again is both here and, with its new id, in ChangedTopics.
func (d *Delta) DeletedTopics() []*Topic {
	var deleted []*Topic
	for id := range d.topics {
		if _, ok := d.next.Topics.ByID(id); ok {
			continue
		}
		if before, ok := d.base.Topics.ByID(id); ok {
			deleted = append(deleted, before)
		}
	}
	slices.SortFunc(deleted, func(a, b *Topic) int { return strings.Compare(a.Name, b.Name) })
	return deleted
}

// ChangedBrokers returns the brokers that registered, changed or are gone, by id.
func (d *Delta) ChangedBrokers() []kafka.NodeID {
	return sortedKeys(d.brokers, cmp.Compare[kafka.NodeID])
}

// ChangedConfigs returns the resources whose configuration changed, those of deleted topics too.
func (d *Delta) ChangedConfigs() []ConfigResource { return sortedKeys(d.configs, compareResource) }

// ProducerIDsChanged reports whether producer ids were handed out.
func (d *Delta) ProducerIDsChanged() bool { return d.producerIDs }

// QuotasChanged reports whether a client quota changed.
func (d *Delta) QuotasChanged() bool { return d.quotas }

// AclsChanged reports whether an access control entry changed.
func (d *Delta) AclsChanged() bool { return d.acls }

func sortedKeys[K comparable](m map[K]struct{}, compare func(a, b K) int) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, compare)
	return keys
}
