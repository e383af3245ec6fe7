package metadata

import "moldau/internal/kafka"

// Endpoint is one address at which a broker or controller listens.
type Endpoint struct {
	Name             string // of the listener
	Host             string
	Port             uint16
	SecurityProtocol int16 // 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL
}

func (e *Endpoint) walk(c *codec) {
	c.string(&e.Name)
	c.string(&e.Host)
	c.uint16(&e.Port)
	c.int16(&e.SecurityProtocol)
	c.tags()
}

// FeatureRange is the levels of one feature that a node supports, both ends included.
type FeatureRange struct {
	Name     string
	Min, Max int16
}

// Has reports whether a level is one of them.
func (f FeatureRange) Has(level int16) bool { return f.Min <= level && level <= f.Max }

// RangeOf returns the levels of a feature among those that a node states. One that it does not name it supports at level 0 alone.
func RangeOf(stated []FeatureRange, name string) FeatureRange {
	for _, f := range stated {
		if f.Name == name {
			return f
		}
	}
	return FeatureRange{Name: name}
}

func (f *FeatureRange) walk(c *codec) {
	c.string(&f.Name)
	c.int16(&f.Min)
	c.int16(&f.Max)
	c.tags()
}

// RegisterBrokerRecord introduces an incarnation of a broker, which replaces the one before.
type RegisterBrokerRecord struct {
	BrokerID             kafka.NodeID
	IsMigratingZkBroker  bool // version 2+
	IncarnationID        kafka.UUID
	BrokerEpoch          int64
	Endpoints            []Endpoint
	Features             []FeatureRange
	Rack                 *string
	Fenced               bool
	InControlledShutdown bool          // version 1+
	LogDirs              []kafka.DirID // version 3+: online directories
	CordonedLogDirs      []kafka.DirID // version 4+: directories that take no new replicas; nil when not stated
}

// Type is 0.
func (r *RegisterBrokerRecord) Type() int16 { return TypeRegisterBroker }

func (r *RegisterBrokerRecord) walk(c *codec) {
	c.int32(&r.BrokerID)
	if c.version >= 2 {
		c.bool(&r.IsMigratingZkBroker)
	}
	c.uuid(&r.IncarnationID)
	c.int64(&r.BrokerEpoch)
	array(c, &r.Endpoints, false, 7, func(e *Endpoint) { e.walk(c) })
	array(c, &r.Features, false, 6, func(f *FeatureRange) { f.walk(c) })
	c.nullableString(&r.Rack)
	c.bool(&r.Fenced)
	if c.version >= 1 {
		c.bool(&r.InControlledShutdown)
	}
	dirs := tagged{0, len(r.LogDirs) > 0, func() { c.uuids(&r.LogDirs) }}
	cordoned := tagged{1, r.CordonedLogDirs != nil, func() { c.nullableUUIDs(&r.CordonedLogDirs) }}
	switch {
	case c.version >= 4:
		c.tags(dirs, cordoned)
	case c.version >= 3:
		c.tags(dirs)
	default:
		c.tags()
	}
}

// UnregisterBrokerRecord removes a broker for good.
type UnregisterBrokerRecord struct {
	BrokerID    kafka.NodeID
	BrokerEpoch int64
}

// Type is 1.
func (r *UnregisterBrokerRecord) Type() int16 { return TypeUnregisterBroker }

func (r *UnregisterBrokerRecord) walk(c *codec) {
	c.int32(&r.BrokerID)
	c.int64(&r.BrokerEpoch)
	c.tags()
}

// FenceBrokerRecord fences a broker. Releases before 3.3 wrote it; BrokerRegistrationChangeRecord took its place.
type FenceBrokerRecord struct {
	ID    kafka.NodeID
	Epoch int64
}

// Type is 7.
func (r *FenceBrokerRecord) Type() int16 { return TypeFenceBroker }

func (r *FenceBrokerRecord) walk(c *codec) {
	c.int32(&r.ID)
	c.int64(&r.Epoch)
	c.tags()
}

// UnfenceBrokerRecord ends the fencing of a broker. Releases before 3.3 wrote it.
type UnfenceBrokerRecord struct {
	ID    kafka.NodeID
	Epoch int64
}

// Type is 8.
func (r *UnfenceBrokerRecord) Type() int16 { return TypeUnfenceBroker }

func (r *UnfenceBrokerRecord) walk(c *codec) {
	c.int32(&r.ID)
	c.int64(&r.Epoch)
	c.tags()
}

// Values of BrokerRegistrationChangeRecord.Fenced and InControlledShutdown; 0 is "as it was".
const (
	Unfence                 int8 = -1
	Fence                   int8 = 1
	StartControlledShutdown int8 = 1
)

// BrokerRegistrationChangeRecord changes some of a broker's registration.
type BrokerRegistrationChangeRecord struct {
	BrokerID             kafka.NodeID
	BrokerEpoch          int64
	Fenced               int8          // Unfence, Fence, or 0
	InControlledShutdown int8          // version 1+: StartControlledShutdown or 0
	LogDirs              []kafka.DirID // version 2+: the online directories; empty: as they were
	CordonedLogDirs      []kafka.DirID // version 3+; nil: as they were
}

// Type is 17.
func (r *BrokerRegistrationChangeRecord) Type() int16 { return TypeBrokerRegistrationChange }

func (r *BrokerRegistrationChangeRecord) walk(c *codec) {
	c.int32(&r.BrokerID)
	c.int64(&r.BrokerEpoch)
	fields := []tagged{{0, r.Fenced != 0, func() { c.int8(&r.Fenced) }}}
	if c.version >= 1 {
		fields = append(fields, tagged{1, r.InControlledShutdown != 0, func() { c.int8(&r.InControlledShutdown) }})
	}
	if c.version >= 2 {
		fields = append(fields, tagged{2, len(r.LogDirs) > 0, func() { c.uuids(&r.LogDirs) }})
	}
	if c.version >= 3 {
		fields = append(fields, tagged{3, r.CordonedLogDirs != nil, func() { c.nullableUUIDs(&r.CordonedLogDirs) }})
	}
	c.tags(fields...)
}

// RegisterControllerRecord introduces an incarnation of a controller (KIP-919).
type RegisterControllerRecord struct {
	ControllerID     kafka.NodeID
	IncarnationID    kafka.UUID
	ZkMigrationReady bool
	Endpoints        []Endpoint
	Features         []FeatureRange
}

// Type is 27.
func (r *RegisterControllerRecord) Type() int16 { return TypeRegisterController }

func (r *RegisterControllerRecord) walk(c *codec) {
	c.int32(&r.ControllerID)
	c.uuid(&r.IncarnationID)
	c.bool(&r.ZkMigrationReady)
	array(c, &r.Endpoints, false, 7, func(e *Endpoint) { e.walk(c) })
	array(c, &r.Features, false, 6, func(f *FeatureRange) { f.walk(c) })
	c.tags()
}

// UnregisterControllerRecord removes a controller for good (KIP-1312).
type UnregisterControllerRecord struct {
	ControllerID kafka.NodeID
}

// Type is 29.
func (r *UnregisterControllerRecord) Type() int16 { return TypeUnregisterController }

func (r *UnregisterControllerRecord) walk(c *codec) {
	c.int32(&r.ControllerID)
	c.tags()
}
