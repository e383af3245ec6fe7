package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
)

// TestClients: what several nodes tell is one table, and a node that does not answer is named.
func TestClients(t *testing.T) {
	node := func(clients string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/clients" {
				http.NotFound(w, r)
				return
			}
			fmt.Fprint(w, clients)
		}))
		t.Cleanup(s.Close)
		return s.Listener.Addr().String()
	}
	seen := func(ago time.Duration) string { return time.Now().Add(-ago).UTC().Format(time.RFC3339) }
	one := node(`[{"clientId":"billing","lastAddress":"10.0.0.1:5","lastSeen":"` + seen(time.Hour) + `","apis":{"Fetch":{"lowest":3,"highest":3}},"tooOldForKafka4":["Fetch 3"],
		"convertedFetched":{"batches":2,"records":10,"bytes":2048,"seconds":0.5}},
		{"clientId":"new\u001b[31m","software":"apache-kafka-java","version":"4.4.0","lastSeen":"` + seen(time.Minute) + `","apis":{"Fetch":{"lowest":18,"highest":18}}}]`)
	two := node(`[{"clientId":"billing","lastAddress":"10.0.0.2:6","lastSeen":"` + seen(2*time.Minute) + `","apis":{"Fetch":{"lowest":2,"highest":4}},"tooOldForKafka4":["Fetch 2"],
		"convertedFetched":{"batches":1,"records":5,"bytes":1024,"seconds":0.25},"convertedProduced":{"batches":1,"records":1,"bytes":100,"seconds":0.001}}]`)
	run := func(args ...string) (code int, stdout, stderr string) {
		var out, errs output
		a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: &errs, signals: make(chan os.Signal, 1)}
		code = a.run(append([]string{"clients"}, args...))
		return code, out.String(), errs.String()
	}
	code, out, errs := run("--http", one+",http://"+two+"/")
	if code != exitOK {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	lines := strings.Split(strings.TrimSpace(columns(out)), "\n")
	for i, want := range []string{
		"CLIENT SOFTWARE LAST SEEN FROM TOO OLD FOR KAFKA 4 CONVERTED IN CONVERTED OUT",
		"billing - 2m", "new?[31m apache-kafka-java 4.4.0 1m",
	} {
		if i >= len(lines) || !strings.HasPrefix(lines[i], want) {
			t.Errorf("line %d does not begin with %q:\n%s", i, want, out)
		}
	}
	if want := "10.0.0.2:6 Fetch 3, Fetch 2 1 records, 100 B, 0.001 s 15 records, 3.0 KiB, 0.750 s"; !strings.Contains(columns(out), want) {
		t.Errorf("lacks %q:\n%s", want, out)
	}
	if code, out, _ := run("--http", one, "--old"); code != exitOK || strings.Contains(out, "4.4.0") || !strings.Contains(out, "billing") {
		t.Errorf("--old: %d\n%s", code, out)
	}
	if code, out, _ := run("--http", two, "--output", "json"); code != exitOK || !strings.Contains(out, `"lowest": 2`) {
		t.Errorf("as JSON: %d\n%s", code, out)
	}
	if code, _, errs := run("--http", "127.0.0.1:1"); code != exitUnreachable || !strings.Contains(errs, "http.listeners") {
		t.Errorf("nobody there: %d %s", code, errs)
	}
	if code, _, _ := run("--output", "xml"); code != exitUsage {
		t.Errorf("--output xml: exit code %d", code)
	}
}
