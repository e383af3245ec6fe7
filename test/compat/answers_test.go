package compat

import (
	"flag"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/test/harness"
)

var update = flag.Bool("update", false, "ask Apache Kafka and write testdata/answers.txt anew")

const answersFile = "testdata/answers.txt"

// answer is one line of the file: what Apache Kafka says, and what we say if it is something else.
type answer struct{ kafka, ours string }

// TestAnswers asks what no honest client asks and compares the answers with Apache Kafka's, which are kept in a file. Under
// MOLDAU_EFFORT=night the file is compared with Apache Kafka itself.
func TestAnswers(t *testing.T) {
	kept := readAnswers(t, answersFile)
	n := harness.Start(t)
	ours := askAll(t, n.Addr)
	if *update {
		var questions []string
		for _, l := range lies() {
			questions = append(questions, "batch: "+l.name)
		}
		for _, w := range wishes() {
			questions = append(questions, w.name)
		}
		writeAnswers(t, answersFile, questions, ours, askAll(t, apacheKafka(t)))
		return
	}
	compareAnswers(t, answersFile, kept, ours)
	if os.Getenv("MOLDAU_EFFORT") == "night" {
		compareKafka(t, kept, askAll(t, apacheKafka(t)))
	}
}

// compareAnswers wants of us what the file says of us.
func compareAnswers(t *testing.T, path string, kept map[string]answer, ours map[string]string) {
	t.Helper()
	for question, said := range ours {
		want, ok := kept[question]
		if want.ours == "" {
			want.ours = want.kafka
		}
		if !ok || said != want.ours {
			t.Errorf("%s: %s, want %s", question, said, want.ours)
		}
	}
	if len(kept) != len(ours) {
		t.Errorf("%d questions, %d answers in %s: run with -update", len(ours), len(kept), path)
	}
}

// compareKafka wants of Apache Kafka what the file says of it.
func compareKafka(t *testing.T, kept map[string]answer, kafkas map[string]string) {
	t.Helper()
	for question, said := range kafkas {
		if said != kept[question].kafka {
			t.Errorf("%s: Apache Kafka says %s, and the file %s", question, said, kept[question].kafka)
		}
	}
}

func apacheKafka(t *testing.T, extra ...string) string {
	t.Helper()
	b := harness.ApacheKafka(t, harness.KafkaVersion).PrepareBroker(t, extra...)
	b.Spawn(t)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if conn, err := net.Dial("tcp", b.Addr); err == nil {
			conn.Close()
			return b.Addr
		}
		if time.Now().After(deadline) {
			t.Fatalf("Apache Kafka does not start:\n%s", lastLines(b.Log(), 20))
		}
	}
}

// askAll asks every question, in order: some leave something behind.
func askAll(t *testing.T, address string) map[string]string {
	t.Helper()
	answers := make(map[string]string)
	r := dialRaw(t, address)
	createTopics(t, r)
	r.conn.Close()
	for _, l := range lies() {
		answers["batch: "+l.name] = l.tell(t, address)
	}
	for _, w := range wishes() {
		r := dialRaw(t, address)
		code, err := w.ask(r)
		answers[w.name] = answerName(code)
		if err != nil {
			answers[w.name] = "closed"
		}
		r.conn.Close()
	}
	return answers
}

func answerName(code int16) string {
	if code == 0 {
		return "accepted"
	}
	return kerr.TypedErrorForCode(code).Message
}

func readAnswers(t *testing.T, path string) map[string]answer {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !*update {
		t.Fatal(err)
	}
	kept := make(map[string]answer)
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if strings.HasPrefix(line, "#") || len(fields) < 2 {
			continue
		}
		a := answer{kafka: fields[1]}
		if len(fields) > 2 {
			a.ours = fields[2]
		}
		kept[fields[0]] = a
	}
	return kept
}

func writeAnswers(t *testing.T, path string, questions []string, ours, kafkas map[string]string) {
	t.Helper()
	var text strings.Builder
	fmt.Fprintf(&text, "# question, answer of Apache Kafka %s, ours if it is another. Written by: go test ./test/compat -run %s -update\n", harness.KafkaVersion, t.Name())
	for _, question := range questions {
		fmt.Fprintf(&text, "%s\t%s", question, kafkas[question])
		if ours[question] != kafkas[question] {
			fmt.Fprintf(&text, "\t%s", ours[question])
		}
		text.WriteString("\n")
	}
	if err := os.MkdirAll("testdata", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
