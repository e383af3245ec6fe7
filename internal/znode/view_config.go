package znode

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"moldau/internal/config"
	"moldau/internal/metadata"
)

// everyone is how Kafka 1.1 calls the default of all entities of a type.
const everyone = "<default>"

func topicConfigPath(topic string) string { return "/config/topics/" + topic }

// topicConfig lists a topic's settings, which have a node even if there are none.
func (l *viewList) topicConfig(topic string, configs metadata.Configs) {
	values := configs.Topic(topic)
	if values == nil {
		values = map[string]string{}
	}
	l.node(topicConfigPath(topic), payload(settings{Version: 1, Config: values}))
}

func brokerConfigPath(name string) string {
	if name == "" {
		name = everyone
	}
	return "/config/brokers/" + name
}

// brokerConfig lists the settings of one broker, or of all, that are no secrets. Kafka 1.1 kept secrets here encrypted; here
// whoever may read a node reads all of it.
func (l *viewList) brokerConfig(name string, values map[string]string) {
	shown := maps.Clone(values)
	maps.DeleteFunc(shown, func(key, _ string) bool { return config.IsSecret(key) })
	l.node(brokerConfigPath(name), payload(settings{Version: 1, Config: shown}))
}

func (l *viewList) brokerConfigs(configs metadata.Configs) {
	for r, values := range configs.All() {
		if r.Type == metadata.ConfigBroker {
			l.brokerConfig(r.Name, values)
		}
	}
}

// configChange lists what a delta did to the settings of one resource.
func (v *Views) configChange(r metadata.ConfigResource, image *metadata.Image, gone, now *viewList) {
	switch r.Type {
	case metadata.ConfigTopic:
		if _, ok := image.Topics.ByName(r.Name); ok && r.Name != Topic { // else it went with its topic
			now.topicConfig(r.Name, image.Configs)
		}
	case metadata.ConfigBroker:
		if values := image.Configs.Get(r.Type, r.Name); values != nil {
			now.brokerConfig(r.Name, values)
		} else {
			gone.folder(brokerConfigPath(r.Name))
		}
	}
}

// quotas lists the quotas of users and clients, with the nodes above them. Those of addresses came after 1.1.
func (l *viewList) quotas(quotas metadata.ClientQuotas) {
	nodes := map[string][]byte{}
	for e := range quotas.All() {
		path, ok := quotaPath(e.Parts)
		if !ok {
			continue
		}
		values := map[string]string{}
		for key, value := range e.Values {
			values[key] = strconv.FormatFloat(value, 'f', -1, 64)
		}
		nodes[path] = payload(settings{Version: 1, Config: values})
		if user, _, ok := strings.Cut(path, "/clients/"); ok && strings.HasPrefix(path, "/config/users/") {
			for _, parent := range []string{user, user + "/clients"} {
				if _, ok := nodes[parent]; !ok {
					nodes[parent] = nil
				}
			}
		}
	}
	for _, path := range slices.Sorted(maps.Keys(nodes)) {
		l.node(path, nodes[path])
	}
}

// quotaPath is where the quotas of an entity are kept; false if Kafka 1.1 had no place for them.
func quotaPath(parts []metadata.QuotaEntityPart) (string, bool) {
	names := map[string]string{}
	for _, p := range parts {
		if p.EntityName == nil {
			names[p.EntityType] = everyone
		} else {
			names[p.EntityType] = sanitize(*p.EntityName)
		}
	}
	user, ofUser := names["user"]
	client, ofClient := names["client-id"]
	switch {
	case ofUser && ofClient && len(names) == 2:
		return "/config/users/" + user + "/clients/" + client, true
	case ofUser && len(names) == 1:
		return "/config/users/" + user, true
	case ofClient && len(names) == 1:
		return "/config/clients/" + client, true
	}
	return "", false
}

// sanitize mirrors org.apache.kafka.common.utils.Sanitizer.sanitize, which is Java's URLEncoder with two changes.
func sanitize(name string) string {
	return strings.NewReplacer("+", "%20", "~", "%7E").Replace(url.QueryEscape(name))
}
