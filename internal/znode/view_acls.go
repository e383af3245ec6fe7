package znode

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/metadata"
)

// What Kafka 1.1 knows of ACLs, by its names. The tools of 0.11 stop at a kind of resource that they do not know, so that
// delegation tokens are left out too.
var (
	aclResources = map[kmsg.ACLResourceType]string{
		kmsg.ACLResourceTypeTopic: "Topic", kmsg.ACLResourceTypeGroup: "Group", kmsg.ACLResourceTypeCluster: "Cluster",
		kmsg.ACLResourceTypeTransactionalId: "TransactionalId",
	}
	aclOperations = map[kmsg.ACLOperation]string{
		kmsg.ACLOperationAll: "All", kmsg.ACLOperationRead: "Read", kmsg.ACLOperationWrite: "Write", kmsg.ACLOperationCreate: "Create",
		kmsg.ACLOperationDelete: "Delete", kmsg.ACLOperationAlter: "Alter", kmsg.ACLOperationDescribe: "Describe",
		kmsg.ACLOperationClusterAction: "ClusterAction", kmsg.ACLOperationDescribeConfigs: "DescribeConfigs",
		kmsg.ACLOperationAlterConfigs: "AlterConfigs", kmsg.ACLOperationIdempotentWrite: "IdempotentWrite",
	}
	aclPermissions = map[kmsg.ACLPermissionType]string{kmsg.ACLPermissionTypeDeny: "Deny", kmsg.ACLPermissionTypeAllow: "Allow"}
)

// transactionalIDs is there only when there are entries for them: the tools of 0.9 and 0.10 stop at it.
const transactionalIDs = "/kafka-acl/TransactionalId"

// acls lists the access control entries that Kafka 1.1 could have had. They are there to be read: a prefix of names, which
// came with 2.0, has no place in them.
func (l *viewList) acls(acls metadata.Acls) {
	byPath := map[string][]aclEntry{}
	for _, e := range acls.All() {
		resource, known := aclResources[kmsg.ACLResourceType(e.ResourceType)]
		entry := aclEntry{
			Principal: e.Principal, Host: e.Host,
			Operation: aclOperations[kmsg.ACLOperation(e.Operation)], Permission: aclPermissions[kmsg.ACLPermissionType(e.PermissionType)],
		}
		literal := kmsg.ACLResourcePatternType(e.PatternType) == kmsg.ACLResourcePatternTypeLiteral
		if !known || !literal || entry.Operation == "" || entry.Permission == "" || e.ResourceName == "" || strings.Contains(e.ResourceName, "/") {
			continue
		}
		path := "/kafka-acl/" + resource + "/" + e.ResourceName
		byPath[path] = append(byPath[path], entry)
	}
	if slices.ContainsFunc(slices.Collect(maps.Keys(byPath)), func(path string) bool { return strings.HasPrefix(path, transactionalIDs+"/") }) {
		l.folder(transactionalIDs)
	}
	for _, path := range slices.Sorted(maps.Keys(byPath)) {
		entries := byPath[path]
		slices.SortFunc(entries, func(a, b aclEntry) int {
			return cmp.Or(strings.Compare(a.Principal, b.Principal), strings.Compare(a.Host, b.Host),
				strings.Compare(a.Operation, b.Operation), strings.Compare(a.Permission, b.Permission))
		})
		l.node(path, payload(aclList{Version: 1, Acls: entries}))
	}
}
