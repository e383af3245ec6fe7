package config

import (
	"bufio"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Every row must be complete, and its own default must pass its own check.
func TestRowsAreComplete(t *testing.T) {
	seen := map[string]bool{}
	for _, scope := range []Scope{BrokerScope, TopicScope, GroupScope, ClientMetricsScope} {
		for _, row := range Rows(scope) {
			id := strconv.Itoa(int(scope)) + row.Name
			if seen[id] {
				t.Errorf("%s is declared twice", row.Name)
			}
			seen[id] = true
			if row.Type.String() == "unknown" {
				t.Errorf("%s has no type", row.Name)
			}
			if !row.Unset {
				if _, want := row.parse(row.Default); want != "" {
					t.Errorf("default %s=%s fails: want %s", row.Name, row.Default, want)
				}
			}
			if row.Unset && row.Default != "" {
				t.Errorf("%s has a default and none", row.Name)
			}
			if (row.Standing == Used) != (row.Why == "") {
				t.Errorf("%s: Why is for keys without effect, and needed there", row.Name)
			}
			if row.Standing != Removed && !strings.HasSuffix(row.Text, ".") {
				t.Errorf("%s: text %q is no sentence", row.Name, row.Text)
			}
			for _, link := range row.Synonyms {
				other, ok := brokerByName[link.Name]
				if !ok || scope == BrokerScope {
					t.Errorf("%s: synonym %s is no key of brokers", row.Name, link.Name)
					continue
				}
				if row.Type == Int || row.Type == Long {
					v, _ := other.parse(other.Default)
					if own, _ := row.parse(row.Default); !other.Unset && times(v.number, link.Factor) != own.number {
						t.Errorf("%s=%s, but its synonym %s=%s", row.Name, row.Default, link.Name, other.Default)
					}
				}
			}
		}
	}
}

// Whatever a broker of Kafka 0.8.2 to 2.8 could be set to is known here, so that a file of that age is told what each of its lines does.
func TestOldKeysAreKnown(t *testing.T) {
	text, err := os.ReadFile("testdata/kafka-before-4.txt")
	if err != nil {
		t.Fatal(err)
	}
	for key := range strings.FieldsSeq(string(text)) {
		if _, known := brokerRow(key); !known {
			t.Errorf("%s is not known", key)
		}
	}
}

// The table against Apache Kafka's own. A difference is either a mistake or stands here with its reason.
func TestTableAgreesWithKafka(t *testing.T) {
	different := map[string]string{
		"node.id":                   "1, so that a file may leave it out",
		"process.roles":             "both roles, so that a file from before KRaft starts",
		"controller.listener.names": "CONTROLLER, for the same reason",
		"log.dir":                   "a temporary folder is no place for records",
		"internal.segment.bytes":    "has no null here",
	}
	own := map[string]bool{}
	for _, row := range ownRows {
		own[row.Name] = true
	}
	// Known to Kafka, but outside the definition that the facts were read from (DynamicConfig, StandardAuthorizer).
	for _, name := range []string{"leader.replication.throttled.rate", "follower.replication.throttled.rate",
		"replica.alter.log.dirs.io.max.bytes.per.second", "super.users", "allow.everyone.if.no.acl.found"} {
		own[name] = true
	}
	modes := map[string]Dynamic{"read-only": ReadOnly, "per-broker": PerBroker, "cluster-wide": ClusterWide}
	kafka := map[string]bool{}
	f, err := os.Open("testdata/kafka-4.4.tsv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		fact := strings.Split(lines.Text(), "\t")
		scope, name, kind, def, mode := fact[0], fact[1], fact[2], fact[3], fact[4]
		row, ok := map[string]map[string]*Row{"broker": brokerByName, "topic": topicByName, "group": groupByName, "metrics": metricByName}[scope][name]
		kafka[scope+name] = true
		if !ok {
			t.Errorf("%s key %s has no row", scope, name)
			continue
		}
		if row.Type.String() != kind {
			t.Errorf("%s key %s is %s, Kafka's is %s", scope, name, row.Type, kind)
		}
		if row.Unset != (def == "<null>") && different[name] == "" {
			t.Errorf("%s key %s: unset=%v, Kafka's default is %s", scope, name, row.Unset, def)
		}
		if !row.Unset && row.Default != def && different[name] == "" {
			t.Errorf("%s key %s is %s by default, Kafka's %s", scope, name, row.Default, def)
		}
		if scope == "broker" && row.Dynamic != modes[mode] {
			t.Errorf("%s changes in another way than Kafka's: %s", name, mode)
		}
	}
	for _, row := range brokerRows {
		if row.Standing != Removed && !kafka["broker"+row.Name] && !own[row.Name] && !slices.ContainsFunc(removedRows, func(r Row) bool { return r.Name == row.Name }) {
			t.Errorf("%s is unknown to Kafka and not listed as our own", row.Name)
		}
	}
	for _, scope := range []struct {
		name string
		of   Scope
	}{{"group", GroupScope}, {"metrics", ClientMetricsScope}} {
		for _, row := range Rows(scope.of) {
			if !kafka[scope.name+row.Name] {
				t.Errorf("%s is no setting of Kafka's %ss", row.Name, scope.name)
			}
		}
	}
	if len(kafka) < 400 {
		t.Errorf("only %d facts were read", len(kafka))
	}
}

// A row that claims to be used must be read by the code, and one that claims to have no effect must not be: either would
// be a lie to whoever sets it.
func TestStandingsAreTrue(t *testing.T) {
	read := map[string]bool{}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasPrefix(file, "table") || strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				s, _ := strconv.Unquote(literal.Value)
				read[s] = true
			}
			return true
		})
	}
	// Read for the checks that keep a file from starting here that would not start elsewhere, or for a struct that is
	// complete ahead of the feature.
	ahead := []string{"log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms",
		"delete.retention.ms", "min.compaction.lag.ms", "max.compaction.lag.ms", "min.cleanable.dirty.ratio"}
	for _, row := range topicRows {
		for _, link := range row.Synonyms {
			if row.Standing == Used {
				read[link.Name] = read[link.Name] || read[row.Name]
			}
		}
	}
	for _, row := range slices.Concat(Rows(BrokerScope), Rows(TopicScope), Rows(GroupScope), Rows(ClientMetricsScope)) {
		switch used := row.Standing == Used; {
		case used && !read[row.Name]:
			t.Errorf("%s is said to be used, but nothing reads it", row.Name)
		case !used && read[row.Name] && !slices.Contains(ahead, row.Name):
			t.Errorf("%s is said to have no effect, but something reads it", row.Name)
		}
	}
}
