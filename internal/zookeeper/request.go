package zookeeper

import (
	"errors"

	"moldau/internal/znode"
)

// The operations by ZooKeeper's numbers (ZooDefs.OpCode).
const (
	opCreate       = 1
	opDelete       = 2
	opExists       = 3
	opGetData      = 4
	opSetData      = 5
	opGetACL       = 6
	opSetACL       = 7
	opGetChildren  = 8
	opSync         = 9
	opPing         = 11
	opGetChildren2 = 12
	opCheck        = 13
	opMulti        = 14
	opCreate2      = 15
	opAuth         = 100
	opSetWatches   = 101
	opCloseSession = -11
	opError        = -1
)

// errRequest ends a connection whose request is no request at all.
var errRequest = errors.New("request cannot be read")

// readConnect reads the first frame. flagged: the client knows of read-only servers, and the answer has that flag.
func readConnect(frame []byte) (req znode.Connect, flagged bool, err error) {
	r := reader{b: frame}
	r.int() // protocol version
	req.LastZxid, req.TimeoutMs, req.SessionID, req.Password = r.long(), r.int(), r.long(), r.buffer()
	if r.bad {
		return req, false, errRequest
	}
	return req, len(r.b) > 0, nil
}

// readRequest reads any later frame. A request of which only the body cannot be read becomes znode.Unreadable.
func readRequest(frame []byte) (xid, kind int32, op znode.Op, err error) {
	r := reader{b: frame}
	xid, kind = r.int(), r.int()
	if r.bad {
		return 0, 0, nil, errRequest
	}
	op = r.op(kind)
	if op == nil {
		op = znode.Unreadable{Code: znode.Unimplemented, Close: true}
	} else if r.bad {
		op = znode.Unreadable{Code: znode.MarshallingError}
	}
	return xid, kind, op, nil
}

// op reads the body of a request; nil: the operation is not known.
func (r *reader) op(kind int32) znode.Op {
	switch kind {
	case opCreate, opCreate2:
		return znode.Create{Path: r.string(), Data: r.buffer(), ACL: r.acl(), Flags: r.int(), WithStat: kind == opCreate2}
	case opDelete:
		return znode.Delete{Path: r.string(), Version: r.int()}
	case opExists:
		return znode.Exists{Path: r.string(), Watch: r.bool()}
	case opGetData:
		return znode.GetData{Path: r.string(), Watch: r.bool()}
	case opSetData:
		return znode.SetData{Path: r.string(), Data: r.buffer(), Version: r.int()}
	case opGetACL:
		return znode.GetACL{Path: r.string()}
	case opSetACL:
		return znode.SetACL{Path: r.string(), ACL: r.acl(), Version: r.int()}
	case opGetChildren, opGetChildren2:
		return znode.GetChildren{Path: r.string(), Watch: r.bool(), WithStat: kind == opGetChildren2}
	case opSync:
		return znode.Sync{Path: r.string()}
	case opPing:
		return znode.Ping{}
	case opCheck:
		return znode.Check{Path: r.string(), Version: r.int()}
	case opMulti:
		return r.multi()
	case opAuth:
		r.int() // type
		return znode.Auth{Scheme: r.string(), Auth: r.buffer()}
	case opSetWatches:
		return znode.SetWatches{Since: r.long(), Data: r.strings(), Exist: r.strings(), Child: r.strings()}
	case opCloseSession:
		return znode.CloseSession{}
	}
	return nil
}

// multi reads operations up to the header that says that there are no more.
func (r *reader) multi() znode.Op {
	var m znode.Multi
	for !r.bad {
		kind, done := r.int(), r.bool()
		r.int() // error
		if done {
			break
		}
		switch kind {
		case opCreate, opCreate2, opDelete, opSetData, opCheck:
			m.Ops = append(m.Ops, r.op(kind))
		default:
			r.bad = true
		}
	}
	return m
}
