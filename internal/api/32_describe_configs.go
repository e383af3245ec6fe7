package api

import (
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/config"
	"moldau/internal/metadata"
	"moldau/internal/server"
	"moldau/internal/wire"
)

// describeConfigs answers DescribeConfigs for topics, groups, this broker and what else has settings, with every setting's source, synonyms and
// documentation (KIP-133, KIP-226, KIP-569). Mirrors ConfigHelper.describeConfigs.
func (a *API) describeConfigs(r *server.Request) server.Reply {
	req := r.Body.(*kmsg.DescribeConfigsRequest)
	resp := kmsg.NewPtrDescribeConfigsResponse()
	image := a.o.Image()
	for _, resource := range req.Resources {
		answer := kmsg.NewDescribeConfigsResponseResource()
		answer.ResourceType, answer.ResourceName = resource.ResourceType, resource.ResourceName
		entries, err := a.configsOf(image, resource.ResourceType, resource.ResourceName)
		answer.ErrorCode, answer.ErrorMessage = wire.Code(err), wire.Message(err)
		if err != nil {
			entries = nil
		}
		for _, e := range entries {
			if len(resource.ConfigNames) == 0 || slices.Contains(resource.ConfigNames, e.Name) {
				answer.Configs = append(answer.Configs, describe(e, req))
			}
		}
		resp.Resources = append(resp.Resources, answer)
	}
	return r.Answer(resp)
}

func (a *API) configsOf(image *metadata.Image, kind kmsg.ConfigResourceType, name string) ([]config.Entry, error) {
	switch kind {
	case kmsg.ConfigResourceTypeTopic:
		if err := checkTopicName(name); err != nil {
			return nil, err
		}
		if _, ok := image.Topics.ByName(name); !ok {
			return nil, kerr.UnknownTopicOrPartition
		}
		return a.o.Config().DescribeTopic(image.Configs.Topic(name)), nil
	case kmsg.ConfigResourceTypeBroker:
		if name == "" {
			return a.o.Config().DescribeBrokers(), nil
		}
		return a.o.Config().DescribeBroker(), a.checkBrokerID(name, " or empty string,")
	case kmsg.ConfigResourceTypeBrokerLogger:
		if name == "" {
			return nil, invalidRequest("Broker id must not be empty")
		}
		return a.describeLoggers(), a.checkBrokerID(name, "")
	case kmsg.ConfigResourceTypeGroupConfig:
		if name == "" {
			return nil, invalidRequest("Group name must not be empty")
		}
		return a.o.Config().DescribeGroup(image.Configs.Get(metadata.ConfigGroup, name)), nil
	case kmsg.ConfigResourceTypeClientMetrics:
		if name == "" {
			return nil, invalidRequest("Client metrics subscription name must not be empty")
		}
		return a.o.Config().DescribeClientMetrics(image.Configs.Get(metadata.ConfigClientMetrics, name)), nil
	}
	return nil, kerr.InvalidRequest
}

// checkBrokerID makes sure that what is to be described is this node.
func (a *API) checkBrokerID(name, orElse string) error {
	id, err := strconv.ParseInt(name, 10, 32)
	if err != nil {
		return invalidRequest("Broker id must be an integer, but it is: %s", name)
	}
	if int32(id) != a.o.NodeID {
		return invalidRequest("Unexpected broker id, expected %d%s but received %s", a.o.NodeID, orElse, name)
	}
	return nil
}

func describe(e config.Entry, req *kmsg.DescribeConfigsRequest) kmsg.DescribeConfigsResponseResourceConfig {
	answer := kmsg.NewDescribeConfigsResponseResourceConfig()
	answer.Name, answer.Value = e.Name, e.Value
	answer.ReadOnly, answer.IsSensitive = e.ReadOnly, e.Sensitive
	answer.IsDefault = e.Origin == config.OriginDefault
	answer.Source = kmsg.ConfigSource(e.Origin)
	answer.ConfigType = kmsg.ConfigType(e.Type)
	if req.IncludeDocumentation {
		answer.Documentation = &e.Text
	}
	if req.IncludeSynonyms {
		for _, s := range e.Synonyms {
			synonym := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
			synonym.Name, synonym.Value, synonym.Source = s.Name, s.Value, kmsg.ConfigSource(s.Origin)
			answer.ConfigSynonyms = append(answer.ConfigSynonyms, synonym)
		}
	}
	return answer
}
