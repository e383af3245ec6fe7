package cli

import (
	"bufio"
	"io"
	"os"
	"strings"
	"testing"
)

// TestTopicDeletedUnderItsClients: who reads or writes a topic hears that it was deleted.
func TestTopicDeletedUnderItsClients(t *testing.T) {
	c := startCluster(t)
	c.want(t, "Created topic t.\n", "", "topics", "--create", "--topic", "t")
	lines, typed := io.Pipe()
	shown, screen := io.Pipe()
	ended := func(a *app, args ...string) <-chan int {
		code := make(chan int, 1)
		go func() { code <- a.run(append(args, "--bootstrap-server", c.address)) }()
		return code
	}
	var out, producerErrs, tailErrs output
	producer := ended(&app{stdin: lines, stdout: &out, stderr: &producerErrs, signals: make(chan os.Signal, 1)}, "console-producer", "--topic", "t")
	tail := ended(&app{stdout: screen, stderr: &tailErrs, signals: make(chan os.Signal, 1)}, "tail", "t")
	if _, err := io.WriteString(typed, "before\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(shown).ReadString('\n'); !strings.HasSuffix(line, " before\n") {
		t.Fatal(line, err)
	}
	c.want(t, "", "", "topics", "--delete", "--topic", "t")
	if _, err := io.WriteString(typed, "after\n"); err != nil {
		t.Fatal(err)
	}
	typed.Close()
	if code := <-producer; code != exitFailure || !strings.Contains(producerErrs.String(), "1 records were not written: topic t was deleted while it was written (UNKNOWN_TOPIC_ID)") {
		t.Errorf("producer: exit code %d: %s", code, &producerErrs)
	}
	if code := <-tail; code != exitFailure || !strings.Contains(tailErrs.String(), "topic t was deleted while it was read (UNKNOWN_TOPIC_ID)") {
		t.Errorf("tail: exit code %d: %s", code, &tailErrs)
	}
}
