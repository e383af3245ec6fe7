package vfs

import "fmt"

// OpKind is one of the things that can be asked of a disk.
type OpKind uint8

// The kinds, one for each method of FS and File. An Open that may make or cut the file is OpCreate.
const (
	OpOpen OpKind = iota
	OpCreate
	OpMkdir
	OpRename
	OpRemove
	OpRemoveAll
	OpList
	OpStat
	OpSyncDir
	OpSyncFS
	OpLock
	OpUsage
	OpRead
	OpWrite
	OpTruncate
	OpAllocate
	OpReserve
	OpStartSync
	OpSyncData
	OpSync
	OpSize
	OpSend
	OpClose
	opKinds // how many there are
)

var opNames = [opKinds]string{
	"open", "create", "mkdir", "rename", "remove", "remove-all", "list", "stat", "sync-dir", "sync-fs", "lock", "usage",
	"read", "write", "truncate", "allocate", "reserve", "start-sync", "sync-data", "sync", "size", "send", "close",
}

func (k OpKind) String() string { return opNames[k] }

// Mutates tells whether the operation changes what is on the disk or makes it durable.
func (k OpKind) Mutates() bool {
	switch k {
	case OpCreate, OpMkdir, OpRename, OpRemove, OpRemoveAll, OpSyncDir, OpSyncFS, OpLock, OpWrite, OpTruncate, OpAllocate, OpReserve,
		OpSyncData, OpSync:
		return true
	}
	return false
}

// Op is one operation on a disk.
type Op struct {
	Kind OpKind
	Path string
	To   string // new path of a rename
	Flag Flag   // of OpOpen and OpCreate
	Off  int64  // start of OpRead, OpWrite, OpReserve and OpSend
	Len  int64  // bytes asked for, or the size wanted by OpTruncate and OpAllocate
	// Index is the operation's number, from 0, among all that Inject let through its gate; -1 before that.
	Index int64
}

// String is one line: kind, path and what else belongs to the kind.
func (op Op) String() string {
	switch op.Kind {
	case OpRename:
		return fmt.Sprintf("rename %s -> %s", op.Path, op.To)
	case OpRead, OpWrite, OpReserve, OpSend:
		return fmt.Sprintf("%s %s off=%d len=%d", op.Kind, op.Path, op.Off, op.Len)
	case OpTruncate, OpAllocate:
		return fmt.Sprintf("%s %s size=%d", op.Kind, op.Path, op.Len)
	case OpCreate:
		line := "create " + op.Path
		if op.Flag&Excl != 0 {
			line += " excl"
		}
		if op.Flag&Truncate != 0 {
			line += " truncate"
		}
		return line
	}
	return op.Kind.String() + " " + op.Path
}
