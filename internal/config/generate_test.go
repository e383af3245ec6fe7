package config

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write config/server.properties and docs/configuration.md anew")

func TestGeneratedFilesAreFresh(t *testing.T) {
	for path, want := range map[string]string{
		"../../config/server.properties": exampleFile(),
		"../../docs/configuration.md":    documentation(),
	} {
		if *update {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s is stale (%v): run `go test ./internal/config -update`", path, err)
		}
	}
}

// The example must start, and must not warn about itself.
func TestExampleFileLoads(t *testing.T) {
	config, warnings, err := Load(Source{File: "config/server.properties", Text: []byte(exampleFile())})
	if err != nil || len(warnings) > 0 {
		t.Fatalf("%v %v", err, warnings)
	}
	if a := config.Node().Network.Listeners[0].Address.String(); a != "127.0.0.1:9092" {
		t.Errorf("listens on %s", a)
	}
	var everything strings.Builder
	for line := range strings.Lines(exampleFile()) {
		if !strings.HasPrefix(line, "# ") {
			everything.WriteString(strings.TrimPrefix(strings.TrimLeft(line, "\n"), "#"))
		}
	}
	if _, warnings, err := Load(Source{File: "all uncommented", Text: []byte(everything.String())}); err != nil || len(warnings) > 0 {
		t.Errorf("the commented lines do not load: %v %v", err, warnings)
	}
}

// sections groups the rows as the table's files do.
func sections() []struct {
	title string
	rows  []Row
} {
	return []struct {
		title string
		rows  []Row
	}{
		{"The node", nodeRows}, {"Connections and requests", networkRows}, {"Logs on disk", logRows}, {"Only in moldau", ownRows},
		{"The metadata log", quorumRows}, {"Replication", replicationRows}, {"Idempotent producers and transactions", producerRows},
		{"Consumer groups", groupRows}, {"Share groups", shareRows}, {"Streams groups", streamsRows}, {"Quotas", quotaRows},
		{"Watching", metricsRows}, {"Security", securityRows}, {"Tiered storage", remoteRows},
	}
}

func exampleFile() string {
	set := map[string]string{
		"process.roles":             "broker,controller",
		"node.id":                   "1",
		"listeners":                 "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
		"controller.listener.names": "CONTROLLER",
		"log.dirs":                  "./data",
		"zookeeper.listeners":       "127.0.0.1:2181",
		// Kafka's default fits only as long as it is not written out: then the controller's listener needs its own entry.
		"listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
	}
	var b strings.Builder
	b.WriteString(`# Settings of a moldau node. Start it with
#     moldau serve config/server.properties
# The keys are Apache Kafka's. Lines that begin with # show defaults; a key without a value there has none.
# This file is generated: see docs/configuration.md for every key, also those that are accepted without effect.
`)
	for _, section := range sections() {
		if !slices.ContainsFunc(section.rows, exemplary) {
			continue
		}
		fmt.Fprintf(&b, "\n############################# %s #############################\n", section.title)
		for _, row := range section.rows {
			if !exemplary(row) {
				continue
			}
			b.WriteString("\n")
			for _, line := range wrap(row.Text, 116) {
				b.WriteString("# " + line + "\n")
			}
			if row.Check.Allowed != "" {
				b.WriteString("# Allowed: " + row.Check.Allowed + "\n")
			}
			switch raw, ok := set[row.Name]; {
			case ok:
				fmt.Fprintf(&b, "%s=%s\n", row.Name, raw)
			case row.Unset || row.Default == "":
				fmt.Fprintf(&b, "# %s=\n", row.Name)
			default:
				fmt.Fprintf(&b, "#%s=%s\n", row.Name, row.Default)
			}
		}
	}
	return b.String()
}

// exemplary rows stand in the example file; broker.id does not, because node.id does.
func exemplary(row Row) bool {
	return row.Standing == Used && !row.Hidden && row.Name != "broker.id" && row.Name != "log.dir"
}

func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return append(lines, line)
}

func documentation() string {
	var b strings.Builder
	b.WriteString(`# Configuration

Generated from the table in internal/config by ` + "`go test ./internal/config -update`" + `.

The keys are those of Apache Kafka 4.4, and a file written for Kafka starts here. All that is wrong with a configuration is
told at once, each with its place, key, value and what is allowed. A key that is nearly a real one is an error; one that
nobody knows is a warning.

## Where a value comes from

Later counts more. DescribeConfigs, and ` + "`moldau configs --describe --all`" + `, show every source of a key.

| source | how | as DescribeConfigs calls it |
|---|---|---|
| default | the tables below | DEFAULT_CONFIG |
| file | Java's properties format, ` + "`moldau serve server.properties`" + ` | STATIC_BROKER_CONFIG |
| environment | variables, see below | STATIC_BROKER_CONFIG |
| flags | ` + "`--override key=value`" + `, which may be repeated | STATIC_BROKER_CONFIG |
| dynamic, all brokers | ` + "`moldau configs --alter --broker-defaults --add-config …`" + ` | DYNAMIC_DEFAULT_BROKER_CONFIG |
| dynamic, one broker | ` + "`moldau configs --alter --broker 1 --add-config …`" + ` | DYNAMIC_BROKER_CONFIG |
| a topic's own | ` + "`moldau configs --alter --topic orders --add-config …`" + ` | DYNAMIC_TOPIC_CONFIG |
| a group's own | ` + "`moldau configs --alter --group audit --add-config …`" + ` | GROUP_CONFIG |

Dynamic settings lie in the metadata log, take effect at once and survive restarts. The column *dynamic* says which keys can
be set so: per broker, or for one broker or all. Any other is refused, as in Apache Kafka. A dynamic value takes the place of
those keys too that stand in for its own: log.retention.ms set so counts more than log.retention.minutes in the file. Listeners and their protocols are dynamic in name
only, as in Apache Kafka: a change is refused.
Two more kinds of resource are stored and described: client-metrics, and broker-loggers, of which there is one, ` + "`root`" + `;
its level lasts until the node stops, as in Apache Kafka.

## Environment

A variable sets a key if its name begins with ` + "`MOLDAU_`, `KAFKA_` or `KAFKA_CFG_`" + ` (Bitnami's). The rest is the key in
upper case with an underscore for each dot. Names of listeners may hold what else would be lost, and there Apache's image and
Confluent's differ. Both are read; which one is meant follows from the names in listeners.

| character | Apache's image (KIP-975) | Confluent's image |
|---|---|---|
| ` + "`.`" + ` | ` + "`_`" + ` | ` + "`_`" + ` |
| ` + "`_`" + ` | ` + "`__`" + ` | ` + "`___`" + ` |
| ` + "`-`" + ` | ` + "`___`" + ` | ` + "`__`" + ` |

So ` + "`KAFKA_LOG_RETENTION_HOURS=24`" + ` is log.retention.hours=24, and ` + "`KAFKA_LISTENER_NAME_SASL__A_MAX_CONNECTIONS=5`" + `
is listener.name.sasl_a.max.connections=5 where there is a listener SASL_A.

| variable | what it does |
|---|---|
| ` + "`CLUSTER_ID`, `KAFKA_KRAFT_CLUSTER_ID`" + ` | sets cluster.id |
| ` + "`KAFKA_LOG4J_ROOT_LOGLEVEL`" + ` | sets log.level |
`)
	for _, name := range slices.Sorted(maps.Keys(environmentOfImages)) {
		if why := environmentOfImages[name]; why != "" {
			fmt.Fprintf(&b, "| `%s` | nothing: %s |\n", name, cell(why))
		}
	}
	b.WriteString(`
Two variables that set one key to different values are an error, and so is a variable whose name is nearly a key's. What
Kubernetes and Docker set for a service called kafka or moldau, such as KAFKA_SERVICE_HOST or KAFKA_PORT=tcp://…, is left
alone.

## Files from before KRaft

A server.properties of Kafka 0.8 to 2.8 starts a node. What its keys mean here:

| key | meaning |
|---|---|
| ` + "`broker.id`" + ` | node.id. Missing or -1: reserved.broker.max.id (1000) plus the node's place in zookeeper.connect, from 1; with process.roles=broker and no place there, the next free number, which the controllers give once; once the node has data, the number in its meta.properties |
| ` + "`zookeeper.connect`" + ` | the nodes of the cluster, this one among them. Each finds itself by its host name, its addresses or its listeners. More than one form a cluster, in which each is broker and controller, with the controllers at port 9093 unless controller.listener.names says otherwise. Each serves ZooKeeper's protocol at its own port of the list, on the interface of its first listener. A path at the end is what clients write before every path of theirs |
| ` + "`zookeeper.listeners`" + ` | where to serve ZooKeeper's protocol instead; needed where several places of zookeeper.connect are on one machine |
| ` + "`port`, `host.name`, `advertised.port`, `advertised.host.name`" + ` | the listener, if listeners and advertised.listeners are not set |

A node that is in no place of zookeeper.connect joins those that are if it has process.roles=broker and a number of its own.
A zookeeper.connect that names a ZooKeeper somewhere else is an error: nodes keep what ZooKeeper kept.

`)
	for _, section := range sections() {
		rows := slices.DeleteFunc(slices.Clone(section.rows), func(r Row) bool { return r.Hidden || r.Standing != Used })
		if len(rows) == 0 {
			continue
		}
		fmt.Fprintf(&b, "## %s\n\n| key | type | default | allowed | dynamic | meaning |\n|---|---|---|---|---|---|\n", section.title)
		for _, r := range rows {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", r.Name, r.Type, defaultText(r), cell(r.Check.Allowed), dynamicText(r), cell(r.Text))
		}
		b.WriteString("\n")
	}
	b.WriteString(`## Topics

Set on a topic. Where a topic says nothing, the broker's key in the third column counts.

| key | type | broker's key | default | allowed | meaning |
|---|---|---|---|---|---|
`)
	for _, r := range topicRows {
		if r.Hidden || r.Standing != Used {
			continue
		}
		var links []string
		for _, link := range r.Synonyms {
			if !brokerByName[link.Name].Hidden {
				links = append(links, "`"+link.Name+"`")
			}
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", r.Name, r.Type, strings.Join(links, ", "), defaultText(r), cell(r.Check.Allowed), cell(r.Text))
	}
	b.WriteString(`
## Groups and metrics of clients

Set on a group, or on a subscription to metrics. They are checked, stored and described. Subscriptions are obeyed; the
groups that obey theirs are not served yet. The broker's keys of the same name with min and max bound a group's.

| key | type | broker's key | default | allowed | meaning |
|---|---|---|---|---|---|
`)
	for _, r := range slices.Concat(groupConfigRows, clientMetricsRows) {
		link := ""
		if len(r.Synonyms) > 0 {
			link = "`" + r.Synonyms[0].Name + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", r.Name, r.Type, link, defaultText(r), cell(r.Check.Allowed), cell(r.Text))
	}
	b.WriteString(`
## Accepted without effect

Setting one of these to anything but its default is allowed, and a line at the start says that it has no effect.

| key | meaning | why it has no effect |
|---|---|---|
`)
	for _, r := range slices.Concat(brokerRows, topicRows) {
		if r.Hidden || r.Standing != Later && r.Standing != Inert {
			continue
		}
		why := r.Why
		if r.Standing == Later {
			why = "not served yet: " + why
		}
		fmt.Fprintf(&b, "| `%s`%s | %s | %s |\n", r.Name, scopeText(r), cell(r.Text), cell(why))
	}
	b.WriteString(`
## Refused

Ignoring these would do harm, so any value but the default is an error. Listeners with SSL or SASL are refused too.

| key | meaning | why it is refused |
|---|---|---|
`)
	for _, r := range slices.Concat(brokerRows, topicRows) {
		if r.Standing == Refused {
			fmt.Fprintf(&b, "| `%s`%s | %s | %s |\n", r.Name, scopeText(r), cell(r.Text), cell(r.Why))
		}
	}
	b.WriteString(`
## Dropped by Kafka

Still accepted. Those of the first group keep their meaning.

| key | meaning, or why it has no effect |
|---|---|
`)
	for _, r := range removedRows {
		fmt.Fprintf(&b, "| `%s` | %s |\n", r.Name, cell(r.Text+r.Why))
	}
	return b.String()
}

func scopeText(r Row) string {
	if r.Scope == TopicScope {
		return " (topic)"
	}
	return ""
}

func dynamicText(r Row) string {
	return map[Dynamic]string{ReadOnly: "", PerBroker: "per broker", ClusterWide: "yes"}[r.Dynamic]
}

func defaultText(r Row) string {
	switch {
	case r.Unset:
		return ""
	case r.Default == "":
		return "empty"
	default:
		return "`" + r.Default + "`"
	}
}

func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
