package metadata

import "slices"

// Names of the features whose levels a cluster finalizes (Kafka's Feature; KIP-584).
const (
	FeatureMetadataVersion        = "metadata.version"
	FeatureKRaftVersion           = "kraft.version" // lives in control records of the log, never in a FeatureLevelRecord
	FeatureTransactionVersion     = "transaction.version"
	FeatureGroupVersion           = "group.version"
	FeatureEligibleLeaderReplicas = "eligible.leader.replicas.version"
	FeatureShareVersion           = "share.version"
	FeatureStreamsVersion         = "streams.version"
)

// The levels of metadata.version that can be read and written here.
const (
	MinMetadataVersion int16 = 7  // 3.3-IV3, the lowest that 4.x nodes take
	MaxMetadataVersion int16 = 33 // 4.4-IV2
)

// Levels of metadata.version from which on something may be written (Kafka's MetadataVersion).
const (
	levelMigration        int16 = 8  // 3.4-IV0: RegisterBrokerRecord version 2
	levelScram            int16 = 11 // 3.5-IV2
	levelTransactions     int16 = 13 // 3.6-IV1: metadata transactions
	levelDelegationTokens int16 = 14 // 3.6-IV2
	levelControllers      int16 = 15 // 3.7-IV0: RegisterControllerRecord
	levelDirectories      int16 = 17 // 3.7-IV2: directories of replicas (KIP-858)
	levelELR              int16 = 23 // 4.0-IV1: eligible leader replicas (KIP-966)
	levelCordoned         int16 = 30 // 4.3-IV0: cordoned log directories
	levelCIDR             int16 = 32 // 4.4-IV1: address ranges as ACL hosts (KIP-1276)
	levelUnregister       int16 = 33 // 4.4-IV2: UnregisterControllerRecord (KIP-1312)
)

// levelNames holds the names of the levels from MinMetadataVersion on, in order.
var levelNames = [...]string{
	"3.3-IV3", "3.4-IV0", "3.5-IV0", "3.5-IV1", "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2", "3.7-IV0", "3.7-IV1", "3.7-IV2",
	"3.7-IV3", "3.7-IV4", "3.8-IV0", "3.9-IV0", "4.0-IV0", "4.0-IV1", "4.0-IV2", "4.0-IV3", "4.1-IV0", "4.1-IV1", "4.2-IV0",
	"4.2-IV1", "4.3-IV0", "4.4-IV0", "4.4-IV1", "4.4-IV2",
}

// LevelName returns Kafka's name of a metadata.version level, such as "4.0-IV3" for 25; false when the level is not one
// of MinMetadataVersion to MaxMetadataVersion.
func LevelName(level int16) (string, bool) {
	if level < MinMetadataVersion || level > MaxMetadataVersion {
		return "", false
	}
	return levelNames[level-MinMetadataVersion], true
}

// LevelNames returns the names of the levels that can be read and written here, lowest first.
func LevelNames() []string { return slices.Clone(levelNames[:]) }

// LevelByName is the reverse of LevelName. It also takes a release such as "4.0", which stands for its last level.
func LevelByName(name string) (int16, bool) {
	for i := len(levelNames) - 1; i >= 0; i-- {
		full := levelNames[i]
		if full == name || full[:len(full)-len("-IV0")] == name {
			return MinMetadataVersion + int16(i), true
		}
	}
	return 0, false
}

// RecordsChanged reports whether a level above low, up to high, brought records or fields that nodes at low can not read
// (MetadataVersion.didMetadataChange).
func RecordsChanged(low, high int16) bool {
	for _, level := range []int16{
		MinMetadataVersion, levelMigration, levelScram, levelTransactions, levelDelegationTokens, levelControllers, levelDirectories,
		levelELR, levelCordoned, levelCIDR, levelUnregister,
	} {
		if low < level && level <= high {
			return true
		}
	}
	return false
}

// DirectoriesSupported reports whether replicas and registrations carry directory ids at a level (KIP-858).
func DirectoriesSupported(level int16) bool { return level >= levelDirectories }

// ELRSupported reports whether partitions carry eligible leader replicas at a level (KIP-966).
func ELRSupported(level int16) bool { return level >= levelELR }

// ControllersSupported reports whether controllers register at a level (KIP-919).
func ControllersSupported(level int16) bool { return level >= levelControllers }

// Latest returns the version in which Kafka writes r when metadata.version has the given level.
func Latest(r Record, level int16) int16 {
	switch r := r.(type) {
	case *RegisterBrokerRecord:
		switch {
		case level >= levelCordoned:
			return 4
		case level >= levelDirectories:
			return 3
		case level >= levelMigration:
			return 2
		}
		return 1
	case *PartitionRecord, *PartitionChangeRecord:
		switch {
		case level >= levelELR:
			return 2
		case level >= levelDirectories:
			return 1
		}
	case *BrokerRegistrationChangeRecord:
		// The lowest version that has room for what is set, as ReplicationControlManager does.
		switch {
		case r.CordonedLogDirs != nil && level >= levelCordoned:
			return 3
		case len(r.LogDirs) > 0 && level >= levelDirectories:
			return 2
		case r.InControlledShutdown != 0:
			return 1
		}
	}
	return 0
}
