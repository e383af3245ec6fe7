package group

import (
	"bytes"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
)

// Client is who sends a request.
type Client struct {
	ID   string // its name for itself
	Host string // "/127.0.0.1"
}

// member is one member of a group.
type member struct {
	id        string
	instance  *string // of a static member (KIP-345)
	client    Client
	rebalance int32 // timeouts in ms
	session   int32
	protocols []protocol // assignors that it can work with, the preferred first

	assignment []byte // its part of the generation's; empty while there is none

	join      *coordinator.Promise[*kmsg.JoinGroupResponse] // it waits for the end of the join; nil: it does not
	sync      *coordinator.Promise[*kmsg.SyncGroupResponse] // it waits for its assignment; nil: it does not
	isNew     bool                                          // has not got through a join yet
	owesSync  bool                                          // has joined the generation and not asked for its assignment
	heartbeat coordinator.Timer
}

// protocol is an assignor and what the member tells it.
type protocol struct {
	name     string
	metadata []byte
}

// protocolsOf copies the protocols of a request, whose bytes point into a frame.
func protocolsOf(from []kmsg.JoinGroupRequestProtocol) []protocol {
	to := make([]protocol, len(from))
	for i, p := range from {
		to[i] = protocol{p.Name, bytes.Clone(p.Metadata)}
	}
	return to
}

func sameProtocols(a, b []protocol) bool {
	return slices.EqualFunc(a, b, func(x, y protocol) bool { return x.name == y.name && bytes.Equal(x.metadata, y.metadata) })
}

// metadata is what the member tells an assignor.
func (m *member) metadata(name string) []byte {
	for _, p := range m.protocols {
		if p.name == name {
			return p.metadata
		}
	}
	return nil
}

// static reports whether the member keeps its place over a restart.
func (m *member) static() bool { return m.instance != nil }

// bytes is what the member makes the node hold, about.
func (m *member) bytes() int {
	n := memberBytes + len(m.id) + len(m.client.ID)
	for _, p := range m.protocols {
		n += len(p.name) + len(p.metadata)
	}
	return n
}

// memberBytes is about what a member takes beside its subscription.
const memberBytes = 512

// excused reports whether no heartbeat is expected: the member waits for the others. A new member can be given up while
// it waits, because nobody knows yet whether it is there. Mirrors ClassicGroupMember.hasSatisfiedHeartbeat.
func (m *member) excused() bool { return !m.isNew && (m.join != nil || m.sync != nil) }
