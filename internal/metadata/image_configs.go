package metadata

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"
)

// ConfigType is the kind of resource that a configuration belongs to (Kafka's ConfigResource.Type).
type ConfigType int8

// The kinds of resources that have configuration in the metadata log.
const (
	ConfigTopic         ConfigType = 2
	ConfigBroker        ConfigType = 4 // the empty name is the default of all brokers
	ConfigBrokerLogger  ConfigType = 8 // never in the log
	ConfigClientMetrics ConfigType = 16
	ConfigGroup         ConfigType = 32
)

// String returns Kafka's name of the type.
func (t ConfigType) String() string {
	switch t {
	case ConfigTopic:
		return "TOPIC"
	case ConfigBroker:
		return "BROKER"
	case ConfigBrokerLogger:
		return "BROKER_LOGGER"
	case ConfigClientMetrics:
		return "CLIENT_METRICS"
	case ConfigGroup:
		return "GROUP"
	}
	return "UNKNOWN"
}

// ConfigResource names what a configuration belongs to.
type ConfigResource struct {
	Type ConfigType
	Name string
}

func compareResource(a, b ConfigResource) int {
	return cmp.Or(cmp.Compare(a.Type, b.Type), strings.Compare(a.Name, b.Name))
}

// Configs is the dynamic configuration: what was set at run time.
type Configs struct {
	resources Tree[ConfigResource, map[string]string] // never an empty map, never changed in place
}

// Get returns what is set for a resource; nil when nothing is. The map must not be changed.
func (c Configs) Get(t ConfigType, name string) map[string]string {
	m, _ := c.resources.Get(ConfigResource{t, name})
	return m
}

// Topic returns what is set for a topic; nil when nothing is. The map must not be changed.
func (c Configs) Topic(name string) map[string]string { return c.Get(ConfigTopic, name) }

// All yields the resources that have configuration. The maps must not be changed.
func (c Configs) All() iter.Seq2[ConfigResource, map[string]string] { return c.resources.All() }

func (c Configs) with(r *ConfigRecord) Configs {
	resource := ConfigResource{ConfigType(r.ResourceType), r.ResourceName}
	old, _ := c.resources.Get(resource)
	next := maps.Clone(old)
	if r.Value == nil {
		delete(next, r.Name)
		if len(next) == 0 {
			c.resources = c.resources.without(resource)
			return c
		}
	} else {
		if next == nil {
			next = make(map[string]string, 1)
		}
		next[r.Name] = *r.Value
	}
	c.resources = c.resources.with(resource, next)
	return c
}

func (c Configs) records(emit func(Record)) {
	for resource, values := range c.resources.All() {
		for _, name := range slices.Sorted(maps.Keys(values)) {
			value := values[name]
			emit(&ConfigRecord{ResourceType: int8(resource.Type), ResourceName: resource.Name, Name: name, Value: &value})
		}
	}
}
