package config

import (
	"slices"
	"strings"
	"sync"
)

// brokerRows is every key that may stand in a node's file, grouped by subject in the order of the documents.
var brokerRows = slices.Concat(nodeRows, networkRows, logRows, ownRows, quorumRows, replicationRows, producerRows,
	groupRows, shareRows, streamsRows, quotaRows, metricsRows, securityRows, remoteRows, removedRows)

var (
	brokerByName = index(brokerRows, BrokerScope)
	topicByName  = index(topicRows, TopicScope)
	groupByName  = index(groupConfigRows, GroupScope)
	metricByName = index(clientMetricsRows, ClientMetricsScope)
)

func index(rows []Row, scope Scope) map[string]*Row {
	byName := make(map[string]*Row, len(rows))
	for i := range rows {
		rows[i].Scope = scope
		byName[rows[i].Name] = &rows[i]
	}
	return byName
}

// Rows returns the declarations of one scope, sorted by name.
func Rows(scope Scope) []Row { return slices.Clone(sorted()[scope]) }

var sorted = sync.OnceValue(func() map[Scope][]Row {
	rows := map[Scope][]Row{BrokerScope: brokerRows, TopicScope: topicRows, GroupScope: groupConfigRows, ClientMetricsScope: clientMetricsRows}
	for scope := range rows {
		rows[scope] = slices.SortedFunc(slices.Values(rows[scope]), func(a, b Row) int { return strings.Compare(a.Name, b.Name) })
	}
	return rows
})

// listenerPrefix begins keys that hold for one listener.
const listenerPrefix = "listener.name."

// brokerRow finds the declaration of a key of a node's file. A key may carry the prefix of a listener
// (listener.name.internal.ssl.keystore.location, KIP-103) and of a SASL mechanism (…plain.sasl.jaas.config, KIP-85).
func brokerRow(key string) (*Row, bool) {
	if row, ok := brokerByName[key]; ok {
		return row, true
	}
	rest, ok := strings.CutPrefix(key, listenerPrefix)
	if !ok {
		return nil, false
	}
	_, rest, ok = strings.Cut(rest, ".")
	if !ok {
		return nil, false
	}
	if row, ok := brokerByName[rest]; ok {
		return row, true
	}
	_, rest, ok = strings.Cut(rest, ".")
	if row, found := brokerByName[rest]; ok && found && (strings.HasPrefix(rest, "sasl.") || strings.HasPrefix(rest, "connections.max.reauth")) {
		return row, true
	}
	return nil, false
}

// pluginPrefixes begin keys that Kafka hands to Java classes. Nobody but the class knows which keys exist.
var pluginPrefixes = []string{"config.providers.", "rsm.config.", "rlmm.config.", "metrics.context."}
