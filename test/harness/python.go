package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Python returns the interpreter of a virtual environment with the given packages ("name==version"), made once by pip.
func Python(t T, packages ...string) string {
	t.Helper()
	python := Tool(t, "python3", "install Python 3.11 or newer")
	interpreter, err := fetchPython(python, packages)
	if errors.Is(err, errNoVenv) {
		Missing(t, "%v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return interpreter
}

var errNoVenv = errors.New("python3 -m venv does not work: install python3-venv")

func fetchPython(python string, packages []string) (string, error) {
	base, err := cacheDir()
	if err != nil {
		return "", err
	}
	name := strings.NewReplacer("=", "", "/", "", " ", "").Replace(strings.Join(packages, "+"))
	dir := filepath.Join(base, "python-"+name)
	interpreter := filepath.Join(dir, "bin", "python")
	if _, err := os.Stat(filepath.Join(dir, "complete")); err == nil {
		return interpreter, nil
	}
	if out, err := exec.Command(python, "-m", "venv", dir).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %w\n%s", errNoVenv, err, out)
	}
	args := append([]string{"-m", "pip", "-q", "--disable-pip-version-check", "install"}, packages...)
	if out, err := exec.Command(interpreter, args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("pip install %v: %w\n%s", packages, err, out)
	}
	return interpreter, os.WriteFile(filepath.Join(dir, "complete"), nil, 0o644)
}

// RunPython runs a program text and returns its standard output; it fails the test on a status other than 0.
func RunPython(t T, interpreter, program string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, interpreter, append([]string{"-c", program}, args...)...)
	cmd.SysProcAttr = deathSignal()
	out, err := Output(cmd, "")
	if err != nil {
		t.Fatal(fmt.Errorf("python: %w\n%s", err, out))
	}
	return out
}
