package node

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/metadata"
	"moldau/internal/quorum"
	"moldau/internal/vfs"
)

// formatted is a disk with what a tool wants the metadata log to begin with.
func formatted(t *testing.T, records ...metadata.Record) vfs.FS {
	t.Helper()
	disk := vfs.NewMem()
	var values [][]byte
	for _, r := range records {
		values = append(values, metadata.Encode(nil, r, 0))
	}
	if err := errors.Join(disk.MkdirAll("/disk"), quorum.WriteBootstrap(disk, "/disk", values, time.Now().UnixMilli())); err != nil {
		t.Fatal(err)
	}
	return disk
}

func finalized(t *testing.T, n *Node) map[string]int16 {
	t.Helper()
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = 3, "test", "1"
	levels := make(map[string]int16)
	for _, f := range ask[*kmsg.ApiVersionsResponse](t, n, "PLAINTEXT", req).FinalizedFeatures {
		levels[f.Name] = f.MaxVersionLevel
	}
	return levels
}

// TestClusterBeginsAtTheLevelsOfItsFormat: at every metadata.version topics can be made and are found again, and each can be
// raised to the next; a cluster that has begun does not look at the file any more.
func TestClusterBeginsAtTheLevelsOfItsFormat(t *testing.T) {
	for level := metadata.MinMetadataVersion; level <= metadata.MaxMetadataVersion; level++ {
		var records []metadata.Record
		for _, f := range FirstLevels(level) {
			records = append(records, &f)
		}
		disk := formatted(t, records...)
		n := start(t, options(t, base, disk))
		elr := int16(0)
		if level >= 26 {
			elr = 1
		}
		if got := finalized(t, n); got[metadata.FeatureMetadataVersion] != level || got[metadata.FeatureEligibleLeaderReplicas] != elr {
			t.Errorf("level %d: the cluster has %v", level, got)
		}
		createTopic(t, n, "before")
		if level < metadata.MaxMetadataVersion {
			raise(t, n, level+1)
			createTopic(t, n, "after")
		}
		stop(t, n)

		n = start(t, options(t, base, disk))
		if got, want := finalized(t, n)[metadata.FeatureMetadataVersion], min(level+1, metadata.MaxMetadataVersion); got != want {
			t.Errorf("level %d: after the upgrade and a restart metadata.version is %d", level, got)
		}
		if topics := metadataOf(t, n, "PLAINTEXT").Topics; len(topics) != 2 && level < metadata.MaxMetadataVersion {
			t.Errorf("level %d: %d topics after the restart", level, len(topics))
		}
		stop(t, n)
	}
}

func raise(t *testing.T, n *Node, level int16) {
	t.Helper()
	u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	u.Feature, u.MaxVersionLevel, u.UpgradeType = metadata.FeatureMetadataVersion, level, 1
	req := kmsg.NewPtrUpdateFeaturesRequest()
	req.Version, req.TimeoutMillis, req.FeatureUpdates = 1, 10000, append(req.FeatureUpdates, u)
	if resp := ask[*kmsg.UpdateFeaturesResponse](t, n, "PLAINTEXT", req); resp.ErrorCode != 0 {
		t.Fatalf("raise to %d: error %d", level, resp.ErrorCode)
	}
}

// TestFormatWithWhatIsNotServed: Apache Kafka's tool formats with more than there is here. That is left out and told; a
// metadata.version that is not known cannot be left out.
func TestFormatWithWhatIsNotServed(t *testing.T) {
	disk := formatted(t,
		&metadata.FeatureLevelRecord{Name: metadata.FeatureMetadataVersion, FeatureLevel: 25},
		&metadata.FeatureLevelRecord{Name: metadata.FeatureTransactionVersion, FeatureLevel: 2},
		&metadata.NoOpRecord{})
	var log strings.Builder
	o := options(t, base, disk)
	o.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	n := start(t, o)
	if got := finalized(t, n); got[metadata.FeatureMetadataVersion] != 25 || len(got) != 2 { // kraft.version
		t.Errorf("the cluster has %v", got)
	}
	stop(t, n)
	if text := log.String(); !strings.Contains(text, "transaction.version=2") || !strings.Contains(text, "record of type 20") {
		t.Errorf("the log says %s", text)
	}

	n, err := Build(options(t, base, formatted(t, &metadata.FeatureLevelRecord{Name: metadata.FeatureMetadataVersion, FeatureLevel: 99})))
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Start(t.Context()); !errors.Is(err, ErrData) || !strings.Contains(err.Error(), "metadata.version 99") {
		t.Errorf("a metadata.version that nobody knows: %v", err)
	}
}
