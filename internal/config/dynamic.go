package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"moldau/internal/kafka"
)

// CheckBroker tells what is wrong with the dynamic settings of one broker, beside those of all brokers; nil if they may
// be set. Mirrors DynamicBrokerConfig.validate. The static settings of c are taken for that broker's.
func (c *Config) CheckBroker(own, all map[string]string) error {
	if err := checkDynamic(own, true); err != nil {
		return err
	}
	_, err := c.over(own, all)
	return err
}

// CheckBrokers is CheckBroker for the settings of all brokers.
func (c *Config) CheckBrokers(all map[string]string) error {
	if err := checkDynamic(all, false); err != nil {
		return err
	}
	_, err := c.over(nil, all)
	return err
}

// Dynamic returns c with these dynamic settings instead of those that it has: own are those of this broker, all those of
// every broker (KIP-226). They have been checked before they came into the metadata log; what this program finds wrong
// all the same is left out, and is an error. Idle are sentences about settings that are new and have no effect.
func (c *Config) Dynamic(own, all map[string]string) (next *Config, idle []string, errs []error) {
	keep := func(values, old map[string]string, perBroker bool) map[string]string {
		kept := map[string]string{}
		for _, key := range slices.Sorted(maps.Keys(values)) {
			if err := checkDynamic(map[string]string{key: values[key]}, perBroker); err != nil {
				errs = append(errs, err)
				continue
			}
			kept[key] = values[key]
			if was, set := old[key]; set && was == values[key] {
				continue
			}
			if row, known := brokerRow(key); !known {
				idle = append(idle, key+" is not a setting that moldau or Kafka knows; it has no effect")
			} else if why := row.idle(values[key]); why != "" {
				idle = append(idle, key+" "+why)
			}
		}
		return kept
	}
	next, err := c.over(keep(own, c.own, true), keep(all, c.all, false))
	if err != nil {
		return c, nil, append(errs, err)
	}
	return next, idle, errs
}

// Numbered is c for a node that has been given its number since.
func (c *Config) Numbered(id kafka.NodeID) (*Config, error) {
	numbered := *c
	numbered.static = maps.Clone(c.static)
	numbered.static["node.id"] = setting{key: "node.id", raw: strconv.Itoa(int(id)), file: c.file}
	return numbered.over(c.own, c.all)
}

// over lays dynamic settings, each good by itself, over the static ones.
func (c *Config) over(own, all map[string]string) (*Config, error) {
	next := &Config{static: c.static, own: own, all: all, set: maps.Clone(c.static), file: c.file, here: c.here}
	next.lay(all)
	next.lay(own)
	l := &loader{file: c.file, set: maps.Clone(next.set), here: c.here}
	next.node = l.assemble()
	if len(l.faults) == 0 && !slices.Equal(next.node.Network.Listeners, c.node.Network.Listeners) {
		return nil, errors.New("listeners cannot be added, removed or changed while a node runs; change its file and restart it")
	}
	if len(l.faults) > 0 {
		texts := make([]string, len(l.faults))
		for i, f := range l.faults.sorted() {
			texts[i] = Fault{Key: f.Key, Value: f.Value, Text: f.Text}.String() // where it stands in a file is nothing for clients
		}
		return nil, errors.New(strings.Join(texts, "; "))
	}
	return next, nil
}

// lay puts settings over what is set. Each takes the place of those that stand in for its key, also of finer ones: a
// dynamic value always counts. Mirrors DynamicBrokerConfig.overrideProps.
func (c *Config) lay(values map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if !strings.HasPrefix(key, listenerPrefix) { // the key without the prefix is for other listeners
			for _, other := range family(key) {
				delete(c.set, other)
			}
		}
		c.set[key] = setting{key: key, raw: values[key]}
	}
}

// checkDynamic tells what is wrong with each setting by itself. Mirrors DynamicBrokerConfig.validateConfigs. Like there a
// key that nobody knows is taken, unless it is nearly a real one.
func checkDynamic(values map[string]string, perBroker bool) error {
	var fixed, unprefixed, ownOnly, wrong []string
	for _, key := range slices.Sorted(maps.Keys(values)) {
		raw := values[key]
		row, known := brokerRow(key)
		if !known {
			if err := unknownBroker(key); err != nil {
				wrong = append(wrong, err.Error())
			}
			continue
		}
		prefixed := key != row.Name
		if !prefixed && row.Dynamic == ReadOnly {
			fixed = append(fixed, key)
			continue
		}
		if !prefixed && reloadable(key) {
			unprefixed = append(unprefixed, key)
		}
		if !perBroker && (row.Dynamic == PerBroker || prefixed && row.Dynamic != ClusterWide || row.Type == Password) {
			ownOnly = append(ownOnly, key)
		}
		if _, want := row.parse(raw); want != "" {
			wrong = append(wrong, fmt.Sprintf("%s=%s: want %s", key, shown(row.Type, raw), want))
		} else if row.Standing == Refused && canonical(row, raw) != canonical(row, row.Default) {
			wrong = append(wrong, fmt.Sprintf("%s=%s: %s", key, shown(row.Type, raw), row.Why))
		}
	}
	for text, keys := range map[string][]string{
		"Cannot update these configs dynamically: [%s]":                                                       fixed,
		"These security configs can be dynamically updated only per-listener using the listener prefix: [%s]": unprefixed,
		"Cannot update these configs at default cluster level, broker id must be specified: [%s]":             ownOnly,
	} {
		if len(keys) > 0 {
			wrong = append(wrong, fmt.Sprintf(text, strings.Join(keys, ", ")))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	slices.Sort(wrong)
	return errors.New(strings.Join(wrong, "; "))
}

// unknownBroker is an error if a key is nearly one of brokers.
func unknownBroker(key string) error {
	near, ok := nearest(key)
	_, topic := topicByName[key]
	switch {
	case ok && topic:
		return fmt.Errorf("%s is a setting of topics; for all topics it is %s", key, near)
	case ok:
		return fmt.Errorf("%s is not a setting of brokers; did you mean %s?", key, near)
	}
	return nil
}

// reloadable keys belong to a listener's certificates (SslConfigs.RECONFIGURABLE_CONFIGS).
func reloadable(key string) bool {
	return strings.HasPrefix(key, "ssl.key.") || strings.HasPrefix(key, "ssl.keystore.") || strings.HasPrefix(key, "ssl.truststore.")
}
