package compat

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"moldau/internal/batch"
	"moldau/internal/commitlog"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/vfs"
	"moldau/test/harness"
)

// TestOwnDumpDecodesMetadataAsApacheKafka: every record of the metadata log that there is, in every version, with all
// fields set and with none.
func TestOwnDumpDecodesMetadataAsApacheKafka(t *testing.T) {
	kafka := harness.ApacheKafka(t, harness.KafkaVersion)
	path := filepath.Join(t.TempDir(), "00000000000000000000.log")
	b := batch.NewBuilder(batch.BuildOptions{LeaderEpoch: 1})
	written := 0
	add := func(r metadata.Record) {
		for version := int16(0); version <= metadata.Latest(r, 1000); version++ {
			b.Add(batch.Record{Timestamp: 1000, Value: metadata.Encode(nil, r, version)})
			written++
		}
	}
	text := "ä\"\\\n\x01"
	for _, r := range []metadata.Record{
		&metadata.RegisterBrokerRecord{}, &metadata.UnregisterBrokerRecord{}, &metadata.TopicRecord{}, &metadata.PartitionRecord{}, &metadata.ConfigRecord{},
		&metadata.PartitionChangeRecord{}, &metadata.FenceBrokerRecord{}, &metadata.UnfenceBrokerRecord{}, &metadata.RemoveTopicRecord{},
		&metadata.DelegationTokenRecord{}, &metadata.UserScramCredentialRecord{}, &metadata.FeatureLevelRecord{}, &metadata.ClientQuotaRecord{},
		&metadata.ProducerIDsRecord{}, &metadata.BrokerRegistrationChangeRecord{}, &metadata.AccessControlEntryRecord{},
		&metadata.RemoveAccessControlEntryRecord{}, &metadata.NoOpRecord{}, &metadata.ZkMigrationStateRecord{}, &metadata.RemoveUserScramCredentialRecord{},
		&metadata.BeginTransactionRecord{}, &metadata.EndTransactionRecord{}, &metadata.AbortTransactionRecord{}, &metadata.RemoveDelegationTokenRecord{},
		&metadata.RegisterControllerRecord{}, &metadata.ClearElrRecord{}, &metadata.UnregisterControllerRecord{},
	} {
		add(r)
		setAll(reflect.ValueOf(r).Elem(), text)
		add(r)
	}
	for _, f := range []float64{0, 1, -0.5, 1e7, 123456789.25, 1e-4, 1e300} {
		add(&metadata.ClientQuotaRecord{Key: "k", Value: f})
	}
	b.Add(batch.Record{Timestamp: 1000, Value: []byte{1, 2, 3}}) // cut off
	if err := os.WriteFile(path, b.Build(), 0o644); err != nil {
		t.Fatal(err)
	}
	args := []string{"--cluster-metadata-decoder", "--skip-record-metadata", "--files", path}
	ours, theirs := mustOwnTool(t, "", "dump-log", args...), kafka.Run(t, "", dumpLogSegments, args...)
	// What a record that cannot be read lacks is each tool's to say.
	cut := func(s string) string { head, _, _ := strings.Cut(s, ", skipping. "); return head }
	if cut(ours) != cut(theirs) {
		t.Errorf("dump-log %v prints:\n%s\nApache Kafka's prints:\n%s", args, ours, theirs)
	}
	if got := strings.Count(ours, `| payload: {"type":"`); got != written {
		t.Errorf("%d of %d records are shown:\n%s", got, written, ours)
	}
}

// setAll sets every field of a record to something that is not its default.
func setAll(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			setAll(v.Field(i), text)
		}
	case reflect.Array:
		for i := range v.Len() {
			v.Index(i).SetUint(uint64(200 + i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		setAll(v.Index(0), text)
		setAll(v.Index(1), text)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		setAll(v.Elem(), text)
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(1234.5)
	case reflect.Uint8, reflect.Uint16:
		v.SetUint(250)
	default:
		v.SetInt(77)
	}
}

// TestOwnDumpDecodesCoordinatorLogsOfApacheKafka: groups of both protocols, share groups and transactions, as its broker
// wrote them.
func TestOwnDumpDecodesCoordinatorLogsOfApacheKafka(t *testing.T) {
	kafka := harness.ApacheKafka(t, harness.KafkaVersion)
	b := kafka.PrepareBroker(t, "group.initial.rebalance.delay.ms=0", "offsets.topic.num.partitions=1", "transaction.state.log.num.partitions=1", "share.coordinator.state.topic.num.partitions=1")
	b.Spawn(t)
	waitUntilAnswered(t, b.Addr)
	at := func(args ...string) []string { return append([]string{"--bootstrap-server", b.Addr}, args...) }
	mustOwnTool(t, "", "topics", at("--create", "--topic", "read", "--partitions", "2")...)
	mustOwnTool(t, "", "producer-perf-test", at("--topic", "read", "--num-records", "200", "--record-size", "10", "--throughput", "-1", "--transactional-id", "tx")...)
	for group, protocol := range map[string]string{"old": "classic", "new": "consumer"} {
		kafka.Run(t, "", consoleConsumer, at("--topic", "read", "--group", group, "--from-beginning", "--max-messages", "20", "--command-property", "group.protocol="+protocol)...)
	}
	kafka.Run(t, "", consumerGroups, at("--delete", "--group", "old")...)
	mustOwnTool(t, "", "configs", at("--alter", "--group", "shared", "--add-config", "share.auto.offset.reset=earliest")...)
	kafka.Run(t, "", "org.apache.kafka.tools.consumer.ConsoleShareConsumer", at("--topic", "read", "--group", "shared", "--max-messages", "10")...)
	b.Stop(t)
	for _, c := range []struct{ topic, decoder, holds string }{
		{"__consumer_offsets", "--offsets-decoder", `"subscribedTopicNames":["read"]`},
		{"__transaction_state", "--transaction-log-decoder", `"transactionStatus":"CompleteCommit"`},
		{"__share_group_state", "--share-group-state-decoder", `"stateBatches":[`},
		{"__cluster_metadata", "--cluster-metadata-decoder", `LeaderChange: {"version":0,`},
	} {
		path := filepath.Join(b.Dir, c.topic+"-0", "00000000000000000000.log")
		args := []string{c.decoder, "--files", path}
		ours, theirs := mustOwnTool(t, "", "dump-log", args...), kafka.Run(t, "", dumpLogSegments, args...)
		if ours != theirs {
			t.Errorf("dump-log %v prints:\n%s\nApache Kafka's prints:\n%s", args, ours, theirs)
		}
		if !strings.Contains(ours, c.holds) {
			t.Errorf("%s lacks %s:\n%s", c.topic, c.holds, ours)
		}
	}
}

// TestOwnDumpShowsTransactionsAsApacheKafka: the files that transactions leave in a partition, the index of the aborted ones
// among them.
func TestOwnDumpShowsTransactionsAsApacheKafka(t *testing.T) {
	java := harness.ApacheKafka(t, harness.KafkaVersion)
	fs, dir := vfs.NewOS(), filepath.Join(t.TempDir(), "t-0")
	log, _, err := commitlog.Open(commitlog.Options{
		FS: fs, Dir: dir, TP: kafka.TopicPartition{Topic: "t"}, Config: commitlog.DefaultConfig(), Files: commitlog.NewFiles(fs, 10), Now: time.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	add := func(o batch.BuildOptions, r batch.Record) {
		t.Helper()
		o.Transactional = true
		b := batch.NewBuilder(o)
		r.Timestamp = 1000
		b.Add(r)
		if _, err := log.Append(b.Build(), commitlog.AppendOptions{LeaderEpoch: 1, Now: 1000}); err != nil {
			t.Fatal(err)
		}
	}
	marker := batch.EndTxnMarker{CoordinatorEpoch: 3}
	for i := range int64(6) {
		add(batch.BuildOptions{Producer: &batch.Producer{ID: 7 + i}}, batch.Record{Value: []byte("value")})
		if i == 5 {
			break // stays open
		}
		end := batch.ControlAbort
		if i%2 == 1 {
			end = batch.ControlCommit
		}
		add(batch.BuildOptions{Producer: &batch.Producer{ID: 7 + i, BaseSequence: -1}, Control: true}, batch.Record{Key: end.Key(), Value: marker.AppendTo(nil)})
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ file, holds string }{
		{"00000000000000000000.log", "endTxnMarker: ABORT coordinatorEpoch: 3"}, {"00000000000000000000.txnindex", "producerId: 11"},
		{"00000000000000000000.timeindex", "timestamp: 1000"}, {"00000000000000000011.snapshot", "producerId: 12"},
	} {
		args := []string{"--deep-iteration", "--files", filepath.Join(dir, c.file)}
		ours, theirs := mustOwnTool(t, "", "dump-log", args...), java.Run(t, "", dumpLogSegments, args...)
		if ours != theirs {
			t.Errorf("dump-log %v prints:\n%s\nApache Kafka's prints:\n%s", args, ours, theirs)
		}
		if !strings.Contains(theirs, c.holds) {
			t.Errorf("%s lacks %q:\n%s", c.file, c.holds, theirs)
		}
	}
}

// waitUntilAnswered waits for a broker whose tools do not wait.
func waitUntilAnswered(t *testing.T, address string) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); ; {
		if _, errs, ok := ownTool(t, "", "cluster", "cluster-id", "--bootstrap-server", address); ok {
			return
		} else if time.Now().After(deadline) {
			t.Fatal(errs)
		}
	}
}
