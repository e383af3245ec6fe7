package kafka

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
)

// UUID is Kafka's 128-bit id of a topic, a directory or a cluster (org.apache.kafka.common.Uuid).
type UUID [16]byte

type (
	// TopicID tells a topic from another that once had the same name (KIP-516).
	TopicID = UUID
	// DirID names a log directory of a broker (KIP-858).
	DirID = UUID
)

// Reserved directory ids (org.apache.kafka.common.DirectoryId).
var (
	DirUnassigned = DirID{}      // no directory chosen yet
	DirLost       = DirID{15: 1} // the directory went offline
	DirMigrating  = DirID{15: 2} // the broker does not report directories yet
)

// IsZero reports whether u is Uuid.ZERO_UUID, which stands for "none".
func (u UUID) IsZero() bool { return u == UUID{} }

// String returns the 22 characters that Kafka prints and stores.
func (u UUID) String() string { return base64.RawURLEncoding.EncodeToString(u[:]) }

// NewUUID returns a random id. Like Uuid.randomUuid it never returns one of the first hundred values, which are
// reserved, nor one whose text starts with a dash, which would read as a flag on a command line.
func NewUUID() UUID {
	for {
		var u UUID
		_, _ = rand.Read(u[:]) // never fails since Go 1.24
		u[6] = u[6]&0x0f | 0x40
		u[8] = u[8]&0x3f | 0x80
		if u.String()[0] != '-' {
			return u
		}
	}
}

// ParseUUID reads the text form of an id.
func ParseUUID(s string) (UUID, error) {
	var u UUID
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(b) != len(u) {
		return u, fmt.Errorf("%q is not an id: want 22 characters of URL-safe base64, as `moldau storage random-uuid` prints", s)
	}
	copy(u[:], b)
	return u, nil
}
