//go:build unix

package cli

import (
	"bufio"
	"os"
	"strings"
	"testing"
)

// TestNullIsNoTerminal: nobody sits at /dev/null, where services and cron have their standard input.
func TestNullIsNoTerminal(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if isTerminal(null) {
		t.Error("/dev/null is taken for a terminal")
	}
}

// TestNobodyReadsOn: a consumer whose reader has what it wanted ends, also when no further record comes.
func TestNobodyReadsOn(t *testing.T) {
	c := startCluster(t)
	c.want(t, "Created topic t.\n", "", "topics", "--create", "--topic", "t")
	c.want(t, "", "one\n", "console-producer", "--topic", "t")
	for _, args := range []string{"tail t", "console-consumer --topic t --from-beginning", "console-consumer --topic t --group g"} {
		reader, pipe, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		var errs output
		code := make(chan int, 1)
		a := &app{stdout: pipe, pipe: pipe, stderr: &errs, signals: make(chan os.Signal, 1)}
		go func() { code <- a.run(append(strings.Fields(args), "--bootstrap-server", c.address)) }()
		if !strings.Contains(args, "group") { // which reads only what is new
			if line, err := bufio.NewReader(reader).ReadString('\n'); !strings.HasSuffix(line, "one\n") {
				t.Fatal(line, err)
			}
		}
		reader.Close()
		if got := <-code; got != exitOK {
			t.Errorf("%s: exit code %d: %s", args, got, &errs)
		}
		pipe.Close()
	}
}
