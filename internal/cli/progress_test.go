package cli

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestProgress: shown after a second to a person, gone in the end, and never in front of anybody else.
func TestProgress(t *testing.T) {
	for _, c := range []struct {
		watched, json bool
		work          time.Duration
		total         int64
		want          string // "": nothing at all
	}{
		{true, false, 3 * time.Second, 1000, "records 30 / 1000"},
		{true, false, 3 * time.Second, 0, "records"},
		{true, false, 900 * time.Millisecond, 1000, ""},
		{true, true, 3 * time.Second, 1000, ""},
		{false, false, 3 * time.Second, 1000, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			var errs output
			a := &app{stderr: &errs, watched: c.watched}
			p := a.progress(c.json, "records", c.total, countUnit)
			p.add(30)
			time.Sleep(c.work)
			p.done()
			if got := errs.String(); !strings.Contains(got, c.want) || c.want == "" && strings.TrimSpace(got) != "" {
				t.Errorf("%+v shows %q", c, got)
			}
		})
	}
}
