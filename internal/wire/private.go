package wire

import "github.com/twmb/franz-go/pkg/kmsg"

// Private API keys are spoken between our own nodes only, on controller listeners or, where ZooKeeper is in the name, on brokers'. ApiVersions does
// not list them. What a body means is for the two ends: to this package it is bytes.
const (
	FirstPrivateKey int16 = 30000
	RaftKey         int16 = 30000 // messages of the metadata quorum's voters
	FormKey         int16 = 30001 // what a node is, asked while a cluster forms
	ZooKeeperKey    int16 = 30002 // serve a ZooKeeper client on this connection
	// ZooKeeperOffsetsKey is OffsetCommit or OffsetFetch of version 0, which another node passes on.
	ZooKeeperOffsetsKey int16 = 30003
	NodeIDKey           int16 = 30004 // a number for a node that has none, on controller listeners
	lastPrivateKey            = NodeIDKey
)

// PrivateRequest is a request with a private API key.
type PrivateRequest struct {
	APIKey  int16
	Version int16
	Body    []byte // aliases the frame after ReadFrom
}

// Key returns APIKey.
func (r *PrivateRequest) Key() int16 { return r.APIKey }

// MaxVersion is 0 for every private key.
func (*PrivateRequest) MaxVersion() int16 { return 0 }

// SetVersion sets Version.
func (r *PrivateRequest) SetVersion(version int16) { r.Version = version }

// GetVersion returns Version.
func (r *PrivateRequest) GetVersion() int16 { return r.Version }

// IsFlexible is true: the header has tagged fields. The body has none.
func (*PrivateRequest) IsFlexible() bool { return true }

// AppendTo appends Body.
func (r *PrivateRequest) AppendTo(dst []byte) []byte { return append(dst, r.Body...) }

// ReadFrom takes all of b for Body.
func (r *PrivateRequest) ReadFrom(b []byte) error {
	r.Body = b
	return nil
}

// ResponseKind returns an empty response.
func (r *PrivateRequest) ResponseKind() kmsg.Response {
	return &PrivateResponse{APIKey: r.APIKey, Version: r.Version}
}

// PrivateResponse is the response to a PrivateRequest.
type PrivateResponse struct {
	APIKey  int16
	Version int16
	Body    []byte // aliases the frame after ReadFrom
}

// Key returns APIKey.
func (r *PrivateResponse) Key() int16 { return r.APIKey }

// MaxVersion is 0 for every private key.
func (*PrivateResponse) MaxVersion() int16 { return 0 }

// SetVersion sets Version.
func (r *PrivateResponse) SetVersion(version int16) { r.Version = version }

// GetVersion returns Version.
func (r *PrivateResponse) GetVersion() int16 { return r.Version }

// IsFlexible is true: the header has tagged fields. The body has none.
func (*PrivateResponse) IsFlexible() bool { return true }

// AppendTo appends Body.
func (r *PrivateResponse) AppendTo(dst []byte) []byte { return append(dst, r.Body...) }

// ReadFrom takes all of b for Body.
func (r *PrivateResponse) ReadFrom(b []byte) error {
	r.Body = b
	return nil
}

// RequestKind returns an empty request.
func (r *PrivateResponse) RequestKind() kmsg.Request {
	return &PrivateRequest{APIKey: r.APIKey, Version: r.Version}
}

func isPrivate(key int16) bool { return key >= FirstPrivateKey && key <= lastPrivateKey }
