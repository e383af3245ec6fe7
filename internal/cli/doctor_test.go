package cli

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"moldau/test/harness"
)

func TestDoctor(t *testing.T) {
	c := startCluster(t)
	c.want(t, "Created topic t.\n", "", "topics", "--create", "--topic", "t", "--partitions", "2")
	code, out, errs := c.run("", "doctor")
	if code != exitOK {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
	for _, want := range []string{
		"ok       " + c.address + " (--bootstrap-server) answers, in ", "ok       " + c.address + " (advertised by broker 1) answers, in ",
		"warning  broker 1 advertises " + c.address + ": clients on other machines will dial themselves\n         → nothing to do while",
		"1 topic, 2 partitions", "ok       the controller's clock agrees", "has 1 broker\n", "broker 1, /disk:",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("lacks %q:\n%s", want, out)
		}
	}
	dead := &cluster{address: fmt.Sprintf("127.0.0.1:%d", harness.FreePorts(t, 1)[0])}
	dead.fails(t, exitUnreachable, "checks failed", "doctor")

	both := &cluster{address: c.address + "," + dead.address}
	code, out, errs = both.run("", "doctor")
	if code != exitFailure || !strings.Contains(out, "error    "+dead.address+" (--bootstrap-server): connection refused") || !strings.Contains(errs, "1 of ") {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
}

// TestDoctorAsksWhoListens: that something takes connections at an address does not make it Kafka.
func TestDoctorAsksWhoListens(t *testing.T) {
	c := startCluster(t)
	web, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer web.Close()
	go func() { // until web is closed: like the usual web servers it refuses what is no line of HTTP
		for {
			conn, err := web.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 1))
			_, _ = conn.Write([]byte("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"))
			_ = conn.Close()
		}
	}()
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	for _, look := range []struct{ address, timeout, want string }{
		{web.Addr().String(), "30000", "answered, but not as Kafka does: a web server"},
		{mute.Addr().String(), "1000", "took the connection and then did not answer"},
	} {
		both := &cluster{address: c.address + "," + look.address}
		code, out, errs := both.run("", "doctor", "--command-property", "request.timeout.ms="+look.timeout)
		if code != exitFailure || !strings.Contains(out, "error    "+look.address+" (--bootstrap-server): "+look.want) {
			t.Errorf("%s: exit code %d, want %q:\n%s%s", look.address, code, look.want, out, errs)
		}
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
	for _, want := range []string{"every setting is known and in range", "log.flush.before.ack=false: an acknowledged record can be lost", "log.dirs: " + dir + ": ", dir + ": keeping 4 KiB takes "} {
		if !strings.Contains(out, want) {
			t.Errorf("lacks %q:\n%s%s", want, out, errs)
		}
	}
	if left, err := filepath.Glob(dir + "/.*"); len(left) > 0 || err != nil {
		t.Errorf("left behind: %v, %v", left, err)
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
	d.space("full", 1<<30, 100<<30)
	d.space("small and empty, but too small", 3<<20, 3<<20)
	d.space("tight", 5<<30, 100<<30)
	d.space("fine", 50<<30, 100<<30)
	d.space("unknown", -1, -1)
	d.skew(now, now.Add(-time.Minute))
	d.skew(now, now.Add(time.Second))
	d.syncs("fast", time.Millisecond, nil)
	d.syncs("slow", time.Second, nil)
	d.syncs("broken", 0, syscall.EROFS)
	var levels []string
	for _, f := range d.found {
		levels = append(levels, f.Level)
		if (f.Level != "ok") != (f.Advice != "") {
			t.Errorf("%+v", f)
		}
	}
	if got := strings.Join(levels, " "); got != "error error warning ok warning ok ok warning error" {
		t.Error(got)
	}
}
