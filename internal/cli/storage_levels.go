package cli

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"moldau/internal/config"
	"moldau/internal/metadata"
	"moldau/internal/node"
	"moldau/internal/quorum"
	"moldau/internal/vfs"
)

// formatLevels are the levels of features with which the cluster is to begin, metadata.version first, or why what is asked for
// cannot be done.
func formatLevels(f formatFlags, cfg config.Node) ([]metadata.FeatureLevelRecord, error) {
	switch {
	case len(f.scram) > 0:
		return nil, errors.New("--add-scram: authentication is not served by this version")
	case f.controllers != "":
		return nil, errors.New("--initial-controllers: controllers tell each other who they are: list them in controller.quorum.bootstrap.servers of each, and start all")
	case f.standalone && len(cfg.Quorum.Voters) > 0:
		return nil, errors.New("--standalone: controller.quorum.voters is set already; take one of them out")
	case f.standalone && len(cfg.Quorum.Bootstrap) > 1:
		return nil, errors.New("--standalone: controller.quorum.bootstrap.servers lists other controllers, and the node will wait for them; list none")
	}
	wanted, err := wantedLevels(f)
	if err != nil {
		return nil, err
	}
	level, chosen := wanted[metadata.FeatureMetadataVersion]
	if !chosen {
		level = metadata.MaxMetadataVersion
	}
	levels := node.FirstLevels(level)
	for _, name := range sortedKeys(wanted) {
		if err := checkLevel(name, wanted[name], level); err != nil {
			return nil, fmt.Errorf("--feature %s=%d: %w", name, wanted[name], err)
		}
		for i := range levels {
			if levels[i].Name == name {
				levels[i].FeatureLevel = wanted[name]
			}
		}
	}
	return levels, nil
}

// wantedLevels are the levels that the flags name.
func wantedLevels(f formatFlags) (map[string]int16, error) {
	wanted := make(map[string]int16)
	for _, feature := range f.features {
		name, level, err := featureLevel(feature)
		if err != nil {
			return nil, err
		}
		if _, twice := wanted[name]; twice {
			return nil, fmt.Errorf("--feature: %s is given more than once", name)
		}
		wanted[name] = level
	}
	if f.release == "" {
		return wanted, nil
	}
	level, ok := metadata.LevelByName(f.release)
	if !ok {
		return nil, fmt.Errorf("--release-version: %q is not known; known are %s", f.release, strings.Join(metadata.LevelNames(), ", "))
	}
	if _, twice := wanted[metadata.FeatureMetadataVersion]; twice {
		return nil, errors.New("--release-version: cannot be given together with --feature metadata.version")
	}
	wanted[metadata.FeatureMetadataVersion] = level
	return wanted, nil
}

// checkLevel tells why a new cluster of a metadata.version cannot have a level of a feature; nil if it can.
func checkLevel(name string, level, metadataVersion int16) error {
	if name == metadata.FeatureKRaftVersion && level != quorum.KRaftLevel {
		return fmt.Errorf("the voters of every cluster can change here, which is level %d", quorum.KRaftLevel)
	}
	switch r := metadata.RangeOf(node.Features(), name); {
	case r.Has(level):
	case r.Max == 0:
		return errors.New("the feature is not served by this version")
	default:
		return fmt.Errorf("this version serves levels %d to %d", r.Min, r.Max)
	}
	needs, err := requirementsOf(name, level)
	for _, need := range needs {
		if metadataVersion < need.Level {
			release, _ := metadata.LevelName(need.Level)
			return fmt.Errorf("needs metadata.version %s or newer", release)
		}
	}
	return err
}

// writeLevels leaves the levels for the node's first start.
func writeLevels(disk vfs.FS, dir string, levels []metadata.FeatureLevelRecord) error {
	var values [][]byte
	for _, f := range levels {
		if f.FeatureLevel > 0 {
			values = append(values, metadata.Encode(nil, &f, 0))
		}
	}
	return quorum.WriteBootstrap(disk, dir, values, time.Now().UnixMilli())
}
