package harness

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// KafkaVersion is the Apache Kafka release that suites use unless they name another.
const KafkaVersion = "4.4.0"

// OldKafkaVersions are the releases before it whose clients are tried, the last of each generation of protocol and format,
// oldest first. All of them run on Java 17 as they are.
func OldKafkaVersions() []string {
	return []string{"0.8.2.2", "0.9.0.1", "0.10.2.2", "0.11.0.3", "1.1.1", "2.8.2", "3.9.2"}
}

// Kafka is a set of Apache Kafka's jars.
type Kafka struct {
	java      string
	classPath string
}

// ApacheKafka fetches the jars of one release by Maven, once, and returns them. The test ends through Missing without
// Java 17 or Maven.
func ApacheKafka(t T, version string) *Kafka {
	t.Helper()
	return jars(t, func(maven string) (string, error) { return fetchKafka(maven, version) })
}

func fetchKafka(maven, version string) (string, error) {
	scala := "2.13"
	if version < "2" { // a release is called 0.x, 1.x … 4.x: they sort as strings
		scala = "2.11"
	}
	artifacts := []string{"org.apache.kafka:kafka_" + scala + ":" + version}
	if version >= "3.3" {
		artifacts = append(artifacts, "org.apache.kafka:kafka-tools:"+version)
	}
	switch version {
	case "0.10.2.2", "0.11.0.3": // their brokers need what Java 9 took out
		artifacts = append(artifacts, "javax.xml.bind:jaxb-api:2.3.1")
	case "1.1.1": // names no logger, and without one its tools warn on standard error
		artifacts = append(artifacts, "log4j:log4j:1.2.17", "org.slf4j:slf4j-log4j12:1.7.25")
	}
	return fetchJars(maven, "kafka-"+version, artifacts)
}

// Jars fetches artifacts ("group:name:version" or "group:name:version:classifier") and what they need by Maven, once, into a
// folder of the given name among the fetched packages.
func Jars(t T, name string, artifacts ...string) *Kafka {
	t.Helper()
	return jars(t, func(maven string) (string, error) { return fetchJars(maven, name, artifacts) })
}

func jars(t T, fetch func(maven string) (string, error)) *Kafka {
	t.Helper()
	if testing.Testing() && testing.Short() {
		t.Skip("each call of a Java tool takes a second or two")
	}
	java := Tool(t, "java", "install Java 17 or newer")
	maven := Tool(t, "mvn", "install Maven")
	dir, err := fetch(maven)
	if err != nil {
		t.Fatal(err)
	}
	return &Kafka{java: java, classPath: filepath.Join(dir, "*")}
}

// Behind is the same set of jars with classes of a folder before its own.
func (k *Kafka) Behind(dir string) *Kafka {
	return &Kafka{java: k.java, classPath: dir + string(filepath.ListSeparator) + k.classPath}
}

// ClassPath is where the JVM finds the classes.
func (k *Kafka) ClassPath() string { return k.classPath }

var fetching sync.Mutex

func fetchJars(maven, name string, artifacts []string) (string, error) {
	fetching.Lock()
	defer fetching.Unlock()
	base, err := cacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(base, name)
	if _, err := os.Stat(filepath.Join(dir, "complete")); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	var pom strings.Builder
	pom.WriteString(`<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>` +
		`<groupId>moldau.test</groupId><artifactId>jars</artifactId><version>1</version><dependencies>`)
	for _, a := range artifacts {
		part := append(strings.Split(a, ":"), "")
		fmt.Fprintf(&pom, `<dependency><groupId>%s</groupId><artifactId>%s</artifactId><version>%s</version><classifier>%s</classifier></dependency>`, part[0], part[1], part[2], part[3])
	}
	pom.WriteString(`</dependencies></project>`)
	if err := os.WriteFile(filepath.Join(dir, "pom.xml"), []byte(pom.String()), 0o644); err != nil {
		return "", err
	}
	cmd := exec.Command(maven, "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory="+dir, "-DincludeScope=runtime")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("fetch %s: %w\n%s", name, err, out)
	}
	return dir, os.WriteFile(filepath.Join(dir, "complete"), nil, 0o644)
}

// Command prepares a run of one of Kafka's classes.
func (k *Kafka) Command(ctx context.Context, class string, args ...string) *exec.Cmd {
	jvm := []string{"-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Djava.awt.headless=true", "-cp", k.classPath, class}
	cmd := exec.CommandContext(ctx, k.java, append(jvm, args...)...)
	cmd.SysProcAttr = deathSignal()
	return cmd
}

// Run runs one of Kafka's classes to its end, with input, and returns its standard output; it fails the test on a status
// other than 0.
func (k *Kafka) Run(t T, input, class string, args ...string) string {
	t.Helper()
	out, err := k.Try(input, class, args...)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", class, strings.Join(args, " "), err, out)
	}
	return out
}

// Try runs one of Kafka's classes and returns standard output, followed by standard error if it failed.
func (k *Kafka) Try(input, class string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	return Output(k.Command(ctx, class, args...), input)
}

// Output runs a command with input and returns its standard output, followed by standard error if it failed.
func Output(cmd *exec.Cmd, input string) (string, error) {
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &errs
	err := cmd.Run()
	if err != nil {
		return out.String() + errs.String(), err
	}
	return out.String(), nil
}
