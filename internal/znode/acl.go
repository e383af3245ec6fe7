package znode

import (
	"crypto/sha1"
	"encoding/base64"
	"net/netip"
	"slices"
	"strings"
)

// ACL lets those who have an identity do some things with a node.
type ACL struct {
	Perms int32
	ID
}

// ID is who somebody is under a scheme: world, ip or digest.
type ID struct{ Scheme, Name string }

// The bits of ACL.Perms.
const (
	permRead   = 1
	permWrite  = 2
	permCreate = 4
	permDelete = 8
	permAdmin  = 16
	permAll    = 31
)

// anyone is everybody's identity.
var anyone = ID{"world", "anyone"}

// isOpen reports whether an ACL lets everybody do everything, as nearly all do.
func isOpen(acl []ACL) bool { return len(acl) == 1 && acl[0] == ACL{permAll, anyone} }

// allowed reports whether one of several identities may do something. Mirrors PrepRequestProcessor.checkACL.
func allowed(acl []ACL, perm int32, ids []ID) bool {
	if len(acl) == 0 {
		return true
	}
	for _, a := range acl {
		if a.Perms&perm == 0 {
			continue
		}
		if a.ID == anyone {
			return true
		}
		if slices.Contains(ids, a.ID) {
			return true
		}
	}
	return false
}

// completeACL is the ACL that a node gets when a client wants this one: without duplicates, and "auth" replaced by who the
// client has shown to be. It fails if there is something in it that nobody can be. ZooKeeper does not expect that there is no
// list at all, and takes that for a request that it cannot read. Mirrors PrepRequestProcessor.fixupACL.
func completeACL(wanted []ACL, ids []ID) (acl []ACL, code Code) {
	if wanted == nil {
		return nil, MarshallingError
	}
	var own []ACL
	for i, a := range wanted {
		switch {
		case slices.Contains(wanted[:i], a):
		case a.ID == anyone:
			acl = append(acl, a)
		case a.Scheme == "auth":
			shown := false
			for _, id := range ids {
				if id.Scheme == "digest" {
					own, shown = append(own, ACL{a.Perms, id}), true
				}
			}
			if !shown {
				return nil, InvalidACL
			}
		case a.Scheme == "ip":
			if address, err := netip.ParseAddr(a.Name); err != nil || !address.Is4() { // all that 3.4 knows
				return nil, InvalidACL
			}
			acl = append(acl, a)
		case a.Scheme == "digest":
			if strings.Count(strings.TrimRight(a.Name, ":"), ":") != 1 { // as Java splits it
				return nil, InvalidACL
			}
			acl = append(acl, a)
		default:
			return nil, InvalidACL
		}
	}
	if acl = append(acl, own...); len(acl) == 0 {
		return nil, InvalidACL
	}
	return acl, OK
}

// maxIDs is how many identities a client may collect.
const maxIDs = 64

// identify is what Auth makes a client; not ok: it shows nothing. Mirrors the AuthenticationProviders of ZooKeeper, without
// its superuser.
func identify(op Auth, address string) (id ID, ok bool) {
	switch op.Scheme {
	case "digest":
		user, _, _ := strings.Cut(string(op.Auth), ":")
		sum := sha1.Sum(op.Auth)
		return ID{"digest", user + ":" + base64.StdEncoding.EncodeToString(sum[:])}, true
	case "ip":
		return ID{"ip", address}, true
	}
	return ID{}, false
}
