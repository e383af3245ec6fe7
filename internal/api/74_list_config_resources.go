package api

import (
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/metadata"
	"moldau/internal/server"
)

// listConfigResources answers ListConfigResources: what there is that has settings (KIP-1000, KIP-1142). Mirrors
// KafkaApis.handleListConfigResources.
func (a *API) listConfigResources(r *server.Request) server.Reply {
	req := r.Body.(*kmsg.ListConfigResourcesRequest)
	resp := kmsg.NewPtrListConfigResourcesResponse()
	all := []int8{int8(metadata.ConfigTopic), int8(metadata.ConfigBroker), int8(metadata.ConfigBrokerLogger), int8(metadata.ConfigClientMetrics), int8(metadata.ConfigGroup)}
	kinds := req.ResourceTypes
	switch {
	case req.Version == 0:
		kinds = []int8{int8(metadata.ConfigClientMetrics)}
	case len(kinds) == 0:
		kinds = all
	}
	image := a.o.Image()
	for _, kind := range slices.Compact(slices.Sorted(slices.Values(kinds))) {
		if !slices.Contains(all, kind) {
			resp.ErrorCode, resp.ConfigResources = kerr.UnsupportedVersion.Code, nil
			break
		}
		for _, name := range resourceNames(image, metadata.ConfigType(kind)) {
			resp.ConfigResources = append(resp.ConfigResources, kmsg.ListConfigResourcesResponseConfigResource{Name: name, Type: kind})
		}
	}
	return r.Answer(resp)
}

// resourceNames returns the names of what there is of a kind: all topics and brokers, and of the rest what has settings.
func resourceNames(image *metadata.Image, kind metadata.ConfigType) (names []string) {
	switch kind {
	case metadata.ConfigTopic:
		for name := range image.Topics.All() {
			names = append(names, name)
		}
	case metadata.ConfigBroker, metadata.ConfigBrokerLogger:
		for id := range image.Cluster.Brokers() {
			names = append(names, strconv.Itoa(int(id)))
		}
	default:
		for resource := range image.Configs.All() {
			if resource.Type == kind {
				names = append(names, resource.Name)
			}
		}
	}
	return names
}
