package node

import (
	"maps"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/config"
	"moldau/internal/controller"
	"moldau/internal/metadata"
)

// settings is the configuration in force: what the node was started with, and the dynamic settings of the metadata log
// over it. It is the one subscriber to those of brokers, and comes before all others, who may ask for the result.
type settings struct {
	n    *Node
	now  atomic.Pointer[config.Config]
	self string // the resource that this broker's own settings belong to
}

var _ metadata.Subscriber = (*settings)(nil)

func newSettings(n *Node) *settings {
	s := &settings{n: n, self: strconv.Itoa(int(n.cfg.ID))}
	s.now.Store(n.o.Config)
	return s
}

// Apply puts changed settings in force.
func (s *settings) Apply(delta *metadata.Delta, image *metadata.Image) {
	concerns := func(r metadata.ConfigResource) bool {
		return r.Type == metadata.ConfigBroker && (r.Name == "" || r.Name == s.self)
	}
	if !slices.ContainsFunc(delta.ChangedConfigs(), concerns) {
		return
	}
	old, logger := s.now.Load(), s.n.o.Logger
	own, all := image.Configs.Get(metadata.ConfigBroker, s.self), image.Configs.Get(metadata.ConfigBroker, "")
	next, idle, errs := old.Dynamic(own, all)
	for _, err := range errs {
		logger.Error("a dynamic setting in the metadata log cannot be used", "error", err)
	}
	for _, sentence := range idle {
		logger.Warn(sentence)
	}
	s.now.Store(next)
	s.n.obey(old.Node(), next.Node())
	logger.Info("dynamic settings are in force", "ofThisBroker", slices.Sorted(maps.Keys(own)), "ofAllBrokers", slices.Sorted(maps.Keys(all)))
}

// obey hands changed settings to the parts that work by them. What topics take from their broker is none of these: the
// replicas ask for it.
func (n *Node) obey(old, next config.Node) {
	n.server.SetConnectionLimits(connectionLimits(next.Network))
	if next.Cleaner != old.Cleaner {
		n.store.SetCleaner(cleanerOptions(next.Cleaner))
	}
	if n.throttles != nil && next.Throttles != old.Throttles {
		n.throttles.SetRates(throttleRates(next))
	}
	n.store.SetProducerExpiry(int64(next.Producers.ExpiryMs))
	n.store.SetRecoveryThreads(int(next.Storage.RecoveryThreads))
}

// configRules is what the controller asks about settings in the metadata log.
func configRules(current func() *config.Config) controller.ConfigRules {
	entry := func(t metadata.ConfigType, name string) (config.Entry, bool) {
		var entries []config.Entry
		switch c := current(); t {
		case metadata.ConfigTopic:
			entries = c.DescribeTopic(nil)
		case metadata.ConfigBroker:
			entries = c.DescribeBroker()
		case metadata.ConfigGroup:
			entries = c.DescribeGroup(nil)
		case metadata.ConfigClientMetrics:
			entries = c.DescribeClientMetrics(nil)
		}
		i := slices.IndexFunc(entries, func(e config.Entry) bool { return e.Name == name })
		if i < 0 {
			return config.Entry{}, false
		}
		return entries[i], true
	}
	return controller.ConfigRules{
		Check: func(r metadata.ConfigResource, values, brokers map[string]string) error {
			switch c := current(); {
			case r.Type == metadata.ConfigBroker && r.Name == "":
				return c.CheckBrokers(values)
			case r.Type == metadata.ConfigBroker:
				return c.CheckBroker(values, brokers)
			case r.Type == metadata.ConfigGroup:
				return c.CheckGroup(values, brokers)
			case r.Type == metadata.ConfigClientMetrics:
				return config.CheckClientMetrics(values)
			default:
				return c.CheckTopic(values)
			}
		},
		Default: func(t metadata.ConfigType, name string) (string, bool) {
			e, ok := entry(t, name)
			if !ok || e.Value == nil {
				return "", false
			}
			return *e.Value, true
		},
		List: func(t metadata.ConfigType, name string) bool {
			e, _ := entry(t, name)
			return e.Type == config.List
		},
		Effective: func(overrides map[string]string) []kmsg.CreateTopicsResponseTopicConfig {
			entries := current().DescribeTopic(overrides)
			configs := make([]kmsg.CreateTopicsResponseTopicConfig, len(entries))
			for i, e := range entries {
				configs[i] = kmsg.CreateTopicsResponseTopicConfig{Name: e.Name, Value: e.Value, ReadOnly: e.ReadOnly, Source: int8(e.Origin), IsSensitive: e.Sensitive}
			}
			return configs
		},
	}
}
