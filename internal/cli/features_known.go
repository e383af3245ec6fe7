package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"moldau/internal/metadata"
)

// knownLevel is a level of a feature.
type knownLevel struct {
	Name  string `json:"feature"`
	Level int16  `json:"level"`
}

// releaseFeatures tells which levels a new cluster of a release has; "" is the newest.
func (a *app) releaseFeatures(c *clusterFlags, release string) error {
	level := metadata.MaxMetadataVersion
	if release == "" {
		release, _ = metadata.LevelName(level)
	} else {
		var ok bool
		if level, ok = metadata.LevelByName(release); !ok {
			return &failure{exitUsage, fmt.Errorf("unknown metadata.version %q; known are %s", release, strings.Join(metadata.LevelNames(), ", "))}
		}
	}
	all := []knownLevel{{metadata.FeatureMetadataVersion, level}}
	for _, f := range metadata.KnownFeatures() {
		all = append(all, knownLevel{f.Name, f.DefaultLevel(level)})
	}
	return a.result(c, all, func(w io.Writer) {
		fmt.Fprintf(w, "%s=%d (%s)\n", all[0].Name, level, release)
		for _, f := range all[1:] {
			fmt.Fprintf(w, "%s=%d\n", f.Name, f.Level)
		}
	})
}

// requirement is what a level of a feature needs.
type requirement struct {
	knownLevel
	Requires []knownLevel `json:"requires"`
}

// featureRequirements tells what levels, given as name=level, need.
func (a *app) featureRequirements(c *clusterFlags, features []string) error {
	if len(features) == 0 {
		return &failure{exitUsage, errors.New("feature-dependencies needs --feature")}
	}
	var all []requirement
	for _, feature := range features {
		name, level, err := featureLevel(feature)
		if err != nil {
			return &failure{exitUsage, err}
		}
		requires, err := requirementsOf(name, level)
		if err != nil {
			return err
		}
		all = append(all, requirement{knownLevel{name, level}, requires})
	}
	show := func(f knownLevel) string {
		if release, ok := metadata.LevelName(f.Level); ok && f.Name == metadata.FeatureMetadataVersion {
			return fmt.Sprintf("%s=%d (%s)", f.Name, f.Level, release)
		}
		return fmt.Sprintf("%s=%d", f.Name, f.Level)
	}
	return a.result(c, all, func(w io.Writer) {
		for _, f := range all {
			if len(f.Requires) == 0 {
				fmt.Fprintf(w, "%s has no dependencies.\n", show(f.knownLevel))
				continue
			}
			fmt.Fprintf(w, "%s requires:\n", show(f.knownLevel))
			for _, r := range f.Requires {
				fmt.Fprintf(w, "    %s\n", show(r))
			}
		}
	})
}

func requirementsOf(name string, level int16) ([]knownLevel, error) {
	if name == metadata.FeatureMetadataVersion {
		if _, ok := metadata.LevelName(level); !ok {
			return nil, fmt.Errorf("unknown metadata.version %d; known are %d to %d", level, metadata.MinMetadataVersion, metadata.MaxMetadataVersion)
		}
		return nil, nil
	}
	known := metadata.KnownFeatures()
	i := slices.IndexFunc(known, func(f metadata.KnownFeature) bool { return f.Name == name })
	switch {
	case i < 0:
		return nil, fmt.Errorf("unknown feature %s", name)
	case level < 0 || int(level) > len(known[i].Needs):
		return nil, fmt.Errorf("feature %s has no level %d; it has 0 to %d", name, level, len(known[i].Needs))
	case level == 0 || known[i].Needs[level-1] == 0:
		return nil, nil
	}
	return []knownLevel{{metadata.FeatureMetadataVersion, known[i].Needs[level-1]}}, nil
}
