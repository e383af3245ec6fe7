package metadata

// KnownFeature is a feature of Kafka's next to metadata.version.
type KnownFeature struct {
	Name string
	// Since holds for each level from 1 on the level of metadata.version from which on Apache Kafka gives it to new clusters.
	Since []int16
	// Needs holds for each level from 1 on the level of metadata.version without which it cannot be; 0 is any.
	Needs []int16
}

// KnownFeatures returns them in Kafka's order (Feature.PRODUCTION_FEATURES). Not all of them have a meaning for nodes of ours.
func KnownFeatures() []KnownFeature {
	return []KnownFeature{
		{FeatureKRaftVersion, []int16{21}, []int16{0}},
		{FeatureTransactionVersion, []int16{24, 24}, []int16{0, 0}}, // level 1 was never given
		{FeatureGroupVersion, []int16{22}, []int16{0}},
		{FeatureEligibleLeaderReplicas, []int16{26}, []int16{levelELR}},
		{FeatureShareVersion, []int16{28, 31}, []int16{0, 0}},
		{FeatureStreamsVersion, []int16{29}, []int16{0}},
	}
}

// DefaultLevel is the level that a new cluster of a metadata.version has.
func (f KnownFeature) DefaultLevel(metadataVersion int16) int16 {
	level := int16(0)
	for i, since := range f.Since {
		if metadataVersion >= since {
			level = int16(i + 1)
		}
	}
	return level
}
