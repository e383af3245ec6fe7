package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/metadata"
)

// featureFlags are those of FeatureCommand's upgrade, downgrade and disable.
type featureFlags struct {
	features          []string
	release, metadata string
	dryRun, unsafe    bool
}

func (f *featureFlags) add(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.features, "feature", nil, "a feature and its `level`: name=level; for disable the name alone")
	flags.StringVar(&f.release, "release-version", "", "the `release` whose metadata.version to set, such as 4.1")
	flags.StringVar(&f.metadata, "metadata", "", "the old spelling of --release-version")
	flags.BoolVar(&f.dryRun, "dry-run", false, "only tell whether it can be done")
	flags.BoolVar(&f.unsafe, "unsafe", false, "downgrade even if that loses metadata")
}

// How a level may change (FeatureUpdate.UpgradeType).
const (
	upgradeOnly     = 1
	safeDowngrade   = 2
	unsafeDowngrade = 3
)

// updates is what the flags ask for, in their order.
func (f featureFlags) updates(op string) ([]kmsg.UpdateFeaturesRequestFeatureUpdate, error) {
	kind := int8(upgradeOnly)
	switch {
	case op == "upgrade" && f.unsafe:
		return nil, errors.New("--unsafe goes with downgrade and disable")
	case op != "upgrade" && f.unsafe:
		kind = unsafeDowngrade
	case op != "upgrade":
		kind = safeDowngrade
	}
	var updates []kmsg.UpdateFeaturesRequestFeatureUpdate
	add := func(name string, level int16) error {
		if slices.ContainsFunc(updates, func(u kmsg.UpdateFeaturesRequestFeatureUpdate) bool { return u.Feature == name }) {
			return fmt.Errorf("feature %s is given more than once", name)
		}
		u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
		u.Feature, u.MaxVersionLevel, u.UpgradeType, u.AllowDowngrade = name, level, kind, kind != upgradeOnly
		updates = append(updates, u)
		return nil
	}
	for _, release := range []string{f.release, f.metadata} {
		if release == "" {
			continue
		}
		level, ok := metadata.LevelByName(release)
		switch {
		case op == "disable":
			return nil, errors.New("disable takes --feature")
		case !ok:
			return nil, fmt.Errorf("%q is no metadata.version that is known", release)
		case len(f.features) > 0 && f.release != "":
			return nil, errors.New("--release-version and --feature exclude each other")
		}
		if err := add(metadata.FeatureMetadataVersion, level); err != nil {
			return nil, err
		}
	}
	for _, feature := range f.features {
		name, level := strings.TrimSpace(feature), int16(0)
		if op != "disable" {
			var err error
			if name, level, err = featureLevel(feature); err != nil {
				return nil, err
			}
		} else if strings.Contains(feature, "=") {
			return nil, fmt.Errorf("--feature %s: want a name alone", feature)
		}
		if err := add(name, level); err != nil {
			return nil, err
		}
	}
	if len(updates) == 0 {
		return nil, fmt.Errorf("%s needs --feature", op)
	}
	return updates, nil
}

// featureLevel reads name=level.
func featureLevel(text string) (name string, level int16, err error) {
	name, number, _ := strings.Cut(text, "=")
	n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("--feature %s: want name=level", text)
	}
	return strings.TrimSpace(name), int16(n), nil
}

// updatedFeature is what became of a feature.
type updatedFeature struct {
	Name   string `json:"feature"`
	Level  int16  `json:"level"`
	DryRun bool   `json:"dryRun"`
}

func (a *app) updateFeatures(ctx context.Context, cl *client, c *clusterFlags, op string, updates []kmsg.UpdateFeaturesRequestFeatureUpdate, dryRun bool) error {
	req := kmsg.NewPtrUpdateFeaturesRequest()
	req.TimeoutMillis, req.ValidateOnly, req.FeatureUpdates = 30_000, dryRun, updates
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return refused(op+" features", err, text(resp.ErrorMessage))
	}
	for _, r := range resp.Results { // only in versions 0 and 1
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			return refused(op+" "+r.Feature, err, text(r.ErrorMessage))
		}
	}
	var done []updatedFeature
	for _, u := range updates {
		done = append(done, updatedFeature{u.Feature, u.MaxVersionLevel, dryRun})
	}
	slices.SortFunc(done, func(a, b updatedFeature) int { return strings.Compare(a.Name, b.Name) })
	return a.result(c, done, func(w io.Writer) {
		verb := "was"
		if dryRun {
			verb = "can be"
		}
		for _, f := range done {
			if op == "disable" {
				fmt.Fprintf(w, "%s %s disabled.\n", f.Name, verb)
			} else {
				fmt.Fprintf(w, "%s %s %sd to %d.\n", f.Name, verb, op, f.Level)
			}
		}
	})
}
