package tidy

import (
	"sort"
	"strconv"
	"strings"
	"testing"
)

// TestPackageComments: every package has one comment, attached to its clause in doc.go (main packages: in any file).
func TestPackageComments(t *testing.T) {
	src := load(t)
	comments := make(map[string][]string)
	for _, f := range src.files {
		if f.test {
			if f.ast.Doc != nil && strings.HasPrefix(f.ast.Doc.Text(), "Package ") {
				t.Errorf("%s: a package comment belongs into doc.go, not into a test", f.path)
			}
			continue
		}
		if _, ok := comments[f.dir]; !ok {
			comments[f.dir] = nil
		}
		if f.ast.Doc == nil {
			continue
		}
		comments[f.dir] = append(comments[f.dir], f.path)
		name := f.ast.Name.Name
		switch {
		case name == "main":
			if !strings.HasPrefix(f.ast.Doc.Text(), "Command ") {
				t.Errorf("%s: the comment of a command starts with \"Command\"", f.path)
			}
		case !strings.HasSuffix(f.path, "/doc.go"):
			t.Errorf("%s: the package comment belongs into doc.go", f.path)
		case !strings.HasPrefix(f.ast.Doc.Text(), "Package "+name+" "):
			t.Errorf("%s: the package comment starts with \"Package %s\"", f.path, name)
		}
	}
	for _, dir := range sortedKeys(comments) {
		if len(comments[dir]) != 1 {
			t.Errorf("%s has %d package comments, want 1: %v", dir, len(comments[dir]), comments[dir])
		}
	}
}

// TestImportTable: no package of ours imports one that ARCHITECTURE.md does not allow it.
func TestImportTable(t *testing.T) {
	allowed := importTable(t)
	src := load(t)
	seen := make(map[string]bool)
	for _, f := range src.files {
		name, ours := strings.CutPrefix(f.dir, "internal/")
		if !ours {
			continue
		}
		seen[name] = true
		may, listed := allowed[name]
		if !listed {
			t.Errorf("%s: package %s is not in the import table of ARCHITECTURE.md", f.path, name)
			continue
		}
		if f.test {
			continue // a test may look further; cycles are the compiler's to find
		}
		for _, spec := range f.ast.Imports {
			path, _ := strconv.Unquote(spec.Path.Value)
			target, ours := strings.CutPrefix(path, "moldau/internal/")
			if ours && !may[target] {
				t.Errorf("%s: %s may not import %s; if that is right, change the table in ARCHITECTURE.md and say why", src.at(spec), name, target)
			}
		}
	}
	for _, name := range sortedKeys(allowed) {
		if !seen[name] {
			t.Errorf("ARCHITECTURE.md lists package %s, which does not exist", name)
		}
	}
}

func importTable(t *testing.T) map[string]map[string]bool {
	t.Helper()
	_, rest, found := strings.Cut(read(t, "ARCHITECTURE.md"), "```imports\n")
	block, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatal("ARCHITECTURE.md has no ```imports block")
	}
	table := make(map[string]map[string]bool)
	for line := range strings.Lines(block) {
		name, list, ok := strings.Cut(strings.TrimSpace(line), ":")
		if !ok {
			t.Fatalf("import table: %q has no colon", line)
		}
		table[name] = make(map[string]bool)
		for _, target := range strings.Fields(list) {
			table[name][target] = true
		}
	}
	return table
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
