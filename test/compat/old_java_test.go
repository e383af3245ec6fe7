package compat

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"moldau/test/harness"
)

// oldProgram runs one of the programs of testdata/old, whose source the JVM compiles for the release that it has.
func oldProgram(t *testing.T, version, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	out, err := harness.Output(harness.ApacheKafka(t, version).Command(ctx, filepath.Join("testdata", "old", name+".java"), args...), "")
	if err != nil {
		t.Fatalf("%s of %s: %v\n%s", name, version, err, out)
	}
	return out
}

// oldRecord is a record as its writer or a reader prints it.
type oldRecord struct{ timestamp, key, value, headers string }

func oldRecords(t *testing.T, printed string) map[string]oldRecord {
	t.Helper()
	found := make(map[string]oldRecord)
	for line := range strings.Lines(printed) {
		f := strings.Split(strings.TrimRight(line, "\n"), "\t")
		if len(f) != 5 {
			t.Fatalf("printed %q", line)
		}
		if _, twice := found[f[0]]; twice {
			t.Errorf("offset %s came twice", f[0])
		}
		found[f[0]] = oldRecord{f[1], f[2], f[3], f[4]}
	}
	return found
}

// TestOldKafkas: producers of eight releases write into one partition in every codec that all know, and each release's
// consumers read every key, value, timestamp and header that their writers had and that they know.
func TestOldKafkas(t *testing.T) {
	if harness.Thorough() < 4 {
		t.Skip("takes a minute or two and seven more releases of Apache Kafka: MOLDAU_EFFORT=ci")
	}
	versions := append(harness.OldKafkaVersions(), harness.KafkaVersion)
	n := harness.Start(t, "num.partitions=1", quickGroups)
	const each = 15
	written := make(map[string]oldRecord)
	for _, version := range versions {
		maps.Copy(written, oldRecords(t, oldProgram(t, version, "Writer", n.Addr, "old", version, "none,gzip,snappy,lz4", fmt.Sprint(each))))
	}
	total := 4 * each * len(versions)
	if len(written) != total {
		t.Fatalf("%d records were written, want %d", len(written), total)
	}
	check := func(t *testing.T, printed string, timestamps, headers bool) {
		t.Helper()
		got := oldRecords(t, printed)
		if len(got) != total {
			t.Errorf("%d records of %d", len(got), total)
		}
		for _, offset := range slices.Sorted(maps.Keys(written)) {
			want := written[offset]
			if !timestamps {
				want.timestamp = ""
			}
			if !headers {
				want.headers = ""
			}
			if got[offset] != want {
				t.Errorf("offset %s: got %q, want %q", offset, got[offset], want)
			}
		}
	}
	t.Run("readers", func(t *testing.T) {
		for age, version := range versions {
			if age == 0 {
				continue // 0.8 has no such consumer
			}
			t.Run(version, func(t *testing.T) {
				t.Parallel()
				// Timestamps came with 0.10, headers with 0.11.
				check(t, oldProgram(t, version, "Reader", n.Addr, "old", version, fmt.Sprint(total)), age >= 2, age >= 3)
			})
		}
		for _, version := range []string{"0.8.2.2", "0.10.2.2", "1.1.1"} {
			for _, buffer := range []string{"3000", "1000000"} { // the smaller one has room for one compressed set
				t.Run("simple/"+version+"/"+buffer, func(t *testing.T) {
					t.Parallel()
					check(t, oldProgram(t, version, "Simple", n.Addr, "old", buffer), false, false)
				})
			}
		}
	})
}

// TestOldKafkaTools: what people typed in those years.
func TestOldKafkaTools(t *testing.T) {
	if harness.Thorough() < 4 {
		t.Skip("wants more releases of Apache Kafka: MOLDAU_EFFORT=ci")
	}
	n := harness.Start(t, "num.partitions=1")
	old := harness.ApacheKafka(t, "0.8.2.2")
	old.Run(t, "one\ntwo\n", "kafka.tools.ConsoleProducer", "--broker-list", n.Addr, "--topic", "typed", "--request-required-acks", "-1")
	old.Run(t, "three\nfour\n", "kafka.tools.ConsoleProducer", "--broker-list", n.Addr, "--topic", "typed", "--compression-codec", "gzip", "--request-required-acks", "-1")
	for _, version := range []string{"0.8.2.2", "0.10.2.2", "1.1.1"} {
		kafka := harness.ApacheKafka(t, version)
		out := kafka.Run(t, "", "kafka.tools.SimpleConsumerShell", "--broker-list", n.Addr, "--topic", "typed",
			"--partition", "0", "--offset", "0", "--max-messages", "4")
		if out != "one\ntwo\nthree\nfour\n" {
			t.Errorf("SimpleConsumerShell of %s: %q", version, out)
		}
		out = kafka.Run(t, "", "kafka.tools.GetOffsetShell", "--broker-list", n.Addr, "--topic", "typed", "--time", "-1")
		if strings.TrimSpace(out) != "typed:0:4" {
			t.Errorf("GetOffsetShell of %s: %q", version, out)
		}
	}
}
