package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"moldau/internal/kafka"
)

func TestRandomUUID(t *testing.T) {
	i := newInvocation()
	if code := <-i.run("storage", "random-uuid"); code != exitOK {
		t.Fatal(i.stderr)
	}
	if _, err := kafka.ParseUUID(strings.TrimSpace(i.stdout.String())); err != nil {
		t.Error(err)
	}
}

// What Apache Kafka's tool prints and writes for the same steps is the measure.
func TestFormatAndInfo(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "server.properties")
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	if err := os.WriteFile(file, []byte("node.id=4\nlog.dirs="+a+","+b+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	const cluster, other = "MkU3OEVBNTcwNTJENDM2Qg", "AAAAAAAAAAAAAAAAAAAAAg"
	step := func(code int, stdout, stderr string, args ...string) {
		t.Helper()
		i := newInvocation()
		if got := <-i.run(append([]string{"storage"}, args...)...); got != code {
			t.Errorf("%v: exit code %d, want %d: %s", args, got, code, i.stderr)
		}
		out := regexp.MustCompile(`directory.id=[\w-]{22}`).ReplaceAllString(strings.ReplaceAll(i.stdout.String(), dir, ""), "directory.id=…")
		if out != stdout {
			t.Errorf("%v prints:\n%s\nwant:\n%s", args, out, stdout)
		}
		if !strings.Contains(i.stderr.String(), stderr) {
			t.Errorf("%v says %s, want %s", args, i.stderr, stderr)
		}
	}
	const notInOrder = "not all directories are in order"
	step(exitFailure, "Found problems:\n  /a does not exist\n  /b does not exist\n\n", notInOrder, "info", "-c", file)
	step(exitUsage, "", "--cluster-id/-t is required", "format", "-c", file)
	step(exitUsage, "", `--cluster-id: "bad" is not an id`, "format", "-c", file, "-t", "bad")
	step(exitUsage, "", "--add-scram: authentication is not served", "format", "-c", file, "-t", cluster, "-S", "SCRAM-SHA-256=[name=a]")
	step(exitUsage, "", "--initial-controllers: controllers tell each other who they are", "format", "-c", file, "-t", cluster, "-I", "1@a:1:x")
	step(exitUsage, "", `--release-version: "9.9" is not known; known are 3.3-IV3, `, "format", "-c", file, "-t", cluster, "-r", "9.9")
	step(exitUsage, "", `--feature x: want name=level`, "format", "-c", file, "-t", cluster, "-f", "x")
	for want, flags := range map[string]string{
		"cannot be given together with --feature metadata.version":      "-r 4.0 -f metadata.version=25",
		"kraft.version is given more than once":                         "-f kraft.version=1 -f kraft.version=1",
		"--feature metadata.version=6: this version serves levels 7 to": "-f metadata.version=6",
		"the voters of every cluster can change here":                   "-f kraft.version=0",
		"--feature transaction.version=2: the feature is not served":    "-f transaction.version=2",
		"--feature nonsense=0: unknown feature nonsense":                "-f nonsense=0",
		"needs metadata.version 4.0-IV1 or newer":                       "-r 3.9 -f eligible.leader.replicas.version=1",
	} {
		step(exitUsage, "", want, append([]string{"format", "-c", file, "-t", cluster}, strings.Fields(flags)...)...)
	}
	if _, err := os.Stat(a); err == nil {
		t.Error("a refused format made a directory")
	}
	step(exitOK, "Formatting metadata directory /a with metadata.version 4.4-IV2.\nFormatting data directory /b with metadata.version 4.4-IV2.\n", "",
		"format", "--standalone", "-c", file, "-t", cluster)
	step(exitOK, "Found log directories:\n  /a\n  /b\n\nFound metadata: {cluster.id="+cluster+", directory.id=…, node.id=4, version=1}\n\n", "", "info", "-c", file)
	step(exitFailure, "", "is already formatted; use --ignore-formatted", "format", "-c", file, "-t", cluster)
	step(exitFailure, "", "belong to cluster "+cluster, "format", "-g", "-c", file, "-t", other)
	step(exitOK, "All of the log directories are already formatted.\n", "", "format", "-g", "-c", file, "-t", cluster, "-r", "3.9")

	// One directory lost: it alone is formatted again.
	if err := os.RemoveAll(b); err != nil {
		t.Fatal(err)
	}
	step(exitOK, "Formatting data directory /b with metadata.version 4.4-IV2.\n", "", "format", "-g", "-c", file, "-t", cluster)
	step(exitOK, "Found log directories:\n  /a\n  /b\n\nFound metadata: {cluster.id="+cluster+", directory.id=…, node.id=4, version=1}\n\n", "", "info", "-c", file)

	meta, err := os.ReadFile(filepath.Join(a, metaProperties))
	if err != nil || !regexp.MustCompile(`(?m)\A#\n#\w{3} \w{3} \d\d \d\d:\d\d:\d\d \S+ \d{4}\n(cluster\.id=\S{22}|directory\.id=\S{22}|node\.id=4|version=1)\n`).Match(meta) {
		t.Errorf("%v\n%s", err, meta)
	}
	if err := os.WriteFile(filepath.Join(b, metaProperties), []byte("version=1\nnode.id=5\ncluster.id="+other+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	step(exitFailure, "Found log directories:\n  /a\n  /b\n\nFound metadata: {cluster.id="+cluster+", directory.id=…, node.id=4, version=1}\n\n"+
		"Found problems:\n  /b belongs to node 5, but node.id is 4\n  /b belongs to cluster "+other+", the ones before it to "+cluster+"\n\n", notInOrder, "info", "-c", file)
}

// TestFormatStatesTheFirstLevels: what the cluster begins with is in a file that shows as any part of the metadata log does.
func TestFormatStatesTheFirstLevels(t *testing.T) {
	for flags, want := range map[string]string{
		"":       "metadata.version=33 eligible.leader.replicas.version=1",
		"-r 4.1": "metadata.version=27 eligible.leader.replicas.version=1",
		"-r 4.0": "metadata.version=25",
		"-r 4.0-IV3 -f eligible.leader.replicas.version=1 -f transaction.version=0": "metadata.version=25 eligible.leader.replicas.version=1",
		"-f metadata.version=7 -f kraft.version=1 -N":                               "metadata.version=7",
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, "server.properties")
		if err := os.WriteFile(file, []byte("log.dirs="+dir+"/data\nmetadata.log.dir="+dir+"/meta\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		i := newInvocation()
		args := append([]string{"storage", "format", "-c", file, "-t", "MkU3OEVBNTcwNTJENDM2Qg"}, strings.Fields(flags)...)
		if code := <-i.run(args...); code != exitOK {
			t.Fatalf("%s: %s", flags, i.stderr)
		}
		i = newInvocation()
		if code := <-i.run("dump-log", "--cluster-metadata-decoder", "--files", dir+"/meta/bootstrap.checkpoint"); code != exitOK {
			t.Fatalf("%s: %s", flags, i.stderr)
		}
		var got []string
		for _, m := range regexp.MustCompile(`"name":"([^"]+)","featureLevel":(\d+)`).FindAllStringSubmatch(i.stdout.String(), -1) {
			got = append(got, m[1]+"="+m[2])
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: the file says %v, want %s:\n%s", flags, got, want, i.stdout)
		}
		if _, err := os.Stat(dir + "/data/bootstrap.checkpoint"); err == nil {
			t.Errorf("%s: the file lies in a data directory, too", flags)
		}
	}
}
