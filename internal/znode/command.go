package znode

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/metadata"
)

// WriteKind is what a write does to a node.
type WriteKind int8

// The kinds of writes.
const (
	CreateNode WriteKind = iota
	SetNode
	DeleteNode
)

func (k WriteKind) String() string { return [...]string{"create", "setData", "delete"}[k] }

// Write is a write to a computed path that the tree has nothing against: the parent is there, the version matches.
type Write struct {
	Kind                  WriteKind
	Path                  string // of CreateNode: without the number that a sequential node gets
	Data                  []byte
	Ephemeral, Sequential bool // of CreateNode
}

// Command is a write that the controller decides on.
type Command struct {
	Request kmsg.Request

	// Marker: the node is a mark that lasts until the controller has done what it asks for. The tree creates it and deletes
	// it again when the answer is OK, unless the outcome has made it a view.
	Marker bool

	// Verdict is what the client gets for the controller's answer, and, if there is something to say, why: one line in the
	// log, also for an OK of what was done in part.
	Verdict func(kmsg.Response) (code Code, why string)
}

// Decide tells what a write to a computed path means. A nil command with OK: the node is stored like any other. A nil
// command with another code: the write is refused. Stored gives the data of a node of the tree.
func Decide(w Write, image *metadata.Image, stored func(path string) (data []byte, ok bool)) (*Command, Code) {
	if w.Ephemeral || w.Sequential {
		return nil, NoAuth
	}
	if w.Kind == CreateNode && aclSkeleton(w.Path) && len(w.Data) == 0 {
		return nil, OK
	}
	parts := strings.Split(strings.TrimPrefix(w.Path, "/"), "/")
	if len(parts) == 2 && w.Kind == CreateNode {
		switch w.Path {
		case reassignPath:
			return reassign(w.Data)
		case "/admin/preferred_replica_election":
			return elect(w.Data)
		}
	}
	if len(parts) != 3 {
		return nil, NoAuth
	}
	name := parts[2]
	switch parts[0] + "/" + parts[1] {
	case "brokers/topics":
		switch w.Kind {
		case CreateNode:
			return createTopic(name, w.Data, stored)
		case SetNode:
			return addPartitions(name, w.Data, image)
		}
	case "admin/delete_topics":
		if w.Kind == CreateNode {
			return deleteTopic(name)
		}
	case "config/topics":
		if _, there := image.Topics.ByName(name); !there {
			return nil, OK // until the topic is created
		}
		if w.Kind != DeleteNode {
			return alterConfig(kmsg.ConfigResourceTypeTopic, name, w.Data, image)
		}
	case "config/brokers":
		if w.Kind != DeleteNode {
			if name == everyone {
				name = ""
			}
			return alterConfig(kmsg.ConfigResourceTypeBroker, name, w.Data, image)
		}
	}
	return nil, NoAuth
}

// Refused is the line in the log for a write that Decide refuses with NoAuth.
func Refused(w Write) string {
	switch {
	case strings.HasPrefix(w.Path, "/kafka-acl"):
		return "access control entries cannot be changed through ZooKeeper"
	case strings.HasPrefix(w.Path, "/config/users"), strings.HasPrefix(w.Path, "/config/clients"):
		return "quotas and credentials cannot be changed through ZooKeeper"
	}
	return "the node belongs to the cluster, and no client may " + w.Kind.String() + " it"
}

// aclSkeleton reports whether a path is a node above access control entries, which the tools make when it is not there
// even if they only want to read. Tools of 0.9 and 0.10 cannot bear TransactionalId, those of 0.11 not DelegationToken, so that
// neither is there before a tool that knows it has come.
func aclSkeleton(path string) bool {
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	switch parts[0] {
	case "kafka-acl":
		return len(parts) == 2
	case "kafka-acl-extended":
		return len(parts) <= 3
	case "kafka-acl-extended-changes":
		return len(parts) == 1
	}
	return false
}

// judge is what a client gets for one error of the controller's.
func judge(code int16, message *string) (Code, string) {
	err := kerr.TypedErrorForCode(code)
	if err == nil {
		return OK, ""
	}
	why := err.Message
	if message != nil {
		why = fmt.Sprintf("%s: %s", err.Message, *message)
	}
	switch {
	case err == kerr.TopicAlreadyExists:
		return NodeExists, why
	case err == kerr.UnknownTopicOrPartition:
		return NoNode, why
	case err.Retriable:
		return ConnectionLoss, why
	}
	return BadArguments, why
}

// unexpected is the verdict on an answer that is not one to the request.
func unexpected(r kmsg.Response) (Code, string) {
	return SystemError, fmt.Sprintf("the controller answered with a %T", r)
}
