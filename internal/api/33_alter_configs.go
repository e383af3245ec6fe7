package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/server"
	"moldau/internal/wire"
)

// alterConfigs replaces all settings of resources (the older way; see incrementalAlterConfigs).
func (a *API) alterConfigs(r *server.Request) server.Reply {
	req := r.Body.(*kmsg.AlterConfigsRequest)
	alterations := make([]alteration, len(req.Resources))
	for i, res := range req.Resources {
		alterations[i] = alteration{kind: res.ResourceType, name: res.ResourceName}
		for _, c := range res.Configs {
			alterations[i].configs = append(alterations[i].configs, alteredConfig{name: c.Name, value: c.Value})
		}
	}
	errs := a.decideHere(r, alterations, false, req.ValidateOnly)
	part := kmsg.NewPtrAlterConfigsRequest()
	part.ValidateOnly = req.ValidateOnly
	for i, res := range req.Resources {
		if errs[i] == errForController {
			part.Resources = append(part.Resources, res)
		}
	}
	a.relayConfigs(r, errs, part, func(resp kmsg.Response) (verdicts []error) {
		for _, res := range resp.(*kmsg.AlterConfigsResponse).Resources {
			verdicts = append(verdicts, verdict(res.ErrorCode, res.ErrorMessage))
		}
		return verdicts
	})
	resp := kmsg.NewPtrAlterConfigsResponse()
	for i, res := range req.Resources {
		answer := kmsg.NewAlterConfigsResponseResource()
		answer.ResourceType, answer.ResourceName = res.ResourceType, res.ResourceName
		answer.ErrorCode, answer.ErrorMessage = wire.Code(errs[i]), wire.Message(errs[i])
		resp.Resources = append(resp.Resources, answer)
	}
	return r.Answer(resp)
}
