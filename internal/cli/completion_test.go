package cli

import (
	"strings"
	"testing"
	"time"
)

// suggested runs what a shell runs and returns the words; the last one was begun.
func suggested(words ...string) []string {
	var out, errs output
	a := &app{stdout: &out, stderr: &errs}
	a.run(append([]string{"__complete"}, words...))
	all, _, _ := strings.Cut(out.String(), "\n:")
	if all == "" || strings.HasPrefix(all, ":") {
		return nil
	}
	return strings.Split(all, "\n")
}

func TestCompletion(t *testing.T) {
	defer func(before time.Duration) { completionTimeout = before }(completionTimeout)
	completionTimeout = time.Minute // however busy the machine is, what is suggested is looked at
	c := startCluster(t)
	c.want(t, "Created topic orders.\n", "", "topics", "--create", "--topic", "orders")
	c.want(t, "Created topic logs.\n", "", "topics", "--create", "--topic", "logs")
	c.want(t, "", "x\n", "console-producer", "--topic", "orders")
	c.want(t, "x\n", "", "console-consumer", "--topic", "orders", "--group", "audit", "--from-beginning", "--max-messages", "1")
	at := "--bootstrap-server=" + c.address
	for _, test := range []struct {
		words []string
		want  string // by blank; the first are enough
	}{
		{[]string{"topics", at, "--describe", "--topic", ""}, "__consumer_offsets logs orders"},
		{[]string{"topics", at, "--describe", "--topic", "o"}, "orders"},
		{[]string{"get-offsets", "--broker-list", c.address, "--topic", "o"}, "orders"},
		{[]string{"tail", at, ""}, "__consumer_offsets logs orders"},
		{[]string{"tail", at, "orders", ""}, ""},
		{[]string{"consumer-groups", at, "--describe", "--group", ""}, "audit"},
		{[]string{"configs", at, "--describe", "--broker", ""}, "1"},
		{[]string{"configs", "--alter", "--topic", "x", "--add-config", "retention."}, "retention.bytes= retention.ms="},
		{[]string{"configs", "--alter", "--topic", "x", "--delete-config", "retention.m"}, "retention.ms"},
		{[]string{"configs", "--alter", "--broker", "1", "--add-config", "log.retention.m"}, "log.retention.ms="},
		{[]string{"configs", "--entity-type", "br"}, "brokers broker-loggers"},
		{[]string{"get-offsets", "--time", "e"}, "earliest earliest-local earliest-pending-upload"},
		{[]string{"topics", "--output", ""}, "text json"},
		{[]string{"topi"}, "topics\tCreate,"},
	} {
		if got := strings.Join(suggested(test.words...), " "); got != test.want && (test.want == "" || !strings.HasPrefix(got, test.want)) {
			t.Errorf("%q suggests %q, want %q", test.words, got, test.want)
		}
	}
}

// TestCompletionIsSilent: a broker that is away costs a shell neither time nor noise.
func TestCompletionIsSilent(t *testing.T) {
	began := time.Now()
	if got := suggested("topics", "--bootstrap-server=127.0.0.1:1", "--topic", ""); got != nil {
		t.Errorf("%q", got)
	}
	if took := time.Since(began); took > 20*completionTimeout {
		t.Errorf("took %v", took)
	}
}
