package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestGetOffsetsTool(t *testing.T) {
	c := startCluster(t)
	for _, topic := range []string{"orders", "other"} {
		c.want(t, "Created topic "+topic+".\n", "", "topics", "--create", "--topic", topic, "--partitions", "2")
	}
	c.want(t, "", "a\nb\nc\n", "console-producer", "--topic", "orders", "--partition", "1")
	c.want(t, "orders:0:0\norders:1:3\nother:0:0\nother:1:0\n", "", "get-offsets")
	c.want(t, "orders:0:0\norders:1:3\n", "", "get-offsets", "--broker-list", c.address, "--topic", "ord.*", "--time", "-1", "--exclude-internal-topics")
	c.want(t, "orders:1:0\nother:0:0\n", "", "get-offsets", "--topic-partitions", "orders:1-,other:-1", "--time", "earliest")
	c.want(t, "orders:1:0\n", "", "get-offsets", "--time", "5")
	c.want(t, "", "x\n", "console-producer", "--topic", "other", "--partition", "1")
	c.want(t, "other:1:0\n", "", "get-offsets", "--time", "max-timestamp", "--partitions", "0,1", "--topic", "none,other")
	_, out, _ := c.run("", "get-offsets", "--topic", "orders", "--partitions", "1", "--output", "json")
	var listed []listedOffset
	if err := json.Unmarshal([]byte(out), &listed); err != nil || len(listed) != 1 || listed[0].Offset != 3 {
		t.Errorf("%v: %s", err, out)
	}
	c.fails(t, exitFailure, "no topic-partition matches", "get-offsets", "--topic", "none")
	c.fails(t, exitUsage, "want latest, earliest", "get-offsets", "--time", "yesterday")
	c.fails(t, exitUsage, "cannot be used with", "get-offsets", "--topic", "a", "--topic-partitions", "b")
	c.fails(t, exitUsage, `"x" is no partition`, "get-offsets", "--partitions", "x")
}

func TestPartitionRules(t *testing.T) {
	for rule, want := range map[string]string{
		"t": "t0 t1 t2 t3", "t:2": "t2", "t:1-3": "t1 t2", "t:2-": "t2 t3", "t:-2": "t0 t1", ":3": "t3 u3", ":": "t0 t1 t2 t3 u0 u1 u2 u3",
		"t:0,u:1": "t0 u1", "t:": "t0 t1 t2 t3", "t:x": "error", "t:-": "error", "t:1-x": "error", "[": "error", "t:-1-2": "error",
	} {
		rules, err := parsePartitionRules(rule)
		var got []string
		for _, topic := range []string{"t", "u"} {
			for p := range int32(4) {
				if slices.ContainsFunc(rules, func(r partitionRange) bool { return r.topic(topic) && p >= r.from && p < r.to }) {
					got = append(got, topic+string('0'+rune(p)))
				}
			}
		}
		if s := strings.Join(got, " "); err == nil && s != want || (err != nil) != (want == "error") {
			t.Errorf("%q: %q, %v, want %q", rule, s, err, want)
		}
	}
}

func TestConfigsTool(t *testing.T) {
	c := startCluster(t)
	c.want(t, "Created topic t.\n", "", "topics", "--create", "--topic", "t", "--config", "retention.ms=5")
	c.want(t, "Completed updating config for topic t.\n", "", "configs", "--alter", "--entity-type", "topics", "--entity-name", "t",
		"--add-config", "cleanup.policy=[compact,delete],segment.ms=5000", "--delete-config", "retention.ms")
	c.want(t, "Dynamic configs for topic t are:\n"+
		"  cleanup.policy=compact,delete sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact,delete, DEFAULT_CONFIG:log.cleanup.policy=delete}\n"+
		"  segment.ms=5000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:segment.ms=5000}\n", "", "configs", "--describe", "--topic", "t")
	c.want(t, "Dynamic configs for broker 1 are:\n", "", "configs", "--describe", "--broker", "1")
	c.want(t, "Dynamic configs for broker 1 are:\nDefault configs for brokers in the cluster are:\n"+
		"  min.insync.replicas=1 sensitive=false synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG:min.insync.replicas=1}\n", "", "configs", "--describe", "--entity-type", "brokers")
	_, out, _ := c.run("", "configs", "--describe", "--broker", "1", "--all")
	if !strings.HasPrefix(out, "All configs for broker 1 are:\n") || !strings.Contains(out, "\n  num.partitions=1 sensitive=false synonyms={DEFAULT_CONFIG:num.partitions=1}\n") {
		t.Errorf("--all:\n%s", out)
	}
	_, out, _ = c.run("", "configs", "--describe", "--topic", "t", "--output", "json")
	if !strings.Contains(out, `"name": "segment.ms"`) || !json.Valid([]byte(out)) {
		t.Errorf("JSON:\n%s", out)
	}
	file := filepath.Join(t.TempDir(), "add")
	if err := os.WriteFile(file, []byte("retention.bytes = 7\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c.want(t, "Completed updating config for topic t.\n", "", "configs", "--alter", "--topic", "t", "--add-config-file", file, "--delete-config", "cleanup.policy, segment.ms")
	c.want(t, "Dynamic configs for topic t are:\n  retention.bytes=7 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.bytes=7, DEFAULT_CONFIG:log.retention.bytes=-1}\n",
		"", "configs", "--describe", "--entity-type", "topics")

	c.fails(t, exitFailure, "INVALID_CONFIG", "configs", "--alter", "--topic", "t", "--add-config", "retnetion.ms=5")
	c.fails(t, exitFailure, "the topic 'none' doesn't exist", "configs", "--describe", "--topic", "none")
	c.fails(t, exitUsage, "quotas and SCRAM credentials are not served", "configs", "--describe", "--entity-type", "users")
	c.fails(t, exitUsage, "clients have no settings yet", "configs", "--alter", "--client", "x", "--add-config", "producer_byte_rate=1")
	c.fails(t, exitUsage, "ips have no settings yet", "configs", "--describe", "--ip-defaults")
	c.fails(t, exitUsage, "ask a broker instead", "configs", "--bootstrap-controller", "x", "--describe", "--broker", "1")
	c.fails(t, exitUsage, "--bootstrap-server and --zookeeper exclude each other", "topics", "--zookeeper", "x:2181", "--list")
	c.fails(t, exitUsage, "use --bootstrap-server", "get-offsets", "--zookeeper", "x:2181", "--topic", "t")
	c.fails(t, exitUsage, "want exactly one of --entity-type", "configs", "--describe")
	c.fails(t, exitUsage, "--alter needs --entity-name", "configs", "--alter", "--entity-type", "topics")
	c.fails(t, exitUsage, "--alter needs --add-config", "configs", "--alter", "--topic", "t")
	c.fails(t, exitUsage, "is its node.id", "configs", "--describe", "--broker", "one")
	c.fails(t, exitFailure, "broker 7 does not exist or is not up; there are 1\n", "configs", "--describe", "--broker", "7")
	c.fails(t, exitFailure, "broker 7 does not exist or is not up; there are 1\n", "configs", "--alter", "--broker", "7", "--add-config", "log.cleaner.threads=2")
	c.fails(t, exitFailure, "broker 7 does not exist or is not up; there are 1\n", "configs", "--describe", "--broker-logger", "7")
	c.fails(t, exitUsage, "a bracket is not closed", "configs", "--alter", "--topic", "t", "--add-config", "a=[b,c")
	c.fails(t, exitUsage, "both set and deleted", "configs", "--alter", "--topic", "t", "--add-config", "a=b", "--delete-config", "a")
	c.fails(t, exitUsage, "--all goes with --describe", "configs", "--alter", "--topic", "t", "--all")
	c.fails(t, exitFailure, "topic t has no setting of its own for segment.ms, retention.mss", "configs", "--alter", "--topic", "t",
		"--add-config", "retention.bytes=8", "--delete-config", "segment.ms,retention.mss")
	c.want(t, "Dynamic configs for topic t are:\n  retention.bytes=7 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.bytes=7, DEFAULT_CONFIG:log.retention.bytes=-1}\n",
		"", "configs", "--describe", "--topic", "t")
}

func TestDeleteRecordsTool(t *testing.T) {
	c := startCluster(t)
	c.want(t, "Created topic t.\n", "", "topics", "--create", "--topic", "t")
	c.want(t, "", "a\nb\nc\n", "console-producer", "--topic", "t")
	file := filepath.Join(t.TempDir(), "offsets.json")
	offsets := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	offsets(`{"partitions":[{"topic":"t","partition":0,"offset":2}],"version":1}`)
	c.want(t, "Executing records delete operation\nRecords delete operation completed:\npartition: t-0\tlow_watermark: 2\n", "", "delete-records", "--offset-json-file", file)
	c.want(t, "t:0:2\n", "", "get-offsets", "--time", "earliest")
	c.want(t, "[\n  {\n    \"topic\": \"t\",\n    \"partition\": 0,\n    \"lowWatermark\": 2\n  }\n]\n", "", "delete-records", "--offset-json-file", file, "--output", "json")
	offsets(`{"partitions":[{"topic":"t","partition":0,"offset":9},{"topic":"t","partition":5,"offset":0}]}`)
	c.fails(t, exitFailure, "t-5 does not exist\nt-0: OFFSET_OUT_OF_RANGE", "delete-records", "--offset-json-file", file)
	for text, want := range map[string]string{
		`{`: "unexpected end", `{"version":2}`: "version 2 is not known", `{"version":1}`: "names no partitions",
		`{"partitions":[{"topic":"t","offset":9}]}`:                                                      "entry 1 lacks",
		`{"partitions":[{"topic":"t","partition":0,"offset":9},{"topic":"t","partition":0,"offset":9}]}`: "t-0 is there twice",
	} {
		offsets(text)
		c.fails(t, exitUsage, want, "delete-records", "--offset-json-file", file)
	}
	c.fails(t, exitUsage, "--offset-json-file is required", "delete-records")
}

func TestClusterTools(t *testing.T) {
	c := startCluster(t)
	c.want(t, "Created topic t.\n", "", "topics", "--create", "--topic", "t")
	c.want(t, "Cluster ID: …\n", "", "cluster", "cluster-id")
	host, port, _ := strings.Cut(c.address, ":")
	c.want(t, "ID         HOST      PORT       RACK       STATE      ENDPOINT_TYPE  \n1          "+host+" "+port+strings.Repeat(" ", 10-len(port))+
		" null       unfenced   broker         \n", "", "cluster", "list-endpoints")
	for _, look := range []struct {
		args []string
		want string
	}{
		{[]string{"metadata-quorum", "describe", "--status"}, `^ClusterId:              \S{22}\nLeaderId:               1\nLeaderEpoch:            \d+\n` +
			`HighWatermark:          \d+\nMaxFollowerLag:         0\nMaxFollowerLagTimeMs:   0\nCurrentVoters:          \[\{"id": 1, .*\}\]\nCurrentObservers:       \[\]\n$`},
		{[]string{"metadata-quorum", "describe", "--replication"}, `^NodeId\tDirectoryId +\tLogEndOffset\tLag\tLastFetchTimestamp\tLastCaughtUpTimestamp\tStatus\t\n` +
			`1 +\t\S{22}\t\d+ +\t0  \t\d+ +\t\d+ +\tLeader\t\n$`},
		{[]string{"metadata-quorum", "describe", "--replication", "--human-readable"}, `\t\d+ ms ago +\t\d+ ms ago +\tLeader`},
		{[]string{"metadata-quorum", "describe", "--status", "--output", "json"}, `"leaderId": 1,`},
		{[]string{"log-dirs", "--describe", "--topic-list", "t"}, `^Querying brokers for log directories information\nReceived log directory information from brokers 1\n` +
			`\{"brokers":\[\{"broker":1,"logDirs":\[\{"partitions":\[\{"partition":"t-0","size":0,"offsetLag":0,"isFuture":false\}\],"error":null,"logDir":"/disk"\}\]\}\],"version":1\}\n$`},
		{[]string{"log-dirs", "--describe", "--broker-list", "1", "--output", "json"}, `^\{"brokers"`},
		{[]string{"broker-api-versions"}, `^\S+ \(id: 1 rack: null isFenced: false\) -> \(\n\tProduce\(0\): 0 to 13 \[usable: 13\],\n`},
		{[]string{"broker-api-versions", "--output", "json"}, `"name": "Produce",\s+"min": 0,\s+"max": 13,\s+"usable": 13`},
	} {
		code, out, errs := c.run("", look.args[0], look.args[1:]...)
		if code != exitOK || !regexp.MustCompile(look.want).MatchString(out) {
			t.Errorf("%v: exit code %d, want %s:\n%s%s", look.args, code, look.want, out, errs)
		}
	}
	c.fails(t, exitFailure, "broker 2 does not exist; there are 1", "log-dirs", "--describe", "--broker-list", "1,2")
	c.fails(t, exitUsage, "--describe is required", "log-dirs")
	c.fails(t, exitUsage, "want cluster-id, list-endpoints, api-versions or unregister", "cluster", "explode")
	c.fails(t, exitUsage, "unregister needs --id", "cluster", "unregister")
	c.fails(t, exitUsage, "want one of --status and --replication", "metadata-quorum", "describe")
	c.fails(t, exitUsage, "needs --command-config", "metadata-quorum", "add-controller")
	c.fails(t, exitUsage, "needs --controller-id", "metadata-quorum", "remove-controller")
	c.fails(t, exitUsage, "--controller-directory-id", "metadata-quorum", "remove-controller", "-i", "1", "-d", "x")
	c.fails(t, exitUsage, "want describe, add-controller", "metadata-quorum", "list")
}

func TestQuorumLags(t *testing.T) {
	s := quorumState{Voters: []quorumReplica{
		{ID: 1, LogEnd: 100, LastCaughtUp: 1000, Status: "Leader", Directory: "AAAAAAAAAAAAAAAAAAAAAA", Endpoints: []string{"C://a:1", "D://a:2"}},
		{ID: 2, LogEnd: 90, LastCaughtUp: 700, Status: "Follower", Directory: "MkU3OEVBNTcwNTJENDM2Qg"},
	}, Observers: []quorumReplica{{ID: 3, LogEnd: 50, LastCaughtUp: -1, Status: "Observer"}}}
	if err := s.lags(); err != nil || s.MaxLag != 10 || s.MaxLagMs != 300 || s.Observers[0].Lag != 50 {
		t.Errorf("%v %+v", err, s)
	}
	if got, want := replicaList(s.Voters), `[{"id": 1, "endpoints": ["C://a:1", "D://a:2"]}, {"id": 2, "directoryId": "MkU3OEVBNTcwNTJENDM2Qg"}]`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	s.Voters[0].Status = "Follower"
	if err := s.lags(); err == nil {
		t.Error("a quorum without a leader has lags")
	}
}
