package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// columns makes runs of blanks one, so that a test does not count them; those of a group without members are.
func columns(s string) string { return regexp.MustCompile(` +`).ReplaceAllString(s, " ") }

// reset runs a reset and returns its rows without the group.
func (c *cluster) reset(t *testing.T, args ...string) string {
	t.Helper()
	code, out, errs := c.run("", "consumer-groups", append([]string{"--reset-offsets", "--group", "g"}, args...)...)
	if code != exitOK {
		t.Fatalf("%v: exit code %d: %s", args, code, errs)
	}
	_, rows, found := strings.Cut(columns(out), "\nGROUP TOPIC PARTITION NEW-OFFSET\n")
	if !found {
		t.Fatalf("%v:\n%s", args, out)
	}
	return strings.TrimSuffix(strings.ReplaceAll(strings.ReplaceAll(rows, "\n", ";"), "g ", ""), ";")
}

func TestConsumerGroupsTool(t *testing.T) {
	c := startCluster(t)
	c.want(t, "Created topic t.\n", "", "topics", "--create", "--topic", "t", "--partitions", "2")
	c.want(t, "", "1\n2\n3\n4\n", "console-producer", "--topic", "t", "--partition", "0")
	c.want(t, "1\n2\n3\n", "", "console-consumer", "--topic", "t", "--group", "g", "--from-beginning", "--max-messages", "3")
	c.want(t, "g\n", "", "consumer-groups", "--list")
	c.want(t, "GROUP                     STATE               \ng                         Empty               \n", "", "consumer-groups", "--list", "--state")
	c.want(t, "GROUP                     TYPE                 STATE               \n", "", "consumer-groups", "--list", "--type", "--state", "Stable,Dead")
	c.want(t, "\nGROUP           TOPIC           PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG             CONSUMER-ID     HOST            CLIENT-ID\n"+
		"g               t               0          3               4               1               -               -               -\n",
		"", "consumer-groups", "--describe", "--group", "g")
	c.want(t, "\nGROUP           TOPIC           PARTITION  LEADER-EPOCH    CURRENT-OFFSET  LOG-END-OFFSET  LAG             CONSUMER-ID     HOST            CLIENT-ID\n"+
		"g               t               0          0               3               4               1               -               -               -\n",
		"", "consumer-groups", "--describe", "--group", "g", "--verbose")
	c.want(t, "\nGROUP           CONSUMER-ID     HOST            CLIENT-ID       #PARTITIONS     \n", "", "consumer-groups", "--describe", "--group", "g", "--members")
	c.want(t, "GROUP                     TYPE                \ng                         Classic             \n", "", "consumer-groups", "--list", "--type", "classic")
	c.want(t, "The regular expression `a.*` is valid.\n", "", "consumer-groups", "--validate-regex", "a.*")
	if code, out, _ := c.run("", "consumer-groups", "--validate-regex", "(a"); code != exitFailure || out != "The regular expression `(a` is invalid: missing closing ).\n" {
		t.Errorf("exit code %d: %s", code, out)
	}
	c.fails(t, exitUsage, "--state none: want Assigning, ", "consumer-groups", "--list", "--state", "none")
	c.fails(t, exitUsage, "--timeout has to be above 0", "consumer-groups", "--list", "--timeout", "0")
	_, out, _ := c.run("", "consumer-groups", "--describe", "--all-groups", "--output", "json")
	var groups []describedGroup
	if err := json.Unmarshal([]byte(out), &groups); err != nil || len(groups) != 1 || len(groups[0].Offsets) != 1 || *groups[0].Offsets[0].Lag != 1 ||
		fmt.Sprintf("%s:%d", groups[0].Coordinator.Host, groups[0].Coordinator.Port) != c.address {
		t.Errorf("%v:\n%s", err, out)
	}

	for _, s := range []struct {
		args []string
		want string
	}{
		{[]string{"--all-topics", "--to-earliest"}, "t 0 0"},
		{[]string{"--all-topics", "--to-latest"}, "t 0 4"},
		{[]string{"--topic", "t", "--to-current"}, "t 0 3;t 1 0"},
		{[]string{"--topic", "t:0", "--shift-by", "-2"}, "t 0 1"},
		{[]string{"--topic", "t:0", "--shift-by", "5"}, "t 0 4"},
		{[]string{"--topic", "t:0,1", "--to-offset", "2"}, "t 0 2;t 1 0"},
		{[]string{"--all-topics", "--to-datetime", "2020-01-01T00:00:00.000+01:00"}, "t 0 0"},
		{[]string{"--all-topics", "--to-datetime", "2120-01-01T00:00:00.000"}, "t 0 4"},
		{[]string{"--all-topics", "--by-duration", "P1D"}, "t 0 0"},
	} {
		if got := c.reset(t, append(s.args, "--dry-run")...); got != s.want {
			t.Errorf("%v: %q, want %q", s.args, got, s.want)
		}
	}
	if got := c.reset(t, "--all-topics", "--to-current", "--dry-run"); got != "t 0 3" {
		t.Errorf("dry runs changed something: %q", got)
	}
	_, csv, _ := c.run("", "consumer-groups", "--reset-offsets", "--group", "g", "--all-topics", "--to-offset", "1", "--export", "--dry-run")
	if csv != "t,0,1\n" {
		t.Errorf("export: %q", csv)
	}
	file := filepath.Join(t.TempDir(), "offsets.csv")
	if err := os.WriteFile(file, []byte(csv), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := c.reset(t, "--from-file", file, "--execute"); got != "t 0 1" {
		t.Errorf("from file: %q", got)
	}
	c.want(t, "2\n3\n4\n", "", "console-consumer", "--topic", "t", "--group", "g", "--max-messages", "3")

	// A member makes the group one that is not touched.
	c.kgo(t, kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.ClientID("me"), kgo.InstanceID("static"), kgo.Balancers(kgo.RangeBalancer()))
	assigned := time.Now().Add(time.Minute)
	for {
		_, out, _ = c.run("", "consumer-groups", "--describe", "--group", "g", "--members", "--verbose")
		if strings.Contains(out, "t:0,1") {
			break
		}
		if time.Now().After(assigned) {
			t.Fatalf("no assignment:\n%s", out)
		}
	}
	if want := `^\nGROUP CONSUMER-ID GROUP-INSTANCE-ID HOST CLIENT-ID #PARTITIONS CURRENT-EPOCH CURRENT-ASSIGNMENT TARGET-EPOCH TARGET-ASSIGNMENT \n` +
		`g static-\S+ static /127.0.0.1 me 2 - t:0,1 - - \n$`; !regexp.MustCompile(want).MatchString(columns(out)) {
		t.Errorf("members:\n%s", out)
	}
	_, out, _ = c.run("", "consumer-groups", "--describe", "--group", "g", "--state")
	if want := `^\nGROUP COORDINATOR \(ID\) ASSIGNMENT-STRATEGY STATE #MEMBERS\ng ` + regexp.QuoteMeta(c.address) + ` \(1\) range Stable 1\n$`; !regexp.MustCompile(want).MatchString(columns(out)) {
		t.Errorf("state:\n%s", out)
	}
	_, out, _ = c.run("", "consumer-groups", "--describe", "--group", "g")
	if want := `\ng t 0 4 4 0 static-\S+ /127.0.0.1 me\ng t 1 - 0 - static-\S+ /127.0.0.1 me\n$`; !regexp.MustCompile(want).MatchString(columns(out)) {
		t.Errorf("offsets:\n%s", out)
	}
	c.fails(t, exitFailure, "its state is Stable: stop its consumers first", "consumer-groups", "--reset-offsets", "--group", "g", "--all-topics", "--to-earliest", "--execute")
	c.fails(t, exitFailure, "group 'g' could not be deleted: it has members", "consumer-groups", "--delete", "--group", "g")
}

func TestConsumerGroupsOfGoneMembers(t *testing.T) {
	c := startCluster(t)
	c.want(t, "", "1\n2\n", "console-producer", "--topic", "t")
	c.want(t, "1\n", "", "console-consumer", "--topic", "t", "--group", "g", "--from-beginning", "--max-messages", "1")
	c.want(t, "Request succeeded for deleting offsets from group g.\n\nTOPIC           PARTITION  STATUS         \nt               0          Successful     \n",
		"", "consumer-groups", "--delete-offsets", "--group", "g", "--topic", "t")
	// An offset may be given to a group that does not exist.
	if code, out, errs := c.run("", "consumer-groups", "--reset-offsets", "--group", "new", "--topic", "t:0", "--to-offset", "1", "--execute"); code != exitOK || !strings.Contains(columns(out), "new t 0 1") {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
	c.want(t, "2\n", "", "console-consumer", "--topic", "t", "--group", "new", "--max-messages", "1")
	c.want(t, "Deletion of requested consumer groups ('new') was successful.\n", "", "consumer-groups", "--delete", "--group", "new")

	c.fails(t, exitFailure, "consumer group 'none' does not exist", "consumer-groups", "--describe", "--group", "none")
	c.fails(t, exitFailure, "group 'none' could not be deleted", "consumer-groups", "--delete", "--group", "none")
	c.fails(t, exitFailure, "the group has no offset there that could be shifted", "consumer-groups", "--reset-offsets", "--group", "none", "--topic", "t", "--shift-by", "1")
	c.fails(t, exitFailure, `topic "u" does not exist`, "consumer-groups", "--reset-offsets", "--group", "none", "--topic", "u", "--to-latest")
	c.fails(t, exitFailure, "topic t has no partition 9", "consumer-groups", "--reset-offsets", "--group", "none", "--topic", "t:9", "--to-latest")
	c.fails(t, exitUsage, "want YYYY-MM-DDThh:mm:ss.sss", "consumer-groups", "--reset-offsets", "--group", "none", "--topic", "t", "--to-datetime", "today")
	c.fails(t, exitUsage, "want PnDTnHnMnS", "consumer-groups", "--reset-offsets", "--group", "none", "--topic", "t", "--by-duration", "PT")
	c.fails(t, exitUsage, "want exactly one of --to-earliest", "consumer-groups", "--reset-offsets", "--group", "g", "--topic", "t")
	c.fails(t, exitUsage, "needs either --topic or --all-topics", "consumer-groups", "--reset-offsets", "--group", "g", "--to-latest")
	c.fails(t, exitUsage, "--describe needs either --group or --all-groups", "consumer-groups", "--describe")
	c.fails(t, exitUsage, "--dry-run and --execute exclude", "consumer-groups", "--reset-offsets", "--group", "g", "--topic", "t", "--to-latest", "--dry-run", "--execute")
	c.fails(t, exitUsage, `"x" is not a flag`, "consumer-groups", "--list", "x")
	file := filepath.Join(t.TempDir(), "offsets.csv")
	if err := os.WriteFile(file, []byte("t,0,1\nt,0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c.fails(t, exitUsage, file+`: line 2: "t,0": want topic,partition,offset, as --reset-offsets --export writes it`, "consumer-groups", "--reset-offsets", "--group", "g", "--from-file", file)
	for text, want := range map[string]string{
		"t,x,1\n": `line 1: "t,x,1": "x" is no partition`, "t,0,many\n": `"many" is no offset`, "t,0,1\nt,0,2\n": "line 1 names the same partition",
		"h,t,0,1\n": `group "h" is not one of --group`, "": "it has no offsets", "t,0,\"1\n": "line 1", "nonesuch,0,1\n": `topic "nonesuch" does not exist`, "t,99,1\n": "topic t has no partition 99",
	} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if code, _, errs := c.run("", "consumer-groups", "--reset-offsets", "--group", "g", "--from-file", file, "--dry-run"); code == exitOK || !strings.Contains(errs, want) {
			t.Errorf("%q: exit code %d, want %q:\n%s", text, code, want, errs)
		}
	}
}

func TestDurations(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"P1D": 24 * time.Hour, "PT1H30M": 90 * time.Minute, "P2DT3S": 48*time.Hour + 3*time.Second, "pt0.5s": 500 * time.Millisecond,
		"": -1, "P": -1, "PT": -1, "1D": -1, "P1H": -1, "PT1D": -1, "P999999999999D": -1,
	} {
		got, err := parseISODuration(text)
		if err == nil && got != want || err != nil && want >= 0 {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
}

func TestGroupsMigrate(t *testing.T) {
	c := startCluster(t)
	c.want(t, "Created topic t.\n", "", "topics", "--create", "--topic", "t", "--partitions", "3")
	c.fails(t, exitFailure, "group g has no offsets in ZooKeeper's tree", "consumer-groups", "--migrate-from-zookeeper", "g", "--dry-run")
	c.want(t, "", "1\n2\n3\n4\n", "console-producer", "--topic", "t", "--partition", "0")
	c.want(t, "1\n2\n3\n", "", "console-consumer", "--topic", "t", "--group", "g", "--from-beginning", "--max-messages", "3")

	// To the tree: at first only to look.
	const header = "\nGROUP TOPIC PARTITION ZOOKEEPER KAFKA\n"
	migrate := func(want string, args ...string) {
		t.Helper()
		code, out, errs := c.run("", "consumer-groups", args...)
		if code != exitOK || columns(out) != want {
			t.Errorf("%v: exit code %d:\n%s%s\nwant:\n%s", args, code, columns(out), errs, want)
		}
	}
	migrate(header+"g t 0 - 3\n", "--migrate-to-zookeeper", "g")
	c.fails(t, exitFailure, "group g has no offsets in ZooKeeper's tree", "consumer-groups", "--migrate-from-zookeeper", "g")
	migrate(header+"g t 0 - 3\n\nCopied 1 offsets of group g from __consumer_offsets to ZooKeeper's tree.\n", "--migrate-to-zookeeper", "g", "--execute")
	migrate(header+"g t 0 3 3\n", "--migrate-from-zookeeper", "g", "--dry-run")

	// And back: what only the other side has stays.
	if code, _, errs := c.run("", "consumer-groups", "--reset-offsets", "--group", "g", "--topic", "t:0,1", "--to-earliest", "--execute"); code != exitOK {
		t.Fatal(errs)
	}
	migrate(header+"g t 0 3 0\ng t 1 - 0\n\nCopied 1 offsets of group g from ZooKeeper's tree to __consumer_offsets.\n", "--migrate-from-zookeeper", "g", "--execute")
	migrate(header+"g t 0 3 3\ng t 1 - 0\n", "--migrate-from-zookeeper", "g", "--dry-run")
	_, out, _ := c.run("", "consumer-groups", "--migrate-from-zookeeper", "g", "--dry-run", "--output", "json")
	var rows []movedOffset
	if err := json.Unmarshal([]byte(out), &rows); err != nil || len(rows) != 2 || *rows[0].ZooKeeper != 3 || rows[1].ZooKeeper != nil || *rows[1].Kafka != 0 {
		t.Errorf("%v:\n%s", err, out)
	}

	member := c.kgo(t, kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	member.PollFetches(ctx)
	c.fails(t, exitFailure, "the group has members; stop them first", "consumer-groups", "--migrate-from-zookeeper", "g", "--execute")

	c.fails(t, exitUsage, "--migrate-from-zookeeper needs the name of a group", "consumer-groups", "--migrate-from-zookeeper", "")
	c.fails(t, exitUsage, "--group goes with", "consumer-groups", "--migrate-from-zookeeper", "g", "--group", "g")
	c.fails(t, exitUsage, "exclude each other", "consumer-groups", "--migrate-from-zookeeper", "g", "--migrate-to-zookeeper", "g")
}
