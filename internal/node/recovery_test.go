package node

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"moldau/internal/vfs"
)

// lines is a logger's handler that passes on what is logged.
type lines chan string

func (lines) Enabled(context.Context, slog.Level) bool { return true }
func (l lines) WithAttrs([]slog.Attr) slog.Handler     { return l }
func (l lines) WithGroup(string) slog.Handler          { return l }

func (l lines) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString(r.Message)
	r.Attrs(func(a slog.Attr) bool { b.WriteString(" " + a.String()); return true })
	select {
	case l <- b.String():
	default:
	}
	return nil
}

// await returns the first line that begins so.
func (l lines) await(prefix string) string {
	for {
		if line := <-l; strings.HasPrefix(line, prefix) {
			return line
		}
	}
}

// TestStartTellsHowFarItIs: while two of six partitions are not open yet the node serves, and tells probes and the log.
func TestStartTellsHowFarItIs(t *testing.T) {
	disk := vfs.NewMem()
	n := start(t, options(t, base, disk))
	for _, name := range []string{"a", "b", "c"} {
		createTopic(t, n, name)
	}
	stop(t, n)

	slow, goOn := vfs.NewInject(disk), make(chan struct{})
	var once sync.Once
	release := func() { once.Do(func() { close(goOn) }) }
	slow.SetRules(func(op vfs.Op) error {
		if strings.Contains(op.Path, "/c-") {
			<-goOn
		}
		return nil
	})
	o := options(t, base+"num.recovery.threads.per.data.dir=6\n", slow)
	log := make(lines, 1000)
	o.Logger = slog.New(log)
	n = start(t, o)
	defer stop(t, n)
	defer release()
	log.await("recovering: partitions are being opened open=4 of=6")
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	get := func(path string) (int, string) {
		t.Helper()
		resp, err := client.Get("http://" + n.address("HTTP") + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	if code, body := get("/startupz"); code != http.StatusServiceUnavailable || body != "66%\n" {
		t.Errorf("/startupz: %d %s", code, body)
	}
	if code, body := get("/readyz"); code != http.StatusServiceUnavailable || body != "recovering: 4 of 6 partitions are open\n" {
		t.Errorf("/readyz: %d %s", code, body)
	}
	if code, _ := get("/livez"); code != http.StatusOK {
		t.Errorf("/livez: %d: a probe would kill a node that recovers", code)
	}
	if len(metadataOf(t, n, "PLAINTEXT").Topics) != 3 {
		t.Error("the node does not serve meanwhile")
	}
	release()
	log.await("all partitions of the start are open partitions=6")
	if code, body := get("/startupz"); code != http.StatusOK || body != "100%\n" {
		t.Errorf("afterwards /startupz: %d %s", code, body)
	}
	if code, body := get("/readyz"); code != http.StatusOK {
		t.Errorf("afterwards /readyz: %d %s", code, body)
	}
}
