package controller

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/metadata"
)

// Upgrade types of UpdateFeatures (FeatureUpdate.UpgradeType).
const (
	upgrade         int8 = 1
	safeDowngrade   int8 = 2
	unsafeDowngrade int8 = 3
)

// bootstrap returns the records of an empty log: metadata.version first, since it says how to read the others.
func bootstrap(c Config) []metadata.Record {
	records := []metadata.Record{&metadata.FeatureLevelRecord{
		Name: metadata.FeatureMetadataVersion, FeatureLevel: c.InitialMetadataVersion,
	}}
	features := slices.SortedFunc(slices.Values(c.InitialFeatures), func(a, b metadata.FeatureLevelRecord) int {
		return strings.Compare(a.Name, b.Name)
	})
	for _, f := range features {
		if f.FeatureLevel > 0 && f.Name != metadata.FeatureMetadataVersion {
			records = append(records, &metadata.FeatureLevelRecord{Name: f.Name, FeatureLevel: f.FeatureLevel})
		}
		if f.FeatureLevel > 0 && f.Name == metadata.FeatureEligibleLeaderReplicas {
			records = append(records, minInsyncRecord(c))
		}
	}
	return records
}

// minInsyncRecord states the smallest ISR that lets the watermark move, for all brokers. With eligible leader replicas the
// controller's view of it decides who may lead, so it must be the one that every broker acts on (KIP-966).
func minInsyncRecord(c Config) *metadata.ConfigRecord {
	value := strconv.Itoa(int(max(c.MinInsyncReplicas, 1)))
	return &metadata.ConfigRecord{ResourceType: int8(metadata.ConfigBroker), Name: minInsync, Value: &value}
}

// updateFeatures mirrors FeatureControlManager.updateFeatures: all of the updates, or none.
func (s *state) updateFeatures(q *kmsg.UpdateFeaturesRequest) (Result, error) {
	response := q.ResponseKind().(*kmsg.UpdateFeaturesResponse)
	var records []metadata.Record
	var err error
	seen := map[string]bool{}
	for _, u := range q.FeatureUpdates {
		kind := u.UpgradeType
		if q.Version == 0 {
			kind = upgrade
			if u.AllowDowngrade {
				kind = safeDowngrade
			}
		}
		if seen[u.Feature] {
			err = faultf(kerr.InvalidRequest, "Feature %s is named more than once.", u.Feature)
			break
		}
		seen[u.Feature] = true
		if err = s.checkFeatureUpdate(u.Feature, u.MaxVersionLevel, kind); err != nil {
			break
		}
		if u.MaxVersionLevel != s.image.Features.Level(u.Feature) {
			records = append(records, &metadata.FeatureLevelRecord{Name: u.Feature, FeatureLevel: u.MaxVersionLevel})
			_, stated := s.image.Configs.Get(metadata.ConfigBroker, "")[minInsync]
			if u.Feature == metadata.FeatureEligibleLeaderReplicas && u.MaxVersionLevel > 0 && !stated {
				records = append(records, minInsyncRecord(s.Config))
			}
		}
	}
	if err == nil && s.elrEnabled() {
		if next := s.after(records); !next.elrEnabled() {
			records = append(records, next.seatEligible()...)
		}
		if len(records) > maxRecords {
			err = errTooLarge()
		}
	}
	response.ErrorCode, response.ErrorMessage = faultOf(err)
	if response.ErrorMessage != nil {
		text := "The update failed for all features since the following feature had an error: " + *response.ErrorMessage
		response.ErrorMessage = &text
	}
	if err == nil && q.Version < 2 {
		for _, u := range q.FeatureUpdates {
			result := kmsg.NewUpdateFeaturesResponseResult()
			result.Feature = u.Feature
			response.Results = append(response.Results, result)
		}
	}
	if err != nil || q.ValidateOnly {
		records = nil
	}
	return Result{Records: records, Response: response, Atomic: true}, nil
}

// seatEligible makes the eligible replicas of partitions that have nobody in sync their in-sync ones, when nobody is eligible any more:
// they have all that was committed, and without a seat none of them could lead when it comes back. It has to be written together
// with the level.
func (s *state) seatEligible() []metadata.Record {
	return s.changeAll(
		func(p *metadata.PartitionRegistration) bool { return len(p.ELR) > 0 },
		func(p *metadata.PartitionRegistration, t *partitionTarget) {
			if len(p.ISR) == 0 {
				t.isr = p.ELR
			}
		})
}

func (s *state) checkFeatureUpdate(name string, level int16, kind int8) error {
	refuse := func(format string, args ...any) error {
		what := fmt.Sprintf("Invalid update version %d for feature %s. ", level, name)
		return faultf(kerr.InvalidUpdateVersion, "%s", what+fmt.Sprintf(format, args...))
	}
	current := s.image.Features.Level(name)
	switch {
	case kind != upgrade && kind != safeDowngrade && kind != unsafeDowngrade:
		return refuse("The controller does not support the given upgrade type.")
	case name == metadata.FeatureKRaftVersion:
		return refuse("The controller can not change this feature: it belongs to the quorum.")
	case level < 0:
		return refuse("A feature version cannot be less than 0.")
	}
	if reason := unsupported(s.Features, name, level, fmt.Sprintf("Local controller %d", s.NodeID)); reason != "" {
		return refuse("%s", reason)
	}
	for id, b := range s.image.Cluster.Brokers() {
		if reason := unsupported(b.Features, name, level, fmt.Sprintf("Broker %d", id)); reason != "" {
			return refuse("%s", reason)
		}
	}
	for id, k := range s.image.Cluster.Controllers() {
		if reason := unsupported(k.Features, name, level, fmt.Sprintf("Controller %d", id)); id != s.NodeID && reason != "" {
			return refuse("%s", reason)
		}
	}
	switch {
	case level < current && kind == upgrade:
		return refuse("Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade.")
	case level > current && kind != upgrade:
		return refuse("Can't downgrade to a newer version.")
	case name == metadata.FeatureMetadataVersion && level < current && metadata.RecordsChanged(level, current):
		text := "Refusing to perform the requested downgrade because it might delete metadata information."
		if kind == unsafeDowngrade {
			text = "Unsafe metadata downgrade is not supported in this version."
		}
		return faultf(kerr.InvalidUpdateVersion, "Unsupported metadata.version downgrade from %d to %d. %s", current, level, text)
	}
	return nil
}

// unsupported says why a node with the given ranges can not have a level of a feature; empty when it can.
func unsupported(ranges []metadata.FeatureRange, name string, level int16, who string) string {
	r := metadata.RangeOf(ranges, name)
	switch {
	case r.Has(level):
		return ""
	case r.Max == 0:
		return who + " does not support this feature."
	}
	return fmt.Sprintf("%s only supports versions %d-%d", who, r.Min, r.Max)
}
