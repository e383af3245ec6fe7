package zookeeper

import (
	"encoding/binary"

	"moldau/internal/znode"
)

// pingXid is the xid of every answer to a ping, whatever that of the ping was.
const pingXid = -2

// stateConnected is what every event says of the connection (KeeperState.SyncConnected).
const stateConnected = 3

// appendMessage appends a frame. flagged: the client expects the read-only flag in the answer to its connect.
func appendMessage(b []byte, m znode.Message, flagged bool) []byte {
	at := len(b)
	b = append(b, 0, 0, 0, 0)
	if c, ok := m.Answer.(znode.Connected); ok {
		b = appendConnected(b, c, flagged)
	} else {
		b = appendInt(b, m.Xid)
		b = appendLong(b, m.Zxid)
		b = appendInt(b, int32(m.Code))
		if m.Code == znode.OK {
			b = appendAnswer(b, m.Answer)
		}
	}
	binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-4))
	return b
}

func appendConnected(b []byte, c znode.Connected, flagged bool) []byte {
	b = appendInt(b, 0)
	b = appendInt(b, c.TimeoutMs)
	b = appendLong(b, c.SessionID)
	b = appendBuffer(b, c.Password[:])
	if flagged {
		b = appendBool(b, false) // not a read-only server
	}
	return b
}

func appendAnswer(b []byte, answer any) []byte {
	switch a := answer.(type) {
	case znode.Stat:
		return appendStat(b, a)
	case znode.Created:
		b = appendString(b, a.Path)
		if a.Stat != nil {
			b = appendStat(b, *a.Stat)
		}
	case znode.Content:
		b = appendStat(appendBuffer(b, a.Data), a.Stat)
	case znode.ACLs:
		b = appendInt(b, int32(len(a.ACL)))
		for _, each := range a.ACL {
			b = appendInt(b, each.Perms)
			b = appendString(b, each.Scheme)
			b = appendString(b, each.Name)
		}
		b = appendStat(b, a.Stat)
	case znode.Children:
		b = appendInt(b, int32(len(a.Names)))
		for _, name := range a.Names {
			b = appendString(b, name)
		}
		if a.Stat != nil {
			b = appendStat(b, *a.Stat)
		}
	case znode.Synced:
		b = appendString(b, a.Path)
	case znode.Results:
		b = appendResults(b, a)
	case znode.Event:
		b = appendInt(b, int32(a.Type))
		b = appendInt(b, stateConnected)
		b = appendString(b, a.Path)
	}
	return b
}

func appendResults(b []byte, all znode.Results) []byte {
	header := func(kind int32, done bool, code znode.Code) {
		b = appendInt(b, kind)
		b = appendBool(b, done)
		b = appendInt(b, int32(code))
	}
	for _, r := range all.Each {
		if all.Failed {
			header(opError, false, r.Code)
			b = appendInt(b, int32(r.Code))
			continue
		}
		header(kindOf(r.Op), false, znode.OK)
		b = appendAnswer(b, r.Answer)
	}
	header(-1, true, -1)
	return b
}

// kindOf is the number of an operation that Multi can have.
func kindOf(op znode.Op) int32 {
	switch op := op.(type) {
	case znode.Create:
		if op.WithStat {
			return opCreate2
		}
		return opCreate
	case znode.Delete:
		return opDelete
	case znode.SetData:
		return opSetData
	}
	return opCheck
}
