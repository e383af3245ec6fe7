package controller

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/config"
	"moldau/internal/metadata"
)

// alterConfigs mirrors ConfigurationControlManager.legacyAlterConfigs: what is not named is removed.
func (s *state) alterConfigs(q *kmsg.AlterConfigsRequest) (Result, error) {
	response := q.ResponseKind().(*kmsg.AlterConfigsResponse)
	count := map[metadata.ConfigResource]int{}
	for _, r := range q.Resources {
		count[resourceOf(r.ResourceType, r.ResourceName)]++
	}
	var records []metadata.Record
	for _, r := range q.Resources {
		resource := resourceOf(r.ResourceType, r.ResourceName)
		if count[resource] == 0 {
			continue // a repetition of a resource that has been answered
		}
		var changed []metadata.Record
		err := checkOnce(resource, count[resource])
		if err == nil {
			next := map[string]*string{}
			for name := range s.image.Configs.Get(resource.Type, resource.Name) {
				next[name] = nil
			}
			for _, c := range r.Configs {
				next[c.Name] = c.Value
			}
			changed, err = s.changeConfigs(resource, next)
		}
		count[resource] = 0
		out := kmsg.NewAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName = r.ResourceType, r.ResourceName
		out.ErrorCode, out.ErrorMessage = faultOf(err)
		response.Resources = append(response.Resources, out)
		records = append(records, changed...)
	}
	return s.configResult(records, q.ValidateOnly, response)
}

// incrementalAlterConfigs mirrors ConfigurationControlManager.incrementalAlterConfigs (KIP-339).
func (s *state) incrementalAlterConfigs(q *kmsg.IncrementalAlterConfigsRequest) (Result, error) {
	response := q.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
	count := map[metadata.ConfigResource]int{}
	for _, r := range q.Resources {
		count[resourceOf(r.ResourceType, r.ResourceName)]++
	}
	var records []metadata.Record
	for _, r := range q.Resources {
		resource := resourceOf(r.ResourceType, r.ResourceName)
		if count[resource] == 0 {
			continue // a repetition of a resource that has been answered
		}
		var changed []metadata.Record
		err := checkOnce(resource, count[resource])
		if err == nil {
			var next map[string]*string
			if next, err = s.applyOps(resource, r.Configs); err == nil {
				changed, err = s.changeConfigs(resource, next)
			}
		}
		count[resource] = 0
		out := kmsg.NewIncrementalAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName = r.ResourceType, r.ResourceName
		out.ErrorCode, out.ErrorMessage = faultOf(err)
		response.Resources = append(response.Resources, out)
		records = append(records, changed...)
	}
	return s.configResult(records, q.ValidateOnly, response)
}

func (s *state) configResult(records []metadata.Record, validateOnly bool, response kmsg.Response) (Result, error) {
	if validateOnly {
		records = nil
	}
	next := s.after(records)
	var then []metadata.Record
	if sets(records, minInsync) {
		records = append(records, next.shrinkEligible()...)
	}
	if sets(records, uncleanElection) {
		then = next.revive()
	}
	if len(records) > maxRecords {
		return Result{}, errTooLarge()
	}
	return Result{Records: records, Then: then, Response: response, Atomic: true}, nil
}

// sets reports whether records state a configuration.
func sets(records []metadata.Record, name string) bool {
	return slices.ContainsFunc(records, func(r metadata.Record) bool {
		c, ok := r.(*metadata.ConfigRecord)
		return ok && c.Name == name
	})
}

// shrinkEligible forgets the eligible replicas of partitions whose in-sync replicas are enough: with a lower minimum the
// watermark moves without the others. It has to be written together with the lower minimum. (Apache Kafka forgets all of
// them, those too that a partition without a leader waits for.)
func (s *state) shrinkEligible() []metadata.Record {
	return s.changeAll(
		func(p *metadata.PartitionRegistration) bool { return len(p.ELR) > 0 && len(p.ISR) > 0 },
		func(*metadata.PartitionRegistration, *partitionTarget) {})
}

func resourceOf(t kmsg.ConfigResourceType, name string) metadata.ConfigResource {
	return metadata.ConfigResource{Type: metadata.ConfigType(t), Name: name}
}

func checkOnce(r metadata.ConfigResource, count int) error {
	switch {
	case r.Type.String() == "UNKNOWN":
		return faultf(kerr.InvalidRequest, "Unknown resource type %d", r.Type)
	case count > 1:
		return faultf(kerr.InvalidRequest, "Duplicate resource.")
	}
	return nil
}

// applyOps returns the new values that the operations give; nil removes.
func (s *state) applyOps(r metadata.ConfigResource, ops []kmsg.IncrementalAlterConfigsRequestResourceConfig) (map[string]*string, error) {
	next := map[string]*string{}
	for _, op := range ops {
		if _, twice := next[op.Name]; twice {
			return nil, faultf(kerr.InvalidRequest, "Error due to duplicate config keys")
		}
		if op.Value == nil && op.Op != kmsg.IncrementalAlterConfigOpDelete {
			return nil, faultf(kerr.InvalidRequest, "Null value not supported for : %s", op.Name)
		}
		switch op.Op {
		case kmsg.IncrementalAlterConfigOpSet:
			next[op.Name] = op.Value
		case kmsg.IncrementalAlterConfigOpDelete:
			next[op.Name] = nil
		case kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract:
			if s.Rules.List == nil || !s.Rules.List(r.Type, op.Name) {
				verb := map[bool]string{true: "APPEND", false: "SUBTRACT"}[op.Op == kmsg.IncrementalAlterConfigOpAppend]
				return nil, faultf(kerr.InvalidConfig, "Can't %s to key %s because its type is not LIST.", verb, op.Name)
			}
			value := changeList(s.listInForce(r, op.Name), *op.Value, op.Op == kmsg.IncrementalAlterConfigOpAppend)
			next[op.Name] = &value
		default:
			return nil, faultf(kerr.InvalidRequest, "Unknown operation type %d.", op.Op)
		}
	}
	return next, nil
}

// listInForce returns the list that APPEND and SUBTRACT start from: what is set, else the default.
func (s *state) listInForce(r metadata.ConfigResource, name string) string {
	if value, ok := s.image.Configs.Get(r.Type, r.Name)[name]; ok {
		return value
	}
	if s.Rules.Default == nil {
		return ""
	}
	value, _ := s.Rules.Default(r.Type, name)
	return value
}

func changeList(list, change string, add bool) string {
	var parts []string
	for part := range strings.SplitSeq(list, ",") {
		if part != "" {
			parts = append(parts, part)
		}
	}
	for part := range strings.SplitSeq(change, ",") {
		at := slices.Index(parts, part)
		switch {
		case add && at < 0:
			parts = append(parts, part)
		case !add && at >= 0:
			parts = slices.Delete(parts, at, at+1)
		}
	}
	return strings.Join(parts, ",")
}

// changeConfigs checks new values and returns the records that set them. Values that stay the same are not written, but
// for brokers', which reload what a value points to (KAFKA-14136).
func (s *state) changeConfigs(r metadata.ConfigResource, next map[string]*string) ([]metadata.Record, error) {
	if err := s.checkResource(r); err != nil {
		return nil, err
	}
	if value, stated := next[minInsync]; stated && r.Type == metadata.ConfigBroker && s.elrEnabled() {
		// Who is eligible follows from the minimum; one of its own on some broker would let the watermark move behind our back.
		switch {
		case r.Name != "":
			return nil, faultf(kerr.InvalidConfig, "Broker-level min.insync.replicas cannot be altered while ELR is enabled.")
		case value == nil:
			return nil, faultf(kerr.InvalidConfig, "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.")
		}
	}
	old := s.image.Configs.Get(r.Type, r.Name)
	all := maps.Clone(old)
	if all == nil {
		all = map[string]string{}
	}
	var records []metadata.Record
	for _, name := range slices.Sorted(maps.Keys(next)) {
		value := next[name]
		was, set := old[name]
		if value == nil {
			delete(all, name)
		} else {
			all[name] = *value
		}
		same := value == nil && !set || value != nil && set && was == *value
		if !same || r.Type == metadata.ConfigBroker {
			records = append(records, &metadata.ConfigRecord{
				ResourceType: int8(r.Type), ResourceName: r.Name, Name: name, Value: value,
			})
		}
	}
	if err := s.checkConfigs(r, all); err != nil {
		return nil, err
	}
	return records, nil
}

// checkConfigs refuses wrong values. Those of brokers are an invalid request, and of client metrics unknown keys and an interval out
// of range, as in ConfigAdminManager (KAFKA-13609) and ClientMetricsConfigs.
func (s *state) checkConfigs(r metadata.ConfigResource, values map[string]string) error {
	if s.Rules.Check == nil {
		return nil
	}
	err := s.Rules.Check(r, values, s.image.Configs.Get(metadata.ConfigBroker, ""))
	var mistyped *config.NotOfTypeError
	switch {
	case err == nil:
		return nil
	case r.Type == metadata.ConfigBroker || r.Type == metadata.ConfigClientMetrics && !errors.As(err, &mistyped):
		return faultf(kerr.InvalidRequest, "%v", err)
	}
	return faultf(kerr.InvalidConfig, "%v", err)
}

// checkResource mirrors ControllerConfigurationValidator and ConfigResourceExistenceChecker.
func (s *state) checkResource(r metadata.ConfigResource) error {
	switch r.Type {
	case metadata.ConfigTopic:
		if r.Name == "" {
			return faultf(kerr.InvalidRequest, "Default topic resources are not allowed.")
		}
		if err := checkTopicName(r.Name); err != nil {
			return err
		}
		if _, ok := s.image.Topics.ByName(r.Name); !ok {
			return faultf(kerr.UnknownTopicOrPartition, "The topic '%s' does not exist.", r.Name)
		}
		return nil
	case metadata.ConfigBroker:
		if r.Name == "" {
			return nil // the default of all brokers
		}
		id, err := strconv.ParseInt(r.Name, 10, 32)
		if err != nil {
			return faultf(kerr.InvalidRequest, "Unable to parse broker name as a base 10 number.")
		}
		if id < 0 {
			return faultf(kerr.InvalidRequest, "Invalid negative broker ID.")
		}
		_, broker := s.image.Cluster.Broker(int32(id))
		_, controller := s.image.Cluster.Controller(int32(id))
		if !broker && !controller && int32(id) != s.NodeID {
			return faultf(kerr.BrokerIDNotRegistered, "No node with id %d found.", id)
		}
		return nil
	case metadata.ConfigGroup:
		if r.Name == "" {
			return faultf(kerr.InvalidRequest, "Default group resources are not allowed.")
		}
		return nil
	case metadata.ConfigClientMetrics:
		if r.Name == "" {
			return faultf(kerr.InvalidRequest, "Subscription name can't be empty")
		}
		return nil
	}
	return faultf(kerr.InvalidRequest, "Unknown resource type %v", r.Type)
}
