package cli

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func TestTail(t *testing.T) {
	c := startCluster(t)
	c.want(t, "Created topic t.\n", "", "topics", "--create", "--topic", "t", "--partitions", "2")
	c.want(t, "", "h:1\ta\tone\nh:1\tb\ttwo\x1b[2J\nh:1\ta\tthree\n", "console-producer", "--topic", "t", "--partition", "1", "--property", "parse.key=true", "--property", "parse.headers=true")
	stamp := regexp.MustCompile(`\d\d:\d\d:\d\d\.\d{3}`)
	for _, look := range []struct{ args, want string }{
		{"t --max-messages 3", "T 1:0 a h=1 one\nT 1:1 b h=1 two\\x1b[2J\nT 1:2 a h=1 three\n"},
		{"t -n 2 --max-messages 2", "T 1:1 b h=1 two\\x1b[2J\nT 1:2 a h=1 three\n"},
		{"t --key a --from-beginning --max-messages 2", "T 1:0 a h=1 one\nT 1:2 a h=1 three\n"},
		{"t --grep ^t.r --since 1h --max-messages 1", "T 1:2 a h=1 three\n"},
		{"t -p 1 --grep hre --color always --max-messages 1", "\x1b[2mT\x1b[0m \x1b[36m1:2\x1b[0m \x1b[33ma\x1b[0m \x1b[35mh=1\x1b[0m t\x1b[31mhre\x1b[0me\n"},
	} {
		code, out, errs := c.run("", "tail", strings.Fields(look.args)...)
		if got := stamp.ReplaceAllString(out, "T"); code != exitOK || got != look.want {
			t.Errorf("%s: exit code %d\n%q\nwant\n%q\n%s", look.args, code, got, look.want, errs)
		}
	}
	if _, out, _ := c.run("", "tail", "t", "-n", "1", "--max-messages", "1", "--output", "json"); !strings.Contains(out, `"key":"a","value":"three"`) {
		t.Error(out)
	}
	c.fails(t, exitFailure, `topic "none" does not exist; `, "tail", "none")
	c.fails(t, exitFailure, "has no partition 5", "tail", "t", "--partition", "5")
	c.fails(t, exitUsage, "accepts 1 arg", "tail")
	c.fails(t, exitUsage, "--since soon: want", "tail", "t", "--since", "soon")
	c.fails(t, exitUsage, "exclude each other", "tail", "t", "--since", "1h", "-n", "1")
	c.fails(t, exitUsage, "--grep: error parsing", "tail", "t", "--grep", "(")
	c.fails(t, exitUsage, "want auto, always or never", "tail", "t", "--color", "red")
}

func TestTailSince(t *testing.T) {
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for since, want := range map[string]time.Time{"15m": now.Add(-15 * time.Minute), "2026-01-31T11:00:00": now.Add(-time.Hour)} {
		f := tailFlags{color: "auto", since: since}
		if err := f.check(now, false); err != nil || f.start != kgo.NewOffset().AfterMilli(want.UnixMilli()) {
			t.Errorf("%s: %v, %v", since, f.start, err)
		}
	}
}
