package tidy

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// A ban is a call that has one right place.
type ban struct {
	pkg     string         // import path
	names   *regexp.Regexp // of the functions and values
	except  *regexp.Regexp // paths where it is right
	tests   bool           // holds for tests too
	instead string
}

var bans = []ban{
	{"os", regexp.MustCompile(`.`), regexp.MustCompile(`^(internal/(vfs|cli|sim|node/build)|cmd/|test/)`), false, "the vfs seam"},
	{"net", regexp.MustCompile(`^(Dial(er|TCP|UDP|Unix|IP|Timeout)?|Listen(TCP|UDP|Unix|IP|Packet|MulticastUDP|Config)?)$`), regexp.MustCompile(`^(internal/(cli|node/build)|test/)`), false, "the listen and dial functions that node is given"},
	{"time", regexp.MustCompile(`^(Now|Since|Until)$`), regexp.MustCompile(`^(internal/(vfs|cli|sim|node/build)|cmd/|test/)`), false, "the now function that node is given"},
	{"math/rand", regexp.MustCompile(`.`), nil, true, "crypto/rand, or math/rand/v2 with a seed"},
	{"math/rand/v2", regexp.MustCompile(`^(N|Int|IntN|Int32|Int32N|Int64|Int64N|Uint\w*|Float\w*|Perm|Shuffle|NormFloat64|ExpFloat64)$`), nil, true, "a generator with a seed"},
	{"log", regexp.MustCompile(`.`), nil, true, "log/slog"},
}

// TestBannedCalls: what reaches the outside goes through a seam.
func TestBannedCalls(t *testing.T) {
	src := load(t)
	for _, f := range src.files {
		imported := importNames(f.ast)
		ast.Inspect(f.ast, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			x, ok := sel.X.(*ast.Ident)
			if !ok {
				return true
			}
			for _, b := range bans {
				if imported[x.Name] != b.pkg || !b.names.MatchString(sel.Sel.Name) || f.test && !b.tests ||
					b.except != nil && b.except.MatchString(f.path) {
					continue
				}
				t.Errorf("%s: %s.%s is banned here; use %s", src.at(sel), x.Name, sel.Sel.Name, b.instead)
			}
			return true
		})
	}
}

// TestNoSleepOnRealTime: a test that sleeps outside a synctest bubble is slow on a fast machine and wrong on a slow one.
func TestNoSleepOnRealTime(t *testing.T) {
	src := load(t)
	bubbles := make(map[string]bool) // folders whose tests run in bubbles
	for _, f := range src.files {
		bubbles[f.dir] = bubbles[f.dir] || f.test && importNames(f.ast)["synctest"] != ""
	}
	for _, f := range src.files {
		if !f.test || !strings.HasPrefix(f.dir, "internal/") || bubbles[f.dir] {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "Sleep" {
				if x, ok := sel.X.(*ast.Ident); ok && x.Name == "time" {
					t.Errorf("%s: time.Sleep in a test; wait for the event, or use testing/synctest", src.at(sel))
				}
			}
			return true
		})
	}
}

// TestOnlyInvariantPanics: a panic is a broken program, and invariant.Check names what broke.
func TestOnlyInvariantPanics(t *testing.T) {
	src := load(t)
	for _, f := range src.files {
		if f.test || f.dir == "internal/invariant" || f.dir == "internal/xsync" {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if name, ok := call.Fun.(*ast.Ident); ok && name.Name == "panic" {
					t.Errorf("%s: panic; use invariant.Check for a bug, an error for everything else", src.at(call))
				}
			}
			return true
		})
	}
}

// TestNoPackageState: several nodes run in one process, so a package has constants, tables and errors, and no state.
func TestNoPackageState(t *testing.T) {
	src := load(t)
	for _, f := range src.files {
		if f.test || !strings.HasPrefix(f.dir, "internal/") {
			continue
		}
		for _, decl := range f.ast.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				if decl.Recv == nil && decl.Name.Name == "init" {
					t.Errorf("%s: init; build it where it is used, or make it a table", src.at(decl))
				}
			case *ast.GenDecl:
				if decl.Tok != token.VAR {
					continue
				}
				for _, spec := range decl.Specs {
					value := spec.(*ast.ValueSpec)
					if len(value.Values) == 0 {
						t.Errorf("%s: package variable %s starts empty, so something fills it later; make it a field of its owner", src.at(value), value.Names[0].Name)
					}
				}
			}
		}
	}
}

// TestTodosHaveAnIssue: a gap that is worth a remark is worth a number.
func TestTodosHaveAnIssue(t *testing.T) {
	src := load(t)
	gap := regexp.MustCompile(`\b(TODO|FIXME|XXX)\b`)
	numbered := regexp.MustCompile(`\bTODO\(#\d+\)`)
	for _, f := range src.files {
		if f.dir == "internal/tidy" {
			continue
		}
		for _, group := range f.ast.Comments {
			for _, c := range group.List {
				if gap.MatchString(c.Text) && !numbered.MatchString(c.Text) {
					t.Errorf("%s: a TODO without an issue number: TODO(#123)", src.at(c))
				}
			}
		}
	}
}

// importNames maps the name under which a file knows a package to its path.
func importNames(f *ast.File) map[string]string {
	names := make(map[string]string)
	for _, spec := range f.Imports {
		path, _ := strconv.Unquote(spec.Path.Value)
		name := path[strings.LastIndex(path, "/")+1:]
		if regexp.MustCompile(`^v\d+$`).MatchString(name) {
			parts := strings.Split(path, "/")
			name = parts[len(parts)-2]
		}
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = path
	}
	return names
}
