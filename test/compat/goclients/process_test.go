package goclients

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// member names, in the environment of a process that is to be killed, what it shall be: client, strategy and group.
const member = "MOLDAU_MEMBER"

// startProcess starts another process of this test binary as a member of a group, and returns what kills it.
func startProcess(t *testing.T, client, strategy, group string) (kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestMember$")
	cmd.Env = append(cmd.Environ(), member+"="+client+" "+strategy+" "+group)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	t.Cleanup(func() {
		kill()
		if t.Failed() {
			t.Logf("the member that was killed: %s", &out)
		}
	})
	return kill
}

// TestMember is what the process that startProcess starts does, until it is killed; it ends by itself after a while.
func TestMember(t *testing.T) {
	words := strings.Fields(os.Getenv(member))
	if len(words) != 3 {
		t.Skip("not a process of startProcess")
	}
	var read shelf
	client, strategy, group := words[0], words[1], words[2]
	switch client {
	case "sarama":
		defer startSarama(t, address(t), group, &read, saramaStrategies()[strategy], "").close()
	case "kafka-go":
		defer startKafkaGo(t, address(t), group, &read, kafkaGoBalancers()[strategy]).close()
	}
	eventually(t, "killed", time.Minute, func() bool { return false })
}
