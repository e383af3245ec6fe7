package cli

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
)

// untimed takes times and rates out of events.
func untimed(s string) string {
	return regexp.MustCompile(`"(timestamp|avg_throughput)":[\d.E]+`).ReplaceAllString(s, `"$1":0`)
}

func TestVerifiableTools(t *testing.T) {
	c := startCluster(t)
	code, out, errs := c.run("", "verifiable-producer", "--topic", "v", "--max-messages", "3", "--value-prefix", "7", "--repeating-keys", "2", "--message-create-time", "1000")
	if want := `{"timestamp":0,"name":"startup_complete"}
{"timestamp":0,"name":"producer_send_success","key":"0","value":"7.0","offset":0,"topic":"v","partition":0}
{"timestamp":0,"name":"producer_send_success","key":"1","value":"7.1","offset":1,"topic":"v","partition":0}
{"timestamp":0,"name":"producer_send_success","key":"0","value":"7.2","offset":2,"topic":"v","partition":0}
{"timestamp":0,"name":"shutdown_complete"}
{"timestamp":0,"name":"tool_data","sent":3,"acked":3,"target_throughput":-1,"avg_throughput":0}
`; code != exitOK || untimed(out) != want {
		t.Errorf("exit code %d:\n%s%s\nwant:\n%s", code, untimed(out), errs, want)
	}
	code, out, errs = c.run("", "verifiable-consumer", "--topic", "v", "--group-id", "g", "--max-messages", "2", "--verbose")
	if want := `{"timestamp":0,"name":"startup_complete"}
{"timestamp":0,"name":"partitions_assigned","partitions":[{"topic":"v","partition":0}]}
{"timestamp":0,"name":"record_data","key":"0","value":"7.0","topic":"v","partition":0,"offset":0}
{"timestamp":0,"name":"record_data","key":"1","value":"7.1","topic":"v","partition":0,"offset":1}
{"timestamp":0,"name":"records_consumed","count":2,"partitions":[{"topic":"v","partition":0,"count":2,"minOffset":0,"maxOffset":1}]}
{"timestamp":0,"name":"offsets_committed","offsets":[{"topic":"v","partition":0,"offset":2}],"success":true}
{"timestamp":0,"name":"partitions_revoked","partitions":[{"topic":"v","partition":0}]}
{"timestamp":0,"name":"shutdown_complete"}
`; code != exitOK || untimed(out) != want {
		t.Errorf("exit code %d:\n%s%s\nwant:\n%s", code, untimed(out), errs, want)
	}
	c.want(t, "v,0,2\n", "", "consumer-groups", "--reset-offsets", "--group", "g", "--all-topics", "--to-current", "--dry-run", "--export")
	c.fails(t, exitUsage, "--topic and --group-id are required", "verifiable-consumer", "--topic", "v")
	c.fails(t, exitUsage, "speaks the classic protocol only", "verifiable-consumer", "--topic", "v", "--group-id", "g", "--group-protocol", "consumer")
	c.fails(t, exitUsage, "want earliest, latest or none", "verifiable-consumer", "--topic", "v", "--group-id", "g", "--reset-policy", "x")
	c.fails(t, exitUsage, "--topic is required", "verifiable-producer")
	c.fails(t, exitUsage, "--repeating-keys has to be above 0", "verifiable-producer", "--topic", "v", "--repeating-keys", "0")

	c.want(t, "GROUP                TYPE                 PROTOCOL            \ng                    Classic              consumer             \n", "", "groups", "--list", "--consumer")
	c.want(t, "GROUP                TYPE                 PROTOCOL            \n", "", "groups", "--list", "--share")
	c.fails(t, exitUsage, "want exactly one of --list", "groups")
	c.fails(t, exitUsage, "exclude each other", "groups", "--list", "--share", "--streams")
	c.fails(t, exitUsage, "--group-type x: want classic", "groups", "--list", "--group-type", "x")
}

func TestFeaturesTool(t *testing.T) {
	c := startCluster(t)
	code, out, errs := c.run("", "features", "describe")
	if code != exitOK || !regexp.MustCompile(`(?m)^Feature: metadata\.version +SupportedMinVersion: 3\.3-IV3 +SupportedMaxVersion: 4\.4-IV2 +FinalizedVersionLevel: 4\.4-IV2 +Epoch: \d+$`).MatchString(out) {
		t.Errorf("exit code %d:\n%s%s", code, out, errs)
	}
	if _, one, _ := c.run("", "features", "describe", "--node-id", "1"); regexp.MustCompile(`Epoch: \d+`).ReplaceAllString(one, "") != regexp.MustCompile(`Epoch: \d+`).ReplaceAllString(out, "") {
		t.Errorf("node 1 says:\n%s", one)
	}
	c.fails(t, exitUsage, "want one of describe", "features", "x")
	c.fails(t, exitUsage, "upgrade needs --feature", "features", "upgrade")
	c.fails(t, exitUsage, "want name=level", "features", "upgrade", "--feature", "metadata.version")
	c.fails(t, exitUsage, "want a name alone", "features", "disable", "--feature", "metadata.version=1")
	c.fails(t, exitUsage, "more than once", "features", "upgrade", "--feature", "a=1", "--feature", "a=2")
	c.fails(t, exitUsage, "no metadata.version that is known", "features", "upgrade", "--release-version", "9.9")
	c.fails(t, exitFailure, "", "features", "upgrade", "--feature", "metadata.version=99")
	c.fails(t, exitUsage, "unknown metadata.version", "features", "version-mapping", "--release-version", "9.9")
	c.fails(t, exitUsage, "needs --feature", "features", "feature-dependencies")
	c.fails(t, exitFailure, "unknown feature colour", "features", "feature-dependencies", "--feature", "colour=1")
	c.fails(t, exitFailure, "has no level 3", "features", "feature-dependencies", "--feature", "share.version=3")
	for _, step := range []struct{ args, want string }{
		{"version-mapping --release-version 4.1", "metadata.version=27 (4.1)\nkraft.version=1\ntransaction.version=2\ngroup.version=1\neligible.leader.replicas.version=1\nshare.version=0\nstreams.version=0\n"},
		{"version-mapping --release-version 3.8-IV0", "metadata.version=20 (3.8-IV0)\nkraft.version=0\ntransaction.version=0\ngroup.version=0\neligible.leader.replicas.version=0\nshare.version=0\nstreams.version=0\n"},
		{"version-mapping", "metadata.version=33 (4.4-IV2)\nkraft.version=1\ntransaction.version=2\ngroup.version=1\neligible.leader.replicas.version=1\nshare.version=2\nstreams.version=1\n"},
		{"feature-dependencies --feature eligible.leader.replicas.version=1 --feature metadata.version=25", "eligible.leader.replicas.version=1 requires:\n    metadata.version=23 (4.0-IV1)\nmetadata.version=25 (4.0-IV3) has no dependencies.\n"},
		{"disable --feature eligible.leader.replicas.version --dry-run", "eligible.leader.replicas.version can be disabled.\n"},
		{"disable --feature eligible.leader.replicas.version", "eligible.leader.replicas.version was disabled.\n"},
		{"upgrade --feature eligible.leader.replicas.version=1", "eligible.leader.replicas.version was upgraded to 1.\n"},
	} {
		if code, out, errs := c.run("", "features", strings.Fields(step.args)...); code != exitOK || out != step.want {
			t.Errorf("features %s: exit code %d\n%s%s", step.args, code, out, errs)
		}
	}
}

func TestLatencyTool(t *testing.T) {
	c := startCluster(t)
	want := `^0\t\d+\.\d+(E-\d)?\nAvg latency: \d+\.\d{4} ms\nPercentiles: 50th = \d+, 99th = \d+, 99\.9th = \d+\n$`
	for _, args := range [][]string{
		{"--topic", "l", "--num-records", "20", "--record-size", "10", "--record-key-size", "2", "--num-headers", "1", "--record-header-key-size", "3", "--record-header-size", "-1"},
		{c.address, "l", "20", "1", "10"},
	} {
		code, out, errs := c.run("", "e2e-latency", args...)
		if code != exitOK || !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("%v: exit code %d:\n%s%s", args, code, out, errs)
		}
	}
	_, out, errs := c.run("", "e2e-latency", "--topic", "l", "--num-records", "3", "--record-size", "10", "--output", "json")
	var result latencies
	if err := json.Unmarshal([]byte(out), &result); err != nil || result.Records != 3 || result.Avg <= 0 || result.Max < result.Avg {
		t.Errorf("%v: %s%s", err, out, errs)
	}
	c.fails(t, exitUsage, "want 1 or all", "e2e-latency", "--topic", "l", "--num-records", "3", "--record-size", "10", "--producer-acks", "0")
	c.fails(t, exitUsage, "are required", "e2e-latency", "--topic", "l")
	if code, _, errs := c.run("", "e2e-latency", c.address, "l"); code != exitUsage || !strings.Contains(errs, "2 arguments: want --topic") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}
