package znode

// Stat is what ZooKeeper tells of a node beside its data.
type Stat struct {
	Czxid, Mzxid int64 // of the transactions that made the node and last set its data
	Ctime, Mtime int64 // when that was, in ms
	Version      int32 // how often the data were set
	Cversion     int32 // creations and deletions of children
	Aversion     int32 // how often the ACL was set
	Owner        int64 // the session of an ephemeral node; 0: persistent
	DataLength   int32
	NumChildren  int32
	Pzxid        int64 // of the transaction that last made or deleted a child
}

// stat is the part of a Stat that is kept.
type stat struct {
	czxid, mzxid, pzxid          int64
	ctime, mtime                 int64 // ms
	owner                        int64
	version, creations, aversion int32 // creations: how many children were ever made, which numbers sequential ones
}

// shown is what clients are told. Its cversion counts the children that were made and those that are gone.
func (s stat) shown(dataLength, children int) Stat {
	return Stat{
		Czxid: s.czxid, Mzxid: s.mzxid, Ctime: s.ctime, Mtime: s.mtime, Version: s.version, Cversion: 2*s.creations - int32(children),
		Aversion: s.aversion, Owner: s.owner, DataLength: int32(dataLength), NumChildren: int32(children), Pzxid: s.pzxid,
	}
}

func (n *node) shown() Stat  { return n.stat.shown(len(n.data), len(n.children)) }
func (d *draft) shown() Stat { return d.stat.shown(len(d.data), d.children) }
