package cli

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"moldau/internal/zkconsumer"
)

var update = flag.Bool("update", false, "write config/producer.properties and config/consumer.properties anew")

func TestClientFilesAreFresh(t *testing.T) {
	for path, want := range map[string]string{
		"../../config/producer.properties": clientFile("producer", producerOnly),
		"../../config/consumer.properties": clientFile("consumer", consumerOnly),
	} {
		if *update {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s is stale (%v): run `go test ./internal/cli -run ClientFiles -update`", path, err)
		}
	}
}

func clientFile(name string, role clientRole) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Settings of a %[1]s, for the tools of moldau and for other clients:
#     moldau console-%[1]s --command-config config/%[1]s.properties --topic orders
# The keys are Apache Kafka's. Lines that begin with # and no space show defaults; a key without a value there has none.
# This file is generated.
`, name)
	section := func(title string, elsewhere bool) {
		fmt.Fprintf(&b, "\n############################# %s #############################\n", title)
		for _, k := range clientKeys {
			if k.of != everyClient && k.of != role || k.elsewhere != elsewhere {
				continue
			}
			fmt.Fprintf(&b, "\n# %s\n", k.text)
			switch {
			case k.name == "bootstrap.servers":
				fmt.Fprintf(&b, "%s=%s\n", k.name, k.value)
			case k.value == "":
				fmt.Fprintf(&b, "# %s=\n", k.name)
			default:
				fmt.Fprintf(&b, "#%s=%s\n", k.name, k.value)
			}
		}
	}
	section("What the tools obey", false)
	section("For other clients; the tools take it and have no use for it", true)
	if role == consumerOnly {
		b.WriteString("\n############################# With --zookeeper #############################\n\n" +
			"# Keys above that count there, too: group.id, client.id, auto.offset.reset, exclude.internal.topics, fetch.min.bytes,\n" +
			"# auto.commit.interval.ms (60000 unless set), partition.assignment.strategy (range or roundrobin).\n")
		for _, k := range zkconsumer.Keys() {
			if k.Idle || slices.ContainsFunc(clientKeys, func(c clientKey) bool { return c.name == k.Name }) {
				continue
			}
			fmt.Fprintf(&b, "\n# %s\n", k.Text)
			if k.Default == "" {
				fmt.Fprintf(&b, "# %s=\n", k.Name)
			} else {
				fmt.Fprintf(&b, "#%s=%s\n", k.Name, k.Default)
			}
		}
	}
	return b.String()
}

// Each tool takes its file, every line of it, without a warning.
func TestClientFilesAreTaken(t *testing.T) {
	for _, file := range []string{"producer", "consumer"} {
		text, err := os.ReadFile("../../config/" + file + ".properties")
		if err != nil {
			t.Fatal(err)
		}
		var all strings.Builder
		for line := range strings.Lines(string(text)) {
			if !strings.HasPrefix(line, "# ") {
				all.WriteString(strings.TrimPrefix(line, "#"))
			}
		}
		path := filepath.Join(t.TempDir(), file)
		if err := os.WriteFile(path, []byte(all.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		var warnings strings.Builder
		a := &app{stderr: &warnings}
		config, err := a.javaConfig(&clusterFlags{configFile: path})
		if err != nil || warnings.Len() > 0 || config.bootstrap != "localhost:9092" || len(config.values) < 25 {
			t.Errorf("%s: %v %s, %d keys, at %q", file, err, warnings.String(), len(config.values), config.bootstrap)
		}
		if _, err := config.groupOpts("g"); file == "consumer" && err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// A key that the tools are said to obey is read by them, and one that they are said not to is not.
func TestClientKeysAreTrue(t *testing.T) {
	read := map[string]bool{"compression.gzip.level": true, "compression.lz4.level": true, "compression.zstd.level": true} // put together in producer
	take := func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			s, _ := strconv.Unquote(literal.Value)
			read[s] = true
		}
		return true
	}
	for _, file := range []string{"java_config.go", "console_consumer.go"} {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Recv != nil && (n.Name.Name == "apply" || n.Name.Name == "producer" || n.Name.Name == "groupOpts") {
					ast.Inspect(n, take)
				}
			case *ast.CallExpr:
				if method, ok := n.Fun.(*ast.SelectorExpr); ok && method.Sel.Name == "has" {
					ast.Inspect(n, take)
				}
			}
			return true
		})
	}
	for _, k := range clientKeys {
		if k.elsewhere == read[k.name] {
			t.Errorf("%s: said to be for other clients: %t, read here: %t", k.name, k.elsewhere, read[k.name])
		}
		if !strings.HasSuffix(k.text, ".") && !strings.HasSuffix(k.text, ",") {
			t.Errorf("%s: %q is no sentence", k.name, k.text)
		}
	}
	names := make([]string, len(clientKeys))
	for i, k := range clientKeys {
		names[i] = k.name
	}
	slices.Sort(names)
	if len(slices.Compact(names)) != len(clientKeys) {
		t.Error("a key stands twice")
	}
}
