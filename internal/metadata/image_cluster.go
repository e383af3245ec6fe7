package metadata

import (
	"iter"
	"math"

	"moldau/internal/kafka"
)

// Cluster is the registered brokers and controllers.
type Cluster struct {
	brokers     Tree[kafka.NodeID, *Broker]
	controllers Tree[kafka.NodeID, *Controller]
	nextNodeID  kafka.NodeID // 0: none was given
}

// Broker is the registration of a broker's current incarnation.
type Broker struct {
	ID                   kafka.NodeID
	Epoch                int64 // grows with every incarnation
	IncarnationID        kafka.UUID
	Endpoints            []Endpoint
	Features             []FeatureRange
	Rack                 *string
	Fenced               bool
	InControlledShutdown bool
	IsMigratingZkBroker  bool
	LogDirs              []kafka.DirID // online
	CordonedLogDirs      []kafka.DirID // take no new replicas; nil when never stated
}

// Active reports whether the broker can lead and be in sync: neither fenced nor on its way out.
func (b *Broker) Active() bool { return !b.Fenced && !b.InControlledShutdown }

// Endpoint returns the broker's address on a listener.
func (b *Broker) Endpoint(listener string) (Endpoint, bool) {
	for _, e := range b.Endpoints {
		if e.Name == listener {
			return e, true
		}
	}
	return Endpoint{}, false
}

// Controller is the registration of a controller (KIP-919).
type Controller struct {
	ID               kafka.NodeID
	IncarnationID    kafka.UUID
	ZkMigrationReady bool
	Endpoints        []Endpoint
	Features         []FeatureRange
}

func emptyCluster() Cluster {
	return Cluster{
		brokers:     newOrderedTree[kafka.NodeID, *Broker](),
		controllers: newOrderedTree[kafka.NodeID, *Controller](),
	}
}

// Broker returns the registration of a broker, fenced or not.
func (c Cluster) Broker(id kafka.NodeID) (*Broker, bool) { return c.brokers.Get(id) }

// Brokers yields the registered brokers by id, the fenced ones too.
func (c Cluster) Brokers() iter.Seq2[kafka.NodeID, *Broker] { return c.brokers.All() }

// Active reports whether a broker is registered, not fenced and not shutting down.
func (c Cluster) Active(id kafka.NodeID) bool {
	b, ok := c.brokers.Get(id)
	return ok && b.Active()
}

// Controller returns the registration of a controller.
func (c Cluster) Controller(id kafka.NodeID) (*Controller, bool) { return c.controllers.Get(id) }

// Controllers yields the registered controllers by id.
func (c Cluster) Controllers() iter.Seq2[kafka.NodeID, *Controller] { return c.controllers.All() }

// NextNodeID is the lowest number, not below least, that no node has and that none was ever given.
func (c Cluster) NextNodeID(least kafka.NodeID) kafka.NodeID {
	for id := max(least, c.nextNodeID); ; id++ {
		_, broker := c.brokers.Get(id)
		_, controller := c.controllers.Get(id)
		if !broker && !controller || id == math.MaxInt32 {
			return id
		}
	}
}

func (c Cluster) records(level int16, emit func(Record)) {
	if c.nextNodeID != 0 {
		emit(&NoOpRecord{NextNodeID: c.nextNodeID})
	}
	for _, b := range c.brokers.All() {
		emit(b.record())
	}
	if !ControllersSupported(level) {
		return
	}
	for _, k := range c.controllers.All() {
		emit(k.record())
	}
}

func (b *Broker) record() *RegisterBrokerRecord {
	return &RegisterBrokerRecord{
		BrokerID:             b.ID,
		IsMigratingZkBroker:  b.IsMigratingZkBroker,
		IncarnationID:        b.IncarnationID,
		BrokerEpoch:          b.Epoch,
		Endpoints:            b.Endpoints,
		Features:             b.Features,
		Rack:                 b.Rack,
		Fenced:               b.Fenced,
		InControlledShutdown: b.InControlledShutdown,
		LogDirs:              b.LogDirs,
		CordonedLogDirs:      b.CordonedLogDirs,
	}
}

func (k *Controller) record() *RegisterControllerRecord {
	return &RegisterControllerRecord{
		ControllerID:     k.ID,
		IncarnationID:    k.IncarnationID,
		ZkMigrationReady: k.ZkMigrationReady,
		Endpoints:        k.Endpoints,
		Features:         k.Features,
	}
}
