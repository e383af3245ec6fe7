package compat

import (
	"testing"

	"moldau/test/harness"
)

// TestKcatAsOfOldBrokers: librdkafka that has been told how old the broker is, and asks it nothing.
func TestKcatAsOfOldBrokers(t *testing.T) {
	kcat := harness.Tool(t, "kcat", "install the package kcat")
	n := harness.Start(t, "num.partitions=1")
	const input = "k1:v1, again and again and again\nk2:v2, again and again and again\nk3:\n"
	for _, version := range []string{"0.8.2", "0.9.0", "0.10.0", "0.10.2"} {
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
}
