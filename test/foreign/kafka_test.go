package foreign

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"moldau/test/harness"
)

// apacheVersion is the newest release of Apache Kafka whose tests are among the packages of Maven Central.
const apacheVersion = "4.3.1"

// apacheSlice are the classes of Apache Kafka's tests that a landing runs.
var apacheSlice = []string{
	"kafka.server.DeleteGroupsRequestTest",
	"kafka.server.DescribeGroupsRequestTest",
	"kafka.server.HeartbeatRequestTest",
	"kafka.server.JoinGroupRequestTest",
	"kafka.server.LeaveGroupRequestTest",
	"kafka.server.ListGroupsRequestTest",
	"kafka.server.OffsetCommitRequestTest",
	"kafka.server.OffsetDeleteRequestTest",
	"kafka.server.OffsetFetchRequestTest",
	"kafka.server.SyncGroupRequestTest",
	"org.apache.kafka.clients.consumer.PlaintextConsumerAssignTest",
	"org.apache.kafka.clients.consumer.PlaintextConsumerCommitTest",
	"org.apache.kafka.clients.consumer.PlaintextConsumerFetchTest",
	"org.apache.kafka.clients.producer.ProducerFailureHandlingTest",
	"org.apache.kafka.clients.producer.ProducerIdExpirationTest",
	"org.apache.kafka.tools.DeleteRecordsCommandTest",
	"org.apache.kafka.tools.consumer.ConsoleConsumerTest",
	"org.apache.kafka.tools.consumer.group.DeleteOffsetsConsumerGroupCommandIntegrationTest",
}

// apacheSuite is Apache Kafka's tests, and our classes that start processes for them.
type apacheSuite struct {
	kafka *harness.Kafka // with our classes before its own
	jars  []string       // with the tests
}

// started is what our classes start as nodes: commands, to which they add arguments.
type started struct {
	format, serve  []string
	groupProtocols []string
}

// moldau is the built binary.
func moldau(t *testing.T) started {
	binary := dies(harness.Binary(t))
	return started{format: append(binary, "storage", "format"), serve: append(binary, "serve"), groupProtocols: []string{"classic"}}
}

// apacheKafka is Apache Kafka, in the release that has the metadata.version which the tests ask for: to theirs it is not stable yet.
func apacheKafka(t *testing.T) started {
	released := harness.ApacheKafka(t, harness.KafkaVersion)
	java := func(class string, args ...string) []string {
		return dies(released.Command(context.Background(), class, args...).Args...)
	}
	return started{format: java("kafka.tools.StorageTool", "format"), serve: java("kafka.Kafka"), groupProtocols: []string{"classic", "consumer"}}
}

// dies is a command whose process ends with the JVM that has started it, where the system can do that.
func dies(command ...string) []string {
	if path, err := exec.LookPath("setpriv"); err == nil {
		command = append([]string{path, "--pdeathsig", "KILL"}, command...)
	}
	return slices.Clip(command)
}

func fetchApacheSuite(t *testing.T) apacheSuite {
	t.Helper()
	javac := harness.Tool(t, "javac", "install a JDK of Java 17 or newer")
	var artifacts, withTests []string
	for _, a := range []string{
		"kafka_2.13", "kafka_2.13::test", "kafka-tools", "kafka-tools::test", "kafka-clients", "kafka-clients::test", "kafka-clients-integration-tests::test",
		"kafka-server-common::test", "kafka-test-common-runtime", "kafka-streams", "kafka-streams::test",
	} {
		artifact, classifier, _ := strings.Cut(a, "::")
		artifacts = append(artifacts, strings.TrimSuffix(fmt.Sprintf("org.apache.kafka:%s:%s:%s", artifact, apacheVersion, classifier), ":"))
		if classifier != "" {
			withTests = append(withTests, fmt.Sprintf("%s-%s-%s.jar", artifact, apacheVersion, classifier))
		}
	}
	artifacts = append(artifacts, "org.junit.platform:junit-platform-console-standalone:1.13.4", "org.mockito:mockito-core:5.14.2")
	kafka := harness.Jars(t, "kafka-tests-"+apacheVersion, artifacts...)
	suite := apacheSuite{}
	for _, jar := range withTests {
		suite.jars = append(suite.jars, filepath.Join(filepath.Dir(kafka.ClassPath()), jar))
	}
	dir := t.TempDir()
	sources, err := filepath.Glob("java/org/apache/kafka/common/test/junit/*.java")
	if err != nil || len(sources) == 0 {
		t.Fatal(sources, err)
	}
	// Warnings about the jars themselves are not ours.
	args := append([]string{"-Xlint:all,-path,-classfile", "-d", dir, "-cp", kafka.ClassPath()}, sources...)
	if out, err := harness.Output(exec.Command(javac, args...), ""); err != nil {
		t.Fatalf("javac: %v\n%s", err, out)
	}
	suite.kafka = kafka.Behind(dir)
	return suite
}

// classes lists the classes of the suite that want a cluster: those with Apache Kafka's annotations for it.
func (s apacheSuite) classes(t *testing.T) []string {
	t.Helper()
	var list []string
	for _, jar := range s.jars {
		archive, err := zip.OpenReader(jar)
		if err != nil {
			t.Fatal(err)
		}
		defer archive.Close()
		for _, f := range archive.File {
			class, ok := strings.CutSuffix(f.Name, "Test.class")
			if !ok || strings.Contains(class, "$") {
				continue // a class inside another is found with that
			}
			r, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(text, []byte("Lorg/apache/kafka/common/test/api/ClusterTest")) || bytes.Contains(text, []byte("Lorg/apache/kafka/common/test/api/ClusterTemplate;")) {
				list = append(list, strings.ReplaceAll(class+"Test", "/", "."))
			}
		}
	}
	slices.Sort(list)
	return list
}

// run runs classes in one JVM, without the tests that are to be left out, each on nodes of its own.
func (s apacheSuite) run(t *testing.T, on started, classes []string, leave []name, timeout time.Duration) map[name]result {
	t.Helper()
	dir := t.TempDir()
	var leftOut strings.Builder
	for _, n := range leave {
		fmt.Fprintf(&leftOut, "%s.%s\n", n.group, n.test)
	}
	if err := os.WriteFile(filepath.Join(dir, "left-out"), []byte(leftOut.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	jvm := append(harness.ClientJVM(),
		"-Xmx1g",
		"-Djava.io.tmpdir="+dir,
		"-Djunit.jupiter.extensions.autodetection.enabled=true",
		"-Djunit.jupiter.execution.timeout.testtemplate.method.default=90s",
		"-Dforeign.format="+strings.Join(on.format, "\n"),
		"-Dforeign.serve="+strings.Join(on.serve, "\n"),
		"-Dforeign.group.protocols="+strings.Join(on.groupProtocols, "\n"),
		"-Dforeign.left.out="+filepath.Join(dir, "left-out"),
	)
	args := []string{"execute", "--disable-banner", "--disable-ansi-colors", "--details=testfeed", "--reports-dir=" + filepath.Join(dir, "reports")}
	for _, class := range classes {
		args = append(args, "--select-class="+class)
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	out, err := harness.Output(s.kafka.CommandJVM(ctx, jvm, "org.junit.platform.console.ConsoleLauncher", args...), "")
	if ctx.Err() != nil {
		t.Fatalf("not at its end after %v: %v\n%s", timeout, err, tail(out, 20000))
	}
	results, readErr := junitResults(filepath.Join(dir, "reports"))
	if readErr != nil || len(results) == 0 {
		t.Fatalf("no reports: %v, %v\n%s", err, readErr, tail(out, 20000))
	}
	for n, r := range results {
		if r.why == "left out" {
			delete(results, n)
		}
	}
	return results
}

// TestApacheKafka: Apache Kafka's own integration tests, which its developers run on brokers inside the test's process. One
// small class of ours, found before Apache Kafka's of the same name, starts our nodes instead. With -itself it starts Apache
// Kafka's processes: then all of the classes run, and what differs from what is expected of us is only told.
func TestApacheKafka(t *testing.T) {
	effort := wanted(t)
	const suite = "apache-kafka"
	e := readExpectation(t, suite)
	s := fetchApacheSuite(t)
	wantedClasses, err := regexp.Compile(*classes)
	if err != nil {
		t.Fatal(err)
	}
	var run []string
	for _, class := range s.classes(t) {
		switch {
		case !wantedClasses.MatchString(class) || effort == slice && !slices.Contains(apacheSlice, class):
		case e.absent[class].tests > 0 && !*itself:
		case e.passes[class] == 0 && !e.names(class) && !*update:
			t.Errorf("%s: the file says nothing about this class", class)
		default:
			run = append(run, class)
		}
	}
	if *itself {
		e.compare(t, suite, run, s.run(t, apacheKafka(t), run, nil, 3*time.Hour))
		return
	}
	e.check(t, suite, run, s.run(t, moldau(t), run, e.leaveOut(), 3*time.Hour))
}
