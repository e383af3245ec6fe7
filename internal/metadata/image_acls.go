package metadata

import (
	"cmp"
	"iter"
	"strings"

	"moldau/internal/kafka"
)

// Acls is the access control entries by id.
type Acls struct {
	entries Tree[kafka.UUID, *AccessControlEntryRecord]
}

// All yields the entries by id. They must not be changed.
func (a Acls) All() iter.Seq2[kafka.UUID, *AccessControlEntryRecord] { return a.entries.All() }

// Get returns one entry. It must not be changed.
func (a Acls) Get(id kafka.UUID) (*AccessControlEntryRecord, bool) { return a.entries.Get(id) }

// ScramKey names a SCRAM credential.
type ScramKey struct {
	Mechanism int8
	User      string
}

func compareScramKey(a, b ScramKey) int {
	return cmp.Or(cmp.Compare(a.Mechanism, b.Mechanism), strings.Compare(a.User, b.User))
}

// Scram is the SCRAM credentials of users.
type Scram struct {
	credentials Tree[ScramKey, *UserScramCredentialRecord]
}

// Get returns one credential. It must not be changed.
func (s Scram) Get(key ScramKey) (*UserScramCredentialRecord, bool) { return s.credentials.Get(key) }

// DelegationTokens is the delegation tokens by id.
type DelegationTokens struct {
	tokens Tree[string, *DelegationTokenRecord]
}

// Get returns one token. It must not be changed.
func (d DelegationTokens) Get(id string) (*DelegationTokenRecord, bool) { return d.tokens.Get(id) }
