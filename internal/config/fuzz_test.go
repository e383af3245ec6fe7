package config

import (
	"testing"

	"github.com/magiconair/properties"
)

// Cutting a file into logical lines must not change what it says, and no text may bring Load down.
func FuzzProperties(f *testing.F) {
	for _, seed := range []string{
		"a=b\nc : d\ne f\n#x\\\ng=h\n", "a=b\\\n  c\\\r\n\td\n", "a\\\\\nb=\\\\\\\nc", "!a\na\\=b=c\\u0041\n\n \\\n", "\xef\xbb\xbfnode.id=1", "=\n", noFile,
		"listeners=A://[::1]:0,B://:1\nnode.id=1\nbroker.id=2\nmax.connections.per.ip.overrides=a:1,::1:2\ncontroller.quorum.voters=1@a:1",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		_, _, _ = Load(Source{File: "f", Text: text})
		whole, err := (&properties.Loader{Encoding: properties.UTF8, DisableExpansion: true}).LoadBytes(unixLines(text))
		settings, faults := readProperties("f", text)
		if err != nil || len(faults) > 0 {
			return
		}
		settings, _ = latest(settings)
		if len(settings) != whole.Len() {
			t.Fatalf("%d settings, the library finds %d: %v %v", len(settings), whole.Len(), settings, whole)
		}
		for _, s := range settings {
			if raw, ok := whole.Get(s.key); !ok || raw != s.raw {
				t.Errorf("line %d: %q=%q, the library finds %q", s.line, s.key, s.raw, raw)
			}
		}
	})
}
