package tidy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
)

// root is the repository's top folder, seen from this package's.
const root = "../.."

// file is one parsed Go file.
type file struct {
	path string // from the root, with slashes
	dir  string
	test bool
	ast  *ast.File
}

type source struct {
	fset  *token.FileSet
	files []file
}

// load parses every Go file of the module.
func load(t *testing.T) source {
	t.Helper()
	src := source{fset: token.NewFileSet()}
	for _, path := range walk(t, ".go") {
		parsed, err := parser.ParseFile(src.fset, filepath.Join(root, path), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		src.files = append(src.files, file{
			path: path,
			dir:  filepath.ToSlash(filepath.Dir(path)),
			test: strings.HasSuffix(path, "_test.go"),
			ast:  parsed,
		})
	}
	return src
}

// walk lists the files with the given ending, sorted.
func walk(t *testing.T, ending string) []string {
	t.Helper()
	var paths []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "data" || name == "node_modules" || name == "testdata") {
			return filepath.SkipDir
		}
		if !d.IsDir() && strings.HasSuffix(name, ending) {
			rel, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			paths = append(paths, filepath.ToSlash(rel))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	sort.Strings(paths)
	return paths
}

// at tells where n is, as path:line.
func (s source) at(n ast.Node) token.Position {
	p := s.fset.Position(n.Pos())
	if rel, err := filepath.Rel(root, p.Filename); err == nil {
		p.Filename = filepath.ToSlash(rel)
	}
	p.Column = 0
	return p
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
