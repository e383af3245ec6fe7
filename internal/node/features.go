package node

import (
	"errors"
	"fmt"
	"slices"

	"moldau/internal/metadata"
	"moldau/internal/quorum"
	"moldau/internal/storage"
)

// Features are what this program can work at. A feature is here only when it does.
func Features() []metadata.FeatureRange {
	return []metadata.FeatureRange{
		{Name: metadata.FeatureKRaftVersion, Min: 0, Max: quorum.KRaftLevel},
		{Name: metadata.FeatureMetadataVersion, Min: metadata.MinMetadataVersion, Max: metadata.MaxMetadataVersion},
		{Name: metadata.FeatureEligibleLeaderReplicas, Min: 0, Max: 1},
	}
}

// FirstLevels are the levels of the features in the metadata log with which a cluster of a metadata.version begins: those that
// Apache Kafka gives it, as far as there is such a level here.
func FirstLevels(metadataVersion int16) []metadata.FeatureLevelRecord {
	levels := []metadata.FeatureLevelRecord{{Name: metadata.FeatureMetadataVersion, FeatureLevel: metadataVersion}}
	known := metadata.KnownFeatures()
	for _, f := range Features() {
		i := slices.IndexFunc(known, func(k metadata.KnownFeature) bool { return k.Name == f.Name })
		if i >= 0 && f.Name != metadata.FeatureKRaftVersion {
			levels = append(levels, metadata.FeatureLevelRecord{Name: f.Name, FeatureLevel: min(known[i].DefaultLevel(metadataVersion), f.Max)})
		}
	}
	return levels
}

// firstLevels are those with which this node's cluster begins, should the node lead an empty metadata log: what a tool chose when
// it formatted the node, or the newest.
func (n *Node) firstLevels(home *storage.Directory) ([]metadata.FeatureLevelRecord, error) {
	values, err := quorum.ReadBootstrap(n.o.FS, home.Path())
	records, decodeErr := metadata.DecodeAll(values)
	if err = errors.Join(err, decodeErr); err != nil {
		return nil, &dataError{fmt.Errorf("%w; the file counts only until the cluster has begun, and can be removed after that", err)}
	}
	if len(records) == 0 {
		return FirstLevels(metadata.MaxMetadataVersion), nil
	}
	var levels []metadata.FeatureLevelRecord
	var left []string
	for _, r := range records {
		f, ok := r.(*metadata.FeatureLevelRecord)
		switch {
		case !ok:
			left = append(left, fmt.Sprintf("record of type %d", r.Type()))
		case served(*f):
			levels = append(levels, *f)
		case f.Name == metadata.FeatureMetadataVersion:
			return nil, &dataError{fmt.Errorf("%s was formatted with metadata.version %d; this version serves %d to %d",
				home.Path(), f.FeatureLevel, metadata.MinMetadataVersion, metadata.MaxMetadataVersion)}
		default:
			left = append(left, fmt.Sprintf("%s=%d", f.Name, f.FeatureLevel))
		}
	}
	if len(left) > 0 && !home.Used() {
		n.o.Logger.Warn("the directory was formatted with what is not served; leaving it out", "dir", home.Path(), "left_out", left)
	}
	return levels, nil
}

func served(f metadata.FeatureLevelRecord) bool {
	return f.Name != metadata.FeatureKRaftVersion && metadata.RangeOf(Features(), f.Name).Has(f.FeatureLevel)
}
