package metadata

import "iter"

// Features is the finalized level of every feature.
type Features struct {
	levels           Tree[string, int16] // level 0 is never stored
	zkMigrationState int8
}

// Level returns the finalized level of a feature; 0 when it is not finalized.
func (f Features) Level(name string) int16 {
	level, _ := f.levels.Get(name)
	return level
}

// MetadataVersion returns the level of metadata.version; 0 before the first record.
func (f Features) MetadataVersion() int16 { return f.Level(FeatureMetadataVersion) }

// All yields the finalized features by name.
func (f Features) All() iter.Seq2[string, int16] { return f.levels.All() }

func (f Features) records(emit func(Record)) {
	if level := f.MetadataVersion(); level != 0 {
		emit(&FeatureLevelRecord{Name: FeatureMetadataVersion, FeatureLevel: level}) // before all else: it says how to read the rest
	}
	for name, level := range f.levels.All() {
		if name != FeatureMetadataVersion {
			emit(&FeatureLevelRecord{Name: name, FeatureLevel: level})
		}
	}
	if f.zkMigrationState != 0 {
		emit(&ZkMigrationStateRecord{ZkMigrationState: f.zkMigrationState})
	}
}
