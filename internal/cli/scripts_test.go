package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// script runs one of bin's scripts with a stand-in for the binary that prints its arguments, and one for ps.
func script(t *testing.T, processes string, env []string, name string, args ...string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	stub := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("#!/usr/bin/env bash\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	binary := stub("moldau", "echo \"ran $*\"\n")
	stub("ps", "cat <<'E'\n"+processes+"E\n")
	cmd := exec.Command(filepath.Join("..", "..", "bin", name), args...)
	cmd.Env = append(os.Environ(), append([]string{"MOLDAU_BIN=" + binary, "PATH=" + dir + ":" + os.Getenv("PATH")}, env...)...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestScriptsPassTheirArgumentsOn(t *testing.T) {
	for _, c := range []struct{ name, args, want string }{
		{"moldau.sh", "version", "ran version\n"},
		{"kafka-storage.sh", "format -t X -c f", "ran storage format -t X -c f\n"},
		{"kafka-server-start.sh", "f --override a=b", "ran serve f --override a=b\n"},
		{"kafka-topics.sh", "--list", "ran topics --list\n"},
		{"kafka-console-producer.sh", "--topic t", "ran console-producer --topic t\n"},
		{"kafka-console-consumer.sh", "--topic t", "ran console-consumer --topic t\n"},
		{"kafka-get-offsets.sh", "-x", "ran get-offsets -x\n"},
		{"kafka-configs.sh", "-x", "ran configs -x\n"},
		{"kafka-producer-perf-test.sh", "-x", "ran producer-perf-test -x\n"},
		{"kafka-consumer-perf-test.sh", "-x", "ran consumer-perf-test -x\n"},
		{"kafka-consumer-groups.sh", "-x", "ran consumer-groups -x\n"},
		{"kafka-groups.sh", "-x", "ran groups -x\n"},
		{"kafka-features.sh", "-x", "ran features -x\n"},
		{"kafka-client-metrics.sh", "-x", "ran client-metrics -x\n"},
		{"kafka-e2e-latency.sh", "-x", "ran e2e-latency -x\n"},
		{"kafka-verifiable-producer.sh", "-x", "ran verifiable-producer -x\n"},
		{"kafka-verifiable-consumer.sh", "-x", "ran verifiable-consumer -x\n"},
		{"kafka-reassign-partitions.sh", "-x", "ran reassign-partitions -x\n"},
		{"kafka-leader-election.sh", "-x", "ran leader-election -x\n"},
		{"kafka-dump-log.sh", "-x", "ran dump-log -x\n"},
		{"kafka-delete-records.sh", "-x", "ran delete-records -x\n"},
		{"kafka-log-dirs.sh", "-x", "ran log-dirs -x\n"},
		{"kafka-cluster.sh", "-x", "ran cluster -x\n"},
		{"kafka-metadata-quorum.sh", "-x", "ran metadata-quorum -x\n"},
		{"kafka-preferred-replica-election.sh", "-x", "ran preferred-replica-election -x\n"},
		{"kafka-simple-consumer-shell.sh", "-x", "ran simple-consumer-shell -x\n"},
		{"zookeeper-shell.sh", "h:1 create -e /a b", "ran zookeeper-shell h:1 create -e /a b\n"},
		{"kafka-broker-api-versions.sh", "-x", "ran broker-api-versions -x\n"},
	} {
		if out, err := script(t, "", nil, c.name, strings.Fields(c.args)...); err != nil || out != c.want {
			t.Errorf("%s %s: %v %q", c.name, c.args, err, out)
		}
	}
	if out, err := script(t, "", nil, "kafka-server-start.sh"); err == nil || !strings.Contains(out, "USAGE") {
		t.Errorf("no file: %v %q", err, out)
	}
}

// TestZooKeeperIsBuiltIn: scripts that start and stop it go on.
func TestZooKeeperIsBuiltIn(t *testing.T) {
	for _, name := range []string{"zookeeper-server-start.sh", "zookeeper-server-stop.sh"} {
		if out, err := script(t, "", nil, name, "-daemon", "config/zookeeper.properties"); err != nil || !strings.Contains(out, "ZooKeeper is built in") || strings.Contains(out, "ran ") {
			t.Errorf("%s: %v %q", name, err, out)
		}
	}
}

func TestStartAsDaemon(t *testing.T) {
	logs := filepath.Join(t.TempDir(), "logs")
	// The script returns at once; CombinedOutput returns only when the node, too, has let go of the pipe, so an empty
	// output that comes back proves that nothing of the terminal is kept.
	out, err := script(t, "", []string{"LOG_DIR=" + logs}, "kafka-server-start.sh", "-daemon", "f")
	if err != nil || out != "" {
		t.Fatalf("%v %q", err, out)
	}
	pid, err := os.ReadFile(filepath.Join(logs, "kafkaServer.pid"))
	if err != nil || strings.TrimSpace(string(pid)) == "" {
		t.Errorf("%v %q", err, pid)
	}
	if _, err := os.Stat(filepath.Join(logs, "kafkaServer.out")); err != nil {
		t.Error(err)
	}
}

func TestStopFindsItsOwn(t *testing.T) {
	var victims []*exec.Cmd
	pid := func() int {
		cmd := exec.Command("sleep", "600")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		victims = append(victims, cmd)
		return cmd.Process.Pid
	}
	file := filepath.Join(t.TempDir(), "server.properties")
	if err := os.WriteFile(file, []byte("process.roles=controller\nnode.id=5\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	processes := ""
	for _, args := range []string{
		"/opt/moldau serve " + file + " --override a=b", // 0: node 5, a controller by its file
		"moldau",                            // 1: node 1
		"moldau --override node.id=6",       // 2
		"moldau serve --override node.id=5", // 3
		"moldau topics --list",              // 4: a tool
		"vim moldau serve",                  // 5: something else
		"/opt/moldau-exporter serve",        // 6
		"java kafka.Kafka config",           // 7: the other one
	} {
		processes += fmt.Sprintf("%d %s\n", pid(), args)
	}
	// `kill -s 0` asks whether a process can be signalled and disturbs none, so the script is asked which it would
	// signal by a stand-in for kill: a function, because kill is a builtin of bash.
	for _, c := range []struct {
		args string
		want []int
	}{
		{"", []int{0, 1, 2, 3}},
		{"--node-id=5", []int{0, 3}},
		{"--node-id=1", []int{1}},
		{"--process-role=controller", []int{0}},
		{"--node-id=9", nil},
	} {
		want := "signal -s TERM"
		for _, i := range c.want {
			want += fmt.Sprintf(" %d", victims[i].Process.Pid)
		}
		want += "\n"
		if c.want == nil {
			want = "No kafka server to stop\n"
		}
		out, err := script(t, processes, []string{"BASH_FUNC_kill%%=() { echo \"signal $*\"; }"}, "kafka-server-stop.sh", strings.Fields(c.args)...)
		if out != want || (err != nil) != (c.want == nil) {
			t.Errorf("stop %s: %v\n%swant %s", c.args, err, out, want)
		}
	}
	if out, err := script(t, processes, nil, "kafka-server-stop.sh", "nonsense"); err == nil || !strings.Contains(out, "USAGE") {
		t.Errorf("%v %q", err, out)
	}
}
