package kafka

import "testing"

func TestUUIDText(t *testing.T) {
	for _, id := range []UUID{{}, DirLost, DirMigrating, NewUUID()} {
		s := id.String()
		if len(s) != 22 {
			t.Errorf("%q has %d characters, want 22", s, len(s))
		}
		back, err := ParseUUID(s)
		if err != nil || back != id {
			t.Errorf("ParseUUID(%q) = %v, %v", s, back, err)
		}
	}
	// The text of Uuid.ONE_UUID as Apache Kafka prints it.
	if got := DirLost.String(); got != "AAAAAAAAAAAAAAAAAAAAAQ" {
		t.Errorf("DirLost prints as %q", got)
	}
	for _, bad := range []string{"", "short", "AAAAAAAAAAAAAAAAAAAAAQ==", "AAAAAAAAAAAAAAAAAAAAA+"} {
		if _, err := ParseUUID(bad); err == nil {
			t.Errorf("ParseUUID(%q) took it", bad)
		}
	}
}

func TestNewUUIDNeverStartsWithDash(t *testing.T) {
	seen := map[UUID]bool{}
	for range 2000 {
		id := NewUUID()
		if id.String()[0] == '-' || id.IsZero() || seen[id] {
			t.Fatalf("bad id %v", id)
		}
		seen[id] = true
	}
}
