package cli

import "testing"

func TestCalledAs(t *testing.T) {
	for arg, want := range map[string]string{
		"moldau": "moldau", "bin/moldau": "bin/moldau", "/cache/go-build123/b001/exe/moldau": "go run ./cmd/moldau", "/a b/it's": `'/a b/it'\''s'`,
	} {
		if got := calledAs(arg); got != want {
			t.Errorf("%s is called as %s, want %s", arg, got, want)
		}
	}
}
