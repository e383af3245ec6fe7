package vfs

import (
	"math/rand/v2"
	"testing"
)

// TestSurvivorsDiffer: each disk once, the kill first, and every way in which two unsynced things can survive.
func TestSurvivorsDiffer(t *testing.T) {
	m := NewMem()
	write := func(path, content string) {
		f, err := m.Open(path, Create|Write)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte(content), 0); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	survivors := func() (all []string) {
		seen := map[string]bool{}
		for how, disk := range m.Survivors(rand.New(rand.NewPCG(1, 1)), 100) {
			text := ""
			for _, name := range []string{"/a", "/b"} {
				if content, err := ReadFile(disk, name); err == nil {
					text += name + "=" + string(content) + " "
				}
			}
			if seen[text] {
				t.Errorf("%s: %q comes twice", how, text)
			}
			seen[text] = true
			all = append(all, text)
		}
		return all
	}
	write("/a", "x")
	write("/b", "y")
	if err := m.SyncFS("/"); err != nil {
		t.Fatal(err)
	}
	if got := survivors(); len(got) != 1 || got[0] != "/a=x /b=y " {
		t.Errorf("of a synced disk survive %q", got)
	}
	write("/a", "z")
	if err := m.Remove("/b"); err != nil {
		t.Fatal(err)
	}
	if got := survivors(); len(got) != 4 || got[0] != "/a=z " {
		t.Errorf("a write and a removal survive as %q", got)
	}
}
