package compat

import (
	"encoding/json"
	"slices"
	"testing"

	"moldau/test/harness"
)

// TestKcatAsOfOldBrokers: librdkafka that has been told how old the broker is, and asks it nothing. From 0.10 on it would ask.
func TestKcatAsOfOldBrokers(t *testing.T) {
	kcat := harness.Tool(t, "kcat", "install the package kcat")
	n := harness.Start(t, "num.partitions=1")
	const input = "k1:v1, again and again and again\nk2:v2, again and again and again\nk3:\n"
	for _, version := range []string{"0.8.1", "0.8.2", "0.9.0"} {
		as := []string{"-b", n.Addr, "-p", "0", "-K:", "-X", "broker.version.fallback=" + version, "-X", "api.version.request=false"}
		for _, codec := range []string{"none", "gzip", "snappy", "lz4"} {
			topic := "fallback-" + version + "-" + codec
			runKcat(t, kcat, input, append(as, "-P", "-t", topic, "-z", codec, "-X", "acks=-1")...)
			if got := runKcat(t, kcat, "", append(as, "-C", "-t", topic, "-o", "beginning", "-e", "-q")...); got != input {
				t.Errorf("%s, %s: it reads %q", version, codec, got)
			}
			if got := runKcat(t, kcat, "", "-C", "-b", n.Addr, "-p", "0", "-K:", "-t", topic, "-o", "beginning", "-e", "-q"); got != input {
				t.Errorf("%s, %s: one that asks reads %q", version, codec, got)
			}
		}
	}
	// The node tells who that was, and what it did for it.
	var seen []struct {
		ClientID                            string
		TooOldForKafka4                     []string
		ConvertedProduced, ConvertedFetched struct{ Batches, Records int64 }
	}
	out := mustOwnTool(t, "", "clients", "--old", "--http", n.HTTP, "--output", "json")
	if err := json.Unmarshal([]byte(out), &seen); err != nil {
		t.Fatal(err)
	}
	if len(seen) != 1 || seen[0].ClientID != "rdkafka" || !slices.Contains(seen[0].TooOldForKafka4, "Produce 0") ||
		seen[0].ConvertedProduced.Records != 3*4*3 || seen[0].ConvertedFetched.Batches == 0 {
		t.Errorf("clients: %s", out)
	}
}
