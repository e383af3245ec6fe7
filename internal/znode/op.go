package znode

import "time"

// Op is what a client asks of the tree. Its byte slices have to stay as they are until Do has returned.
type Op interface{ op() }

// The operations, by the names that ZooKeeper gives them. Version -1 is any version.
type (
	// Create makes a node. The answer is Created.
	Create struct {
		Path     string
		Data     []byte // nil: no data
		ACL      []ACL
		Flags    int32 // 0; 1 ephemeral; 2 sequential; 3 both
		WithStat bool  // create2: Created has a Stat
	}
	// Delete removes a node without children.
	Delete struct {
		Path    string
		Version int32
	}
	// Exists answers the Stat of a node. Its watch is set for a missing node, too.
	Exists struct {
		Path  string
		Watch bool
	}
	// GetData answers Content.
	GetData struct {
		Path  string
		Watch bool
	}
	// SetData replaces a node's data and answers its Stat.
	SetData struct {
		Path    string
		Data    []byte
		Version int32
	}
	// GetACL answers ACLs.
	GetACL struct{ Path string }
	// SetACL replaces a node's ACL and answers its Stat. Version is that of the ACL.
	SetACL struct {
		Path    string
		ACL     []ACL
		Version int32
	}
	// GetChildren answers Children.
	GetChildren struct {
		Path     string
		Watch    bool
		WithStat bool // getChildren2
	}
	// Sync answers its path: every answer here is as new as that.
	Sync struct{ Path string }
	// Check is a part of Multi: fails unless the node has the version.
	Check struct {
		Path    string
		Version int32
	}
	// Multi does all of Create, Delete, SetData and Check, or none. The answer is Results.
	Multi struct{ Ops []Op }
	// SetWatches sets the watches of a client that has come back, and tells what it has missed after Since, a zxid.
	SetWatches struct {
		Since              int64
		Data, Exist, Child []string
	}
	// Auth adds to who the client is.
	Auth struct {
		Scheme string
		Auth   []byte
	}
	// Ping says that the client is alive.
	Ping struct{}
	// CloseSession ends the session, and the connection when that is answered.
	CloseSession struct{}
	// Unreadable is a request that could not be read: it is answered in its turn.
	Unreadable struct {
		Code  Code
		Close bool // the connection, after the answer
	}
)

func (Create) op()       {}
func (Delete) op()       {}
func (Exists) op()       {}
func (GetData) op()      {}
func (SetData) op()      {}
func (GetACL) op()       {}
func (SetACL) op()       {}
func (GetChildren) op()  {}
func (Sync) op()         {}
func (Check) op()        {}
func (Multi) op()        {}
func (SetWatches) op()   {}
func (Auth) op()         {}
func (Ping) op()         {}
func (CloseSession) op() {}
func (Unreadable) op()   {}

// The answers. Beside these: Stat, Event, and nil, which is an answer without a body.
type (
	// Connected answers Connect. SessionID 0: the session is over or never was.
	Connected struct {
		SessionID int64
		TimeoutMs int32
		Password  [16]byte
	}
	// Created answers Create. Stat is nil unless it was asked for.
	Created struct {
		Path string
		Stat *Stat
	}
	// Content answers GetData.
	Content struct {
		Data []byte
		Stat Stat
	}
	// ACLs answers GetACL.
	ACLs struct {
		ACL  []ACL
		Stat Stat
	}
	// Children answers GetChildren, with names in order. Stat is nil unless it was asked for.
	Children struct {
		Names []string
		Stat  *Stat
	}
	// Synced answers Sync.
	Synced struct{ Path string }
	// Results answers Multi, one for each of its operations. When one has failed none has happened: those before it have
	// code OK and those after it RuntimeInconsistency.
	Results struct {
		Failed bool
		Each   []Result
	}
	// Result is the answer to a part of Multi.
	Result struct {
		Op     Op
		Code   Code
		Answer any // Created or Stat; nil for others, and for all when one has failed
	}
)

// Message is what a client is sent: an answer or an event.
type Message struct {
	Xid    int32 // of the request; EventXid for an event
	Zxid   int64 // of the last transaction that the tree shows; -1 for an event
	Code   Code
	Answer any
	Close  bool          // the connection, after this message
	Asked  time.Duration // when the request came, as Runtime.Elapsed counts
}

// EventXid is the xid of events.
const EventXid = -1

// EventType is what has happened to a node that a client watches.
type EventType int32

// The types of event, by ZooKeeper's numbers.
const (
	NodeCreated         EventType = 1
	NodeDeleted         EventType = 2
	NodeDataChanged     EventType = 3
	NodeChildrenChanged EventType = 4
)

// Event tells of a node that a client has watched. The watch is gone.
type Event struct {
	Type EventType
	Path string
}

// size is about how much memory a message holds that nobody else does.
func (m Message) size() int {
	size := 128
	switch a := m.Answer.(type) {
	case Content:
		size += len(a.Data) // shared with the tree, but for how long nobody knows
	case Children:
		for _, name := range a.Names {
			size += 16 + len(name)
		}
	case Created:
		size += len(a.Path)
	case Results:
		size += 160 * len(a.Each)
	case Event:
		size += len(a.Path)
	}
	return size
}
