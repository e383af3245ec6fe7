package cli

import (
	"fmt"
	"net"
	"os"
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
			a := &app{screen: &errs, watched: c.watched}
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

// TestWaitingForTheCluster: who waits for an answer sees whose, until there is something to read.
func TestWaitingForTheCluster(t *testing.T) {
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	address := mute.Addr().String()
	var out, errs output
	a := &app{stdout: &out, stderr: &errs, watched: true, signals: make(chan os.Signal, 1)}
	code := a.run([]string{"topics", "--list", "--bootstrap-server", address, "--command-property", "request.timeout.ms=1500"})
	shown, told := strings.Index(errs.String(), "waiting for "+address), strings.Index(errs.String(), address+": took the connection and then did not answer")
	if code != exitUnreachable || shown < 0 || told < shown {
		t.Errorf("exit code %d, stderr %q", code, &errs)
	}
}

// TestOutputTakesTheProgressAway: what is printed does not mix with what shows that the cluster is waited for.
func TestOutputTakesTheProgressAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var screen, out output
		a := &app{screen: &screen, watched: true}
		a.waiting = a.progress(false, "waiting", 0, countUnit)
		time.Sleep(3 * time.Second)
		fmt.Fprintln(printed{&out, a}, "a line")
		before := screen.String()
		time.Sleep(3 * time.Second)
		if after := screen.String(); !strings.Contains(before, "waiting") || after != before || out.String() != "a line\n" {
			t.Errorf("the screen has %q, then %q; the output %q", before, after, &out)
		}
	})
}
