package znode

import (
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/config"
	"moldau/internal/metadata"
)

// readSettings reads the settings that a client gives a node; no data at all are none.
func readSettings(data []byte) (map[string]string, bool) {
	if len(data) == 0 {
		return nil, true
	}
	s, ok := read[settings](data)
	return s.Config, ok
}

// alterConfig is a write of /config/topics/T or /config/brokers/B, which states all settings. A secret is not shown there,
// so that it stays when it is not named.
func alterConfig(kind kmsg.ConfigResourceType, name string, data []byte, image *metadata.Image) (*Command, Code) {
	values, ok := readSettings(data)
	if !ok {
		return nil, BadArguments
	}
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kind, name
	for _, key := range slices.Sorted(maps.Keys(values)) {
		value := values[key]
		r.Configs = append(r.Configs, kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: key, Op: kmsg.IncrementalAlterConfigOpSet, Value: &value})
	}
	for _, key := range slices.Sorted(maps.Keys(image.Configs.Get(metadata.ConfigType(kind), name))) {
		_, stays := values[key]
		if !stays && !(kind == kmsg.ConfigResourceTypeBroker && config.IsSecret(key)) {
			r.Configs = append(r.Configs, kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: key, Op: kmsg.IncrementalAlterConfigOpDelete})
		}
	}
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Version = 1
	req.Resources = append(req.Resources, r)
	return &Command{Request: req, Verdict: func(resp kmsg.Response) (Code, string) {
		answer, ok := resp.(*kmsg.IncrementalAlterConfigsResponse)
		if !ok || len(answer.Resources) != 1 {
			return unexpected(resp)
		}
		return judge(answer.Resources[0].ErrorCode, answer.Resources[0].ErrorMessage)
	}}, OK
}
