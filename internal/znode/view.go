package znode

import (
	"bytes"
	"slices"
	"strings"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

// Topic keeps the tree. It has no view.
const Topic = "__zookeeper"

// View is one node that the cluster gives.
type View struct {
	Path  string
	Data  []byte // nil: no data, which ZooKeeper tells from empty data
	Owner int64  // the session that an ephemeral node belongs to; 0: the node is persistent
}

// Same reports whether a node of the tree, with its data and owner, already shows this view. Two ephemeral nodes are the
// same if their owner is, although their data say when they were made; a partition's state is the same whichever
// controller wrote it.
func (v View) Same(data []byte, owner int64) bool {
	if owner != v.Owner {
		return false
	}
	if owner != 0 {
		return true
	}
	if (v.Data == nil) != (data == nil) {
		return false
	}
	return bytes.Equal(withoutEpoch(v.Data), withoutEpoch(data))
}

// ViewChange is a view that is new, or may have changed, or is gone; of one that is gone only the path counts.
type ViewChange struct {
	View
	Gone bool
}

// Source is what views are made from.
type Source struct {
	Image      *metadata.Image
	Controller kafka.NodeID // kafka.NoNode: none is known
	NowMs      int64        // what new nodes give as the time of their making
}

// Views are the nodes that a cluster gives, by image and by delta. It keeps what a delta does not tell.
type Views struct {
	clusterID   string
	reassigning map[kafka.TopicPartition][]kafka.NodeID // to which replicas
	controller  kafka.NodeID
	epoch       kafka.Epoch // of the controller
}

// NewViews returns the views of a cluster. All comes first.
func NewViews(clusterID string) *Views {
	return &Views{clusterID: clusterID, reassigning: map[kafka.TopicPartition][]kafka.NodeID{}, controller: kafka.NoNode}
}

// All returns every view, parents before their children. Changes goes on from here.
func (v *Views) All(s Source) []View {
	var all viewList
	for _, path := range folders {
		all.folder(path)
	}
	all.node("/cluster/id", payload(clusterID{Version: "1", ID: v.clusterID}))
	v.controllerViews(&all, s)
	for _, b := range s.Image.Cluster.Brokers() {
		all.broker(b, s.NowMs)
	}
	clear(v.reassigning)
	for _, topic := range s.Image.Topics.All() {
		if topic.Name == Topic {
			continue
		}
		all.topic(topic, s.Image)
		for partition, p := range topic.Partitions.All() {
			all.partition(topic.Name, partition, p, s.Image.Epoch)
			v.reassigned(topic.Name, partition, p)
		}
	}
	all.reassignments(v.reassigning)
	all.brokerConfigs(s.Image.Configs)
	all.quotas(s.Image.ClientQuotas)
	all.acls(s.Image.Acls)
	all.producerIDs(s.Image.ProducerIDs)
	return all
}

// Changes returns the views that a delta touches, in the order in which they are to be written: first what goes, children
// before their parents, then what is new or different, parents before their children. What is in it may be as it was. The
// source has the image that the delta leads to.
func (v *Views) Changes(d *metadata.Delta, s Source) []ViewChange {
	var gone, now viewList
	old := d.Base()
	if s.Controller != v.controller || s.Image.Epoch != v.epoch {
		if s.Controller == kafka.NoNode {
			gone.folder("/controller")
		}
		v.controllerViews(&now, s)
	}
	for _, id := range d.ChangedBrokers() {
		if b, ok := s.Image.Cluster.Broker(id); ok && !b.Fenced {
			now.broker(b, s.NowMs)
		} else {
			gone.folder(brokerPath(id))
		}
	}
	moved := v.topicChanges(d, s, &gone, &now)
	if moved && len(v.reassigning) == 0 {
		gone.folder(reassignPath)
	} else if moved {
		now.reassignments(v.reassigning)
	}
	for _, r := range d.ChangedConfigs() {
		v.configChange(r, s.Image, &gone, &now)
	}
	if d.QuotasChanged() {
		replaced(&gone, &now, func(l *viewList, i *metadata.Image) { l.quotas(i.ClientQuotas) }, old, s.Image)
	}
	if d.AclsChanged() {
		replaced(&gone, &now, func(l *viewList, i *metadata.Image) { l.acls(i.Acls) }, old, s.Image)
	}
	if d.ProducerIDsChanged() {
		now.producerIDs(s.Image.ProducerIDs)
	}
	changes := make([]ViewChange, 0, len(gone)+len(now))
	for _, g := range slices.Backward(gone) {
		changes = append(changes, ViewChange{View: g, Gone: true})
	}
	for _, n := range now {
		changes = append(changes, ViewChange{View: n})
	}
	return changes
}

// viewList is views being listed, parents first.
type viewList []View

func (l *viewList) node(path string, data []byte) { *l = append(*l, View{Path: path, Data: data}) }

// folder is a node without data.
func (l *viewList) folder(path string) { *l = append(*l, View{Path: path}) }

func (l *viewList) ephemeral(path string, data []byte, owner int64) {
	*l = append(*l, View{Path: path, Data: data, Owner: owner})
}

// replaced lists views that a delta does not tell one by one: all that there are now, and as gone those that were in the
// image before.
func replaced(gone, now *viewList, list func(*viewList, *metadata.Image), before, after *metadata.Image) {
	var was, is viewList
	list(&was, before)
	list(&is, after)
	paths := map[string]bool{}
	for _, v := range is {
		paths[v.Path] = true
	}
	for _, v := range was {
		if !paths[v.Path] {
			gone.folder(v.Path)
		}
	}
	*now = append(*now, is...)
}

// folders are the nodes that are always there and have no data of their own. What a broker of Kafka 1.1 makes when it
// starts, and the part of /kafka-acl that its authorizer makes and that the tools of every version can read.
var folders = []string{
	"/consumers",
	"/brokers", "/brokers/ids", "/brokers/topics", "/brokers/seqid",
	"/cluster",
	"/config", "/config/changes", "/config/topics", "/config/clients", "/config/users", "/config/brokers",
	"/admin", "/admin/delete_topics",
	"/isr_change_notification", "/log_dir_event_notification",
	"/kafka-acl", "/kafka-acl/Topic", "/kafka-acl/Group", "/kafka-acl/Cluster", "/kafka-acl-changes",
}

// Computed reports whether writes at a path are for Decide.
func Computed(path string) bool {
	top, below, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	switch top {
	case "consumers":
		return below == "" // groups are the clients' own
	case "config":
		return !strings.HasPrefix(below, "changes/")
	case "brokers", "cluster", "controller", "controller_epoch", "admin", "isr_change_notification", "log_dir_event_notification",
		"latest_producer_id_block", "kafka-acl", "kafka-acl-changes", "kafka-acl-extended", "kafka-acl-extended-changes":
		return true
	}
	return false
}
