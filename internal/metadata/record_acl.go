package metadata

import "moldau/internal/kafka"

// AccessControlEntryRecord adds one ACL.
type AccessControlEntryRecord struct {
	ID             kafka.UUID
	ResourceType   int8
	ResourceName   string
	PatternType    int8
	Principal      string
	Host           string
	Operation      int8
	PermissionType int8
}

// Type is 18.
func (r *AccessControlEntryRecord) Type() int16 { return TypeAccessControlEntry }

func (r *AccessControlEntryRecord) walk(c *codec) {
	c.uuid(&r.ID)
	c.int8(&r.ResourceType)
	c.string(&r.ResourceName)
	c.int8(&r.PatternType)
	c.string(&r.Principal)
	c.string(&r.Host)
	c.int8(&r.Operation)
	c.int8(&r.PermissionType)
	c.tags()
}

// RemoveAccessControlEntryRecord removes one ACL.
type RemoveAccessControlEntryRecord struct {
	ID kafka.UUID
}

// Type is 19.
func (r *RemoveAccessControlEntryRecord) Type() int16 { return TypeRemoveAccessControlEntry }

func (r *RemoveAccessControlEntryRecord) walk(c *codec) {
	c.uuid(&r.ID)
	c.tags()
}

// UserScramCredentialRecord sets the SCRAM credential of a user for one mechanism.
type UserScramCredentialRecord struct {
	Name       string
	Mechanism  int8 // 1 SCRAM-SHA-256, 2 SCRAM-SHA-512
	Salt       []byte
	StoredKey  []byte
	ServerKey  []byte
	Iterations int32
}

// Type is 11.
func (r *UserScramCredentialRecord) Type() int16 { return TypeUserScramCredential }

func (r *UserScramCredentialRecord) walk(c *codec) {
	c.string(&r.Name)
	c.int8(&r.Mechanism)
	c.bytes(&r.Salt)
	c.bytes(&r.StoredKey)
	c.bytes(&r.ServerKey)
	c.int32(&r.Iterations)
	c.tags()
}

// RemoveUserScramCredentialRecord removes the SCRAM credential of a user for one mechanism.
type RemoveUserScramCredentialRecord struct {
	Name      string
	Mechanism int8
}

// Type is 22.
func (r *RemoveUserScramCredentialRecord) Type() int16 { return TypeRemoveUserScramCredential }

func (r *RemoveUserScramCredentialRecord) walk(c *codec) {
	c.string(&r.Name)
	c.int8(&r.Mechanism)
	c.tags()
}

// DelegationTokenRecord adds or renews a delegation token (KIP-48). Times are in ms since the epoch.
type DelegationTokenRecord struct {
	Owner               string
	Requester           string
	Renewers            []string
	IssueTimestamp      int64
	MaxTimestamp        int64
	ExpirationTimestamp int64
	TokenID             string
}

// Type is 10.
func (r *DelegationTokenRecord) Type() int16 { return TypeDelegationToken }

func (r *DelegationTokenRecord) walk(c *codec) {
	c.string(&r.Owner)
	c.string(&r.Requester)
	array(c, &r.Renewers, false, 1, c.string)
	c.int64(&r.IssueTimestamp)
	c.int64(&r.MaxTimestamp)
	c.int64(&r.ExpirationTimestamp)
	c.string(&r.TokenID)
	c.tags()
}

// RemoveDelegationTokenRecord removes a delegation token.
type RemoveDelegationTokenRecord struct {
	TokenID string
}

// Type is 26.
func (r *RemoveDelegationTokenRecord) Type() int16 { return TypeRemoveDelegationToken }

func (r *RemoveDelegationTokenRecord) walk(c *codec) {
	c.string(&r.TokenID)
	c.tags()
}
