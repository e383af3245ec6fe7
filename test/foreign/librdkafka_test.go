package foreign

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"moldau/test/harness"
)

// buildLibrdkafka gets the sources of a version of Debian's package and builds the library and its tests in $DIR. Debian gives
// sources only to who asks for them, and what the machine asks its mirrors for stays as it is.
const buildLibrdkafka = `
set -e
rm -rf "$DIR.part"
mkdir -p "$DIR.part/apt/parts" "$DIR.part/apt/lists/partial"
cd "$DIR.part"
for list in /etc/apt/sources.list /etc/apt/sources.list.d/debian.*; do
  if [ -f "$list" ]; then
    sed 's/^Types: deb$/Types: deb-src/; s/^deb /deb-src /' "$list" >"apt/parts/$(basename "$list")"
  fi
done
apt() { apt-get -qq -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$PWD/apt/parts" -o Dir::State::Lists="$PWD/apt/lists" "$@"; }
apt update
apt source --download-only "librdkafka=$VERSION"
tar xzf librdkafka_*.orig.tar.gz --strip-components=1
./configure
make -j2 libs
make -C tests test-runner
rm -rf apt
cd ..
mv "$DIR.part" "$DIR"
`

// librdkafkaVerdict is a line of the table at the end: a test, how it ended, and why.
var librdkafkaVerdict = regexp.MustCompile(`(?m)^\|(?:\x1b\[\d+m)? +(\d\w+) +\| +(PASSED|FAILED|SKIPPED) \| +[\d.]+s (?:\x1b\[0m)?\|(?:\x1b\[\d+m)? *(.*?)(?:\x1b\[0m)?$`)

// TestLibrdkafka: the tests of librdkafka, which want three brokers that make topics of four partitions by themselves, and use the
// command line where the library has no call. Those that need no broker are left out.
func TestLibrdkafka(t *testing.T) {
	wantedAll(t)
	const suite, version = "librdkafka", "2.0.2-1"
	e := readExpectation(t, suite)
	bash := harness.Tool(t, "bash", "install bash")
	stdbuf := harness.Tool(t, "stdbuf", "install coreutils")
	for _, tool := range []string{"apt-get", "make", "gcc", "g++"} {
		harness.Tool(t, tool, "the suite's sources are a package of Debian, which gcc, g++ and make build")
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	source := filepath.Join(cache, "moldau-test", "librdkafka-"+version)
	if _, err := os.Stat(source); err != nil {
		build := exec.Command(bash, "-c", buildLibrdkafka)
		build.Env = append(os.Environ(), "DIR="+source, "VERSION="+version)
		if out, err := harness.Output(build, ""); err != nil {
			t.Fatalf("build: %v\n%s", err, tail(out, 20000))
		}
	}

	nodes := harness.PrepareNodes(t, 3, "num.partitions=4", "default.replication.factor=3", "offsets.topic.replication.factor=3",
		"replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector")
	var brokers []string
	for i, n := range nodes {
		text, err := os.ReadFile(n.Properties)
		if err == nil {
			err = os.WriteFile(n.Properties, fmt.Appendf(text, "broker.rack=RACK%d\n", i+1), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		n.Spawn(t)
		brokers = append(brokers, n.Addr)
	}
	for _, n := range nodes {
		n.WaitReady(t, 30*time.Second)
	}

	dir := t.TempDir() // it leaves files where it runs
	conf := "bootstrap.servers=" + strings.Join(brokers, ",") + "\ntest.topic.random=true\n"
	if err := os.WriteFile(filepath.Join(dir, "test.conf"), []byte(conf), 0o644); err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..") // Apache Kafka's scripts are those in bin
	if err != nil {
		t.Fatal(err)
	}
	var skip []string
	for _, n := range e.leaveOut() {
		skip = append(skip, n.test[:4]) // by number
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	// Line by line, for where a test was given up the process may not end in a way that writes out the rest.
	run := exec.CommandContext(ctx, stdbuf, "--output=L", filepath.Join(source, "tests", "test-runner"), "-L", "-K", "-Q", "-p1")
	run.Dir = dir
	run.Env = append(os.Environ(), "TEST_KAFKA_VERSION=4.0.0", "TESTS_SKIP="+strings.Join(skip, ","),
		"LD_LIBRARY_PATH="+filepath.Join(source, "src")+":"+filepath.Join(source, "src-cpp"),
		"KAFKA_PATH="+root, "BROKERS="+brokers[0], "MOLDAU_BIN="+harness.Binary(t))
	out, err := harness.Output(run, "")
	results := make(map[name]result)
	for _, m := range librdkafkaVerdict.FindAllStringSubmatch(out, -1) {
		left := strings.HasPrefix(m[3], "Filtered due to") || strings.HasPrefix(m[3], "included in TESTS_SKIP")
		if !left {
			results[name{suite, m[1]}] = result{outcome: map[string]outcome{"PASSED": passed, "FAILED": failed, "SKIPPED": skipped}[m[2]], why: m[3]}
		}
	}
	if len(results) == 0 {
		t.Fatalf("the suite did not come to its end: %v\n%s", err, tail(out, 20000))
	}
	e.check(t, suite, []string{suite}, results)
	if t.Failed() {
		t.Logf("the suite's output ends with\n%s", tail(out, 20000))
	}
}
