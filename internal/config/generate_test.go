package config

import (
	"flag"
	"fmt"
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

A node reads a file in Java's properties format, ` + "`moldau serve server.properties`" + `, and then each
` + "`--override key=value`" + ` of the command line. The keys are those of Apache Kafka 4.4, and a file written for Kafka
starts here. All that is wrong with a file is told at once, with line, key, value and what is allowed. A key that is nearly
a real one is an error; one that nobody knows is a warning.

`)
	for _, section := range sections() {
		rows := slices.DeleteFunc(slices.Clone(section.rows), func(r Row) bool { return r.Hidden || r.Standing != Used })
		if len(rows) == 0 {
			continue
		}
		fmt.Fprintf(&b, "## %s\n\n| key | type | default | allowed | meaning |\n|---|---|---|---|---|\n", section.title)
		for _, r := range rows {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", r.Name, r.Type, defaultText(r), cell(r.Check.Allowed), cell(r.Text))
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
