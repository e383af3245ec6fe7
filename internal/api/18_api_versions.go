package api

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/metadata"
	"moldau/internal/quorum"
	"moldau/internal/server"
)

// apiVersions answers ApiVersions: what this listener serves, and the features of node and cluster. A version that we do
// not know never comes here: the server answers it.
func (a *API) apiVersions(r *server.Request) server.Reply {
	req := r.Body.(*kmsg.ApiVersionsRequest)
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.FinalizedFeaturesEpoch = -1
	if err := a.checkApiVersions(req); err != nil {
		if err == kerr.RebootstrapRequired { // an address has changed hands
			a.o.Logger.Info("a client took this node for another", "client", r.ClientID(), "remote", r.Conn.RemoteAddr(), "cluster", *req.ClusterID, "node", req.NodeID)
		}
		resp.ErrorCode = err.Code
		return r.Answer(resp)
	}
	if req.Version >= 3 {
		r.Conn.SetSoftware(req.ClientSoftwareName, req.ClientSoftwareVersion)
	}
	for _, row := range a.table {
		if row.hidden || row.on(r.Conn.Kind()) == nil {
			continue
		}
		k := kmsg.NewApiVersionsResponseApiKey()
		k.ApiKey, k.MinVersion, k.MaxVersion = row.key, row.min, row.max
		resp.ApiKeys = append(resp.ApiKeys, k)
	}
	for _, f := range a.o.Features {
		if f.Min == 0 && req.Version < 4 {
			continue // older clients fail to read a range that begins at 0 (KAFKA-17492)
		}
		s := kmsg.NewApiVersionsResponseSupportedFeature()
		s.Name, s.MinVersion, s.MaxVersion = f.Name, f.Min, f.Max
		resp.SupportedFeatures = append(resp.SupportedFeatures, s)
	}
	image := a.o.Image()
	finalized := func(name string, level int16) {
		if level == 0 {
			return
		}
		f := kmsg.NewApiVersionsResponseFinalizedFeature()
		f.Name, f.MinVersionLevel, f.MaxVersionLevel = name, level, level
		resp.FinalizedFeatures = append(resp.FinalizedFeatures, f)
	}
	for name, level := range image.Features.All() {
		finalized(name, level)
	}
	if image.Features.MetadataVersion() != 0 {
		finalized(metadata.FeatureKRaftVersion, quorum.KRaftLevel) // lives in the log's control records, not in the image
		resp.FinalizedFeaturesEpoch = image.Offset
	}
	return r.Answer(resp)
}

// checkApiVersions refuses a client without a proper name (KIP-511), and one that thinks that it is speaking to another
// node or cluster, which happens when addresses are given to somebody else (KIP-1242).
func (a *API) checkApiVersions(req *kmsg.ApiVersionsRequest) *kerr.Error {
	if req.Version >= 3 && (!softwareName(req.ClientSoftwareName) || !softwareName(req.ClientSoftwareVersion)) {
		return kerr.InvalidRequest
	}
	if req.Version >= 5 {
		if (req.ClusterID == nil) != (req.NodeID < 0) {
			return kerr.InvalidRequest
		}
		if req.ClusterID != nil && (*req.ClusterID != a.o.ClusterID || req.NodeID != a.o.NodeID) {
			return kerr.RebootstrapRequired
		}
	}
	return nil
}

// softwareName reports whether s is letters, digits, dashes and dots, and begins and ends with a letter or digit.
func softwareName(s string) bool {
	alphanumeric := func(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' }
	if s == "" || !alphanumeric(s[0]) || !alphanumeric(s[len(s)-1]) {
		return false
	}
	for i := range len(s) {
		if !alphanumeric(s[i]) && s[i] != '-' && s[i] != '.' {
			return false
		}
	}
	return true
}
