package harness

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Packages is a folder of packages of npm, and the node that runs programs with them.
type Packages struct {
	node, dir string
}

// NodePackages returns a folder with the given packages ("name@version"), filled once by npm without running their scripts.
func NodePackages(t T, packages ...string) Packages {
	t.Helper()
	p := Packages{node: Tool(t, "node", "install Node.js 20 or newer")}
	npm := Tool(t, "npm", "install npm")
	base, err := cacheDir()
	if err != nil {
		t.Fatal(err)
	}
	name := strings.NewReplacer("@", "", "/", "-", " ", "").Replace(strings.Join(packages, "+"))
	p.dir = filepath.Join(base, "node-"+name)
	complete := filepath.Join(p.dir, "complete")
	if _, err := os.Stat(complete); err == nil {
		return p
	}
	if err := os.MkdirAll(p.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	// Without a package.json npm would install into the nearest folder above that has one.
	if err := os.WriteFile(filepath.Join(p.dir, "package.json"), []byte("{\"private\": true}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"install", "--no-audit", "--no-fund", "--ignore-scripts"}, packages...)
	cmd := exec.Command(npm, args...)
	cmd.Dir = p.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("npm install %v: %v\n%s", packages, err, out)
	}
	if err := os.WriteFile(complete, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return p
}

// Run runs a program text (an ECMAScript module) and returns its standard output; it fails the test on a status other than 0.
func (p Packages) Run(t T, program string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.node, append([]string{"--input-type=module", "--eval", program, "--"}, args...)...)
	cmd.Dir = p.dir // where imports are looked up
	cmd.SysProcAttr = deathSignal()
	out, err := Output(cmd, "")
	if err != nil {
		t.Fatal(fmt.Errorf("node: %w\n%s", err, out))
	}
	return out
}
