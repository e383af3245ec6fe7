package foreign

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"moldau/test/harness"
)

// fiveNodes runs five nodes, a proxy in front of each and then a command, which it is given, with a loopback and processes that
// nobody else has. All ends as the command does. The shell outlives the command: as process 1 it is the parent of every node,
// and without a parent that waits a stopped one would stay as a zombie.
const fiveNodes = `
ip link set lo up || exit 1
for id in 1 2 3 4 5; do docker compose start kafka-$id; done
"$TOXIPROXY" -config "$DIR/proxies.json" >"$DIR/proxies.log" 2>&1 &
for port in 39091 39092 39093 39094 39095 8474; do
  for try in {1..1200}; do
    (echo >/dev/tcp/127.0.0.1/$port) 2>/dev/null && continue 2
    sleep 0.05
  done
  echo "nobody listens on port $port" >&2
  exit 1
done
"$@"
exit $?
`

// dockerCompose is what the suite runs to stop a broker, to start it again and to read its log. Like the program of that name
// it waits for the end of what it stops, and starts nothing twice; it kills nobody who does not end.
const dockerCompose = `#!/bin/bash
id=${!#}
id=${id#kafka-}
alive() { kill -0 "$(cat "$DIR/$id.pid")"; } 2>/dev/null
case "$1 $2" in
"compose start")
  alive && exit 0
  "$MOLDAU_BINARY" serve "$DIR/$id.properties" >>"$DIR/$id.log" 2>&1 &
  echo $! >"$DIR/$id.pid"
  ;;
"compose stop")
  kill "$(cat "$DIR/$id.pid")" || exit 1
  for try in {1..1200}; do
    alive || exit 0
    sleep 0.05
  done
  echo "$3 does not end" >&2
  exit 1
  ;;
"compose logs")
  cat "$DIR/$id.log"
  ;;
*)
  echo "docker $*: not here" >&2
  exit 1
  ;;
esac
`

// proxy is an element of toxiproxy's configuration.
type proxy struct {
	Name     string `json:"name"`
	Listen   string `json:"listen"`
	Upstream string `json:"upstream"`
	Enabled  bool   `json:"enabled"`
}

// TestSarama: the functional tests of IBM/sarama, which want five brokers, each behind a proxy that breaks connections, and
// stop some of them. The brokers' settings are those that its authors use.
func TestSarama(t *testing.T) {
	wantedAll(t)
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		harness.Missing(t, "the suite wants ports from 29091 to 29095, and only root on Linux can give it some of its own")
	}
	const suite, version, toxiproxy = "sarama", "v1.61.1", "v2.5.0"
	e := readExpectation(t, suite)
	bash := harness.Tool(t, "bash", "install bash")
	unshare := harness.Tool(t, "unshare", "install util-linux")
	golang := harness.Tool(t, "go", "install Go 1.26 or newer")
	dir, binary := t.TempDir(), harness.Binary(t)

	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	var controllers []string
	var proxies []proxy
	for id := 1; id <= 5; id++ {
		controllers = append(controllers, fmt.Sprintf("127.0.0.1:%d", 39290+id))
		proxies = append(proxies, proxy{fmt.Sprintf("kafka%d", id), fmt.Sprintf("127.0.0.1:%d", 29090+id), fmt.Sprintf("127.0.0.1:%d", 39090+id), true})
	}
	for id := 1; id <= 5; id++ {
		write(fmt.Sprintf("%d.properties", id), strings.Join([]string{
			fmt.Sprintf("node.id=%d", id),
			fmt.Sprintf("broker.rack=%d", id),
			fmt.Sprintf("listeners=CLIENTS://127.0.0.1:%d,NODES://127.0.0.1:%d,CONTROLLER://127.0.0.1:%d", 39090+id, 39190+id, 39290+id),
			fmt.Sprintf("advertised.listeners=CLIENTS://127.0.0.1:%d,NODES://127.0.0.1:%d", 29090+id, 39190+id),
			"listener.security.protocol.map=CLIENTS:PLAINTEXT,NODES:PLAINTEXT,CONTROLLER:PLAINTEXT",
			"inter.broker.listener.name=NODES",
			"controller.listener.names=CONTROLLER",
			"controller.quorum.bootstrap.servers=" + strings.Join(controllers, ","),
			fmt.Sprintf("http.listeners=http://127.0.0.1:%d", 39390+id),
			"log.dirs=" + filepath.Join(dir, fmt.Sprintf("data-%d", id)),
			"default.replication.factor=2",
			"offsets.topic.replication.factor=2",
			"replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector",
			"auto.create.topics.enable=false",
			"group.initial.rebalance.delay.ms=0",
		}, "\n")+"\n", 0o644)
	}
	list, err := json.Marshal(proxies)
	if err != nil {
		t.Fatal(err)
	}
	write("proxies.json", string(list), 0o644)
	write("docker", dockerCompose, 0o755)
	write("go.mod", "module suite\ngo 1.26.0\nrequire github.com/IBM/sarama "+version+"\n", 0o644)

	// What the suite's tests import is in none of the modules here.
	t.Setenv("GOFLAGS", "-mod=mod -tags=functional")
	t.Setenv("GOBIN", dir)
	gotool := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(golang, args...)
		cmd.Dir = dir
		out, err := harness.Output(cmd, "")
		if err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return strings.TrimSpace(out)
	}
	gotool("install", "github.com/Shopify/toxiproxy/v2/cmd/server@"+toxiproxy)

	// The same package has unit tests, which need no broker.
	files, err := filepath.Glob(filepath.Join(gotool("list", "-f", "{{.Dir}}", "github.com/IBM/sarama"), "functional_*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
	var tests []name
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range declared.FindAllStringSubmatch(string(text), -1) {
			tests = append(tests, name{suite, m[1]})
		}
	}
	if len(tests) == 0 {
		t.Fatal("the suite has no functional tests")
	}

	t.Cleanup(func() {
		for id := 1; id <= 5; id++ {
			if log, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("%d.log", id))); t.Failed() && err == nil {
				t.Logf("the log of node %d ends with\n%s", id, tail(string(log), 4000))
			}
		}
	})
	results := goSuite{
		dir:  dir,
		pkg:  "github.com/IBM/sarama",
		run:  either(tests),
		skip: either(e.leaveOut()),
		env: []string{"TOXIPROXY_ADDR=http://127.0.0.1:8474", "KAFKA_VERSION=4.3.0", "MOLDAU_BINARY=" + binary,
			"DIR=" + dir, "TOXIPROXY=" + filepath.Join(dir, "server"), "PATH=" + dir + ":" + os.Getenv("PATH")},
		timeout: 15 * time.Minute,
	}.results(t, suite, unshare, "--net", "--pid", "--fork", "--kill-child", bash, "-c", fiveNodes, "bash")
	e.check(t, suite, []string{suite}, results)
}
