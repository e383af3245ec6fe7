package zkconsumer

import (
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestDefaults: a program that sets nothing gets Kafka's.
func TestDefaults(t *testing.T) {
	got, err := Parse(map[string]string{"zookeeper.connect": "a:1/x", "group.id": "g"})
	if err != nil {
		t.Fatal(err)
	}
	want := Settings{
		Connect: "a:1/x", SessionTimeout: 6 * time.Second, ConnectionTimeout: 6 * time.Second, Group: "g", ClientID: "g",
		AutoCommit: true, AutoCommitInterval: time.Minute, CommitRetries: 5, CommitBackoff: time.Second,
		RebalanceRetries: 4, RebalanceBackoff: 2 * time.Second, FetchMinBytes: 1, FetchMaxWait: 500 * time.Millisecond,
		FetchMessageMax: 1 << 20, RequestTimeout: 30 * time.Second, RefreshLeader: 200 * time.Millisecond, IdleTimeout: -time.Millisecond,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestSettingsDependOnEachOther(t *testing.T) {
	got, err := Parse(map[string]string{
		"zookeeper.connect": "a", "group.id": "g", "offsets.storage": "Kafka", "zookeeper.session.timeout.ms": "9000", "zookeeper.sync.time.ms": "100",
		"auto.offset.reset": "earliest", "partition.assignment.strategy": "roundrobin", "queued.max.message.chunks": "7", "acks": "1",
	})
	if err != nil {
		t.Fatal(err)
	}
	if !got.KafkaOffsets || !got.DualCommit || got.ConnectionTimeout != 9*time.Second || got.RebalanceBackoff != 100*time.Millisecond || !got.FromSmallest || !got.RoundRobin {
		t.Errorf("%+v", got)
	}
	if !reflect.DeepEqual(got.NotHere, []string{"acks"}) {
		t.Errorf("without effect: %v", got.NotHere)
	}
}

func TestWrongSettingsAreNamed(t *testing.T) {
	for _, word := range []string{
		"auto.offset.reset=none", "offsets.storage=disk", "partition.assignment.strategy=sticky", "auto.commit.enable=maybe",
		"auto.commit.interval.ms=-1", "rebalance.max.retries=many", "group.id=a/b", "group.id=", "zookeeper.connect=",
	} {
		values := map[string]string{"zookeeper.connect": "a", "group.id": "g"}
		key, value, _ := strings.Cut(word, "=")
		values[key] = value
		if _, err := Parse(values); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", word, err)
		}
	}
}

// TestKeysAreObeyed: a key that is not idle makes a difference, one that is makes none.
func TestKeysAreObeyed(t *testing.T) {
	base := map[string]string{"zookeeper.connect": "a", "group.id": "g"}
	before, err := Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range Keys() {
		changed := false
		for _, value := range []string{"7", "true", "false", "kafka", "roundrobin", "smallest"} {
			values := maps.Clone(base)
			values[k.Name] = value
			after, err := Parse(values)
			changed = changed || err == nil && !reflect.DeepEqual(before, after)
		}
		if changed == k.Idle {
			t.Errorf("%s: idle %t, makes a difference %t", k.Name, k.Idle, changed)
		}
		if !strings.HasSuffix(k.Text, ".") && !strings.HasSuffix(k.Text, ",") {
			t.Errorf("%s: %q is no sentence", k.Name, k.Text)
		}
	}
}

func TestSplitConnect(t *testing.T) {
	for _, c := range []struct{ connect, servers, root string }{
		{"a:1", "a:1", ""}, {"a", "a:2181", ""}, {"a:1, b:2/kafka/x/", "a:1 b:2", "/kafka/x"}, {"a:1/", "a:1", ""},
	} {
		servers, root, err := splitConnect(c.connect)
		if got := strings.Join(servers, " "); err != nil || got != c.servers || root != c.root {
			t.Errorf("%s: %q %q %v", c.connect, got, root, err)
		}
	}
	if _, _, err := splitConnect("/kafka"); err == nil {
		t.Error("a chroot without a server is taken")
	}
}
