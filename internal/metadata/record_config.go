package metadata

import "moldau/internal/kafka"

// ConfigRecord sets one configuration value of a resource, or removes it when Value is nil.
type ConfigRecord struct {
	ResourceType int8
	ResourceName string
	Name         string
	Value        *string
}

// Type is 4.
func (r *ConfigRecord) Type() int16 { return TypeConfig }

func (r *ConfigRecord) walk(c *codec) {
	c.int8(&r.ResourceType)
	c.string(&r.ResourceName)
	c.string(&r.Name)
	c.nullableString(&r.Value)
	c.tags()
}

// FeatureLevelRecord states the finalized level of a feature; level 0 removes it. Logs and snapshots begin with that of
// metadata.version.
type FeatureLevelRecord struct {
	Name         string
	FeatureLevel int16
}

// Type is 12.
func (r *FeatureLevelRecord) Type() int16 { return TypeFeatureLevel }

func (r *FeatureLevelRecord) walk(c *codec) {
	c.string(&r.Name)
	c.int16(&r.FeatureLevel)
	c.tags()
}

// ProducerIDsRecord states the first producer id that is not yet handed out.
type ProducerIDsRecord struct {
	BrokerID       kafka.NodeID // that asked
	BrokerEpoch    int64
	NextProducerID int64
}

// Type is 15.
func (r *ProducerIDsRecord) Type() int16 { return TypeProducerIDs }

func (r *ProducerIDsRecord) walk(c *codec) {
	c.int32(&r.BrokerID)
	c.int64(&r.BrokerEpoch)
	c.int64(&r.NextProducerID)
	c.tags()
}

// QuotaEntityPart is one part of the entity that a quota is for, such as user=alice. A nil name is the default of its
// type.
type QuotaEntityPart struct {
	EntityType string
	EntityName *string
}

// ClientQuotaRecord sets or removes one quota value.
type ClientQuotaRecord struct {
	Entity []QuotaEntityPart
	Key    string
	Value  float64
	Remove bool
}

// Type is 14.
func (r *ClientQuotaRecord) Type() int16 { return TypeClientQuota }

func (r *ClientQuotaRecord) walk(c *codec) {
	array(c, &r.Entity, false, 3, func(e *QuotaEntityPart) {
		c.string(&e.EntityType)
		c.nullableString(&e.EntityName)
		c.tags()
	})
	c.string(&r.Key)
	c.float64(&r.Value)
	c.bool(&r.Remove)
	c.tags()
}
