package cli

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestDoctor(t *testing.T) {
	c := startCluster(t)
	c.want(t, "Created topic t.\n", "", "topics", "--create", "--topic", "t", "--partitions", "2")
	code, out, errs := c.run("", "doctor")
	if code != exitOK {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
	for _, want := range []string{
		"ok       " + c.address + " (--bootstrap-server) takes connections", "ok       " + c.address + " (advertised by broker 1) takes connections",
		"warning  broker 1 advertises " + c.address + ": clients on other machines will dial themselves\n         → nothing to do while",
		"1 topic, 2 partitions", "ok       the controller's clock agrees", "has 1 broker\n", "broker 1, /disk:",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("lacks %q:\n%s", want, out)
		}
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead := &cluster{address: ln.Addr().String()}
	ln.Close()
	dead.fails(t, exitUnreachable, "checks failed", "doctor")

	both := &cluster{address: c.address + "," + dead.address}
	code, out, errs = both.run("", "doctor")
	if code != exitFailure || !strings.Contains(out, "error    "+dead.address+" (--bootstrap-server): connection refused") || !strings.Contains(errs, "1 of ") {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
}

func TestDoctorOnThisMachine(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "server.properties")
	if err := os.WriteFile(file, []byte("log.dirs="+dir+"\nlog.flush.before.ack=false\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c := &cluster{address: "127.0.0.1:1"}
	_, out, errs := c.run("", "doctor", "--local", "--config", file)
	for _, want := range []string{"every setting is known and in range", "log.flush.before.ack=false: an acknowledged record can be lost", "log.dirs: " + dir + ": "} {
		if !strings.Contains(out, want) {
			t.Errorf("lacks %q:\n%s%s", want, out, errs)
		}
	}
	if err := os.WriteFile(file, []byte("log.dir.s=x\nnum.partitions=0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	code, out, _ := c.run("", "doctor", "--local", "--config", file)
	if code != exitFailure || !strings.Contains(out, ":2: num.partitions=0") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
}

func TestDoctorJudges(t *testing.T) {
	d := &doctor{}
	now := time.Now()
	d.space("full", 1, 1000)
	d.space("tight", 50, 1000)
	d.space("fine", 500, 1000)
	d.space("unknown", -1, -1)
	d.skew(now, now.Add(-time.Minute))
	d.skew(now, now.Add(time.Second))
	var levels []string
	for _, f := range d.found {
		levels = append(levels, f.Level)
		if (f.Level != "ok") != (f.Advice != "") {
			t.Errorf("%+v", f)
		}
	}
	if got := strings.Join(levels, " "); got != "error warning ok warning ok" {
		t.Error(got)
	}
}
