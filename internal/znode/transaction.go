package znode

import (
	"fmt"
	"strings"

	"moldau/internal/coordinator"
)

// transaction is a change of the tree that is being made: what it does is seen by its own later steps, and by nobody else
// until the record is in the log and replayed. It may go on to be several transactions in a row, each with its own zxid.
type transaction struct {
	s       *shard
	zxid    int64
	header  header
	touched map[string]*draft
	value   []byte // of the record of this zxid; nil: nothing has happened yet
	done    []coordinator.Record
}

// draft is what a node will be.
type draft struct {
	stat
	acl      []ACL // nil: open
	data     []byte
	view     bool
	children int
	gone     bool
}

func (s *shard) begin(t *coordinator.Turn) *transaction {
	return &transaction{
		s: s, zxid: int64(t.LogEnd()) + 1, header: header{timeMs: t.NowMs(), metadata: noMetadataOffset}, touched: map[string]*draft{},
	}
}

// find returns a node as this transaction has left it; nil if there is none.
func (x *transaction) find(path string) *draft {
	if path == "" {
		path = "/"
	}
	if d := x.touched[path]; d != nil {
		if d.gone {
			return nil
		}
		return d
	}
	n := x.s.tree.nodes[path]
	if n == nil {
		return nil
	}
	d := &draft{stat: n.stat, acl: n.acl, data: n.data, view: n.view, children: len(n.children)}
	x.touched[path] = d
	return d
}

// add puts a step into the record.
func (x *transaction) add(e entry) {
	if x.value == nil {
		x.value = appendHeader(nil, x.header)
	}
	x.value = appendEntry(x.value, e)
}

// next ends the transaction: what follows is another.
func (x *transaction) next() {
	if x.value != nil {
		x.done = append(x.done, newRecord(kindTransaction, x.value))
		x.value = nil
		x.zxid++
	}
}

// commit puts everything into the log and the tree.
func (x *transaction) commit(t *coordinator.Turn) error {
	x.next()
	if len(x.done) == 0 {
		return nil
	}
	if err := t.Append(x.done...); err != nil {
		return fmt.Errorf("write to %s: %w", Topic, err)
	}
	return nil
}

// The flags of Create.
const (
	flagEphemeral  = 1
	flagSequential = 2
)

// create makes a node. Mirrors PrepRequestProcessor.pRequest2Txn, as do the others.
func (x *transaction) create(c *Client, op Create) (path string, code Code) {
	slash := strings.LastIndexByte(op.Path, '/')
	if slash < 0 || strings.IndexByte(op.Path, 0) >= 0 {
		return "", BadArguments
	}
	acl, code := completeACL(op.ACL, c.ids)
	if code != OK {
		return "", code
	}
	parentPath := op.Path[:slash]
	parent := x.find(parentPath)
	switch {
	case parent == nil:
		return "", NoNode
	case !allowed(parent.acl, permCreate, c.ids):
		return "", NoAuth
	case op.Flags < 0 || op.Flags > flagEphemeral|flagSequential:
		return "", BadArguments
	}
	path = op.Path
	if op.Flags&flagSequential != 0 {
		path += fmt.Sprintf("%010d", parent.creations)
	}
	switch {
	case !validPath(path):
		return "", BadArguments
	case x.find(path) != nil:
		return "", NodeExists
	case parent.owner != 0:
		return "", NoChildrenForEphemerals
	}
	var owner int64
	if op.Flags&flagEphemeral != 0 {
		owner = c.session.id
	}
	x.put(path, op.Data, acl, owner, false)
	return path, OK
}

// put makes a node whose parent is there.
func (x *transaction) put(path string, data []byte, acl []ACL, owner int64, view bool) {
	if isOpen(acl) {
		acl = nil
	}
	now := x.header.timeMs
	d := &draft{acl: acl, data: data, view: view, stat: stat{czxid: x.zxid, mzxid: x.zxid, pzxid: x.zxid, ctime: now, mtime: now, owner: owner}}
	x.touched[path] = d
	x.add(entry{kind: entryCreate, path: path, stat: d.stat, acl: acl, data: data, view: view})
	parentPath, _ := split(path)
	parent := x.find(parentPath)
	parent.creations++
	parent.children++
	parent.pzxid = x.zxid
	x.add(entry{kind: entryChild, path: parentPath, stat: parent.stat})
}

func (x *transaction) delete(c *Client, op Delete) Code {
	slash := strings.LastIndexByte(op.Path, '/')
	if slash < 0 || strings.IndexByte(op.Path, 0) >= 0 || special(op.Path) {
		return BadArguments
	}
	parent := x.find(op.Path[:slash])
	if parent == nil {
		return NoNode
	}
	d := x.find(op.Path)
	switch {
	case d == nil:
		return NoNode
	case !allowed(parent.acl, permDelete, c.ids):
		return NoAuth
	case op.Version != -1 && op.Version != d.version:
		return BadVersion
	case d.children > 0:
		return NotEmpty
	}
	x.remove(op.Path)
	return OK
}

// remove takes a node without children out.
func (x *transaction) remove(path string) {
	x.touched[path] = &draft{gone: true}
	x.add(entry{kind: entryDelete, path: path})
	parentPath, _ := split(path)
	parent := x.find(parentPath)
	parent.children--
	if parent.pzxid != x.zxid { // or this transaction has said all that changes of it
		parent.pzxid = x.zxid
		x.add(entry{kind: entryChild, path: parentPath, stat: parent.stat})
	}
}

func (x *transaction) setData(c *Client, op SetData) Code {
	d, code := x.expect(c, op.Path, permWrite, op.Version)
	if code == OK {
		x.replace(op.Path, d, op.Data)
	}
	return code
}

// expect finds the node that a client names, if it may do that with it and its data have the version that the client says.
func (x *transaction) expect(c *Client, path string, may int32, version int32) (*draft, Code) {
	if !validPath(path) {
		return nil, BadArguments
	}
	d := x.find(path)
	switch {
	case d == nil:
		return nil, NoNode
	case !allowed(d.acl, may, c.ids):
		return nil, NoAuth
	case version != -1 && version != d.version:
		return nil, BadVersion
	}
	return d, OK
}

// replace sets a node's data.
func (x *transaction) replace(path string, d *draft, data []byte) {
	d.version++
	d.data = data
	d.mzxid, d.mtime = x.zxid, x.header.timeMs
	x.add(entry{kind: entryData, path: path, stat: d.stat, data: data})
}

func (x *transaction) setACL(c *Client, op SetACL) Code {
	if !validPath(op.Path) {
		return BadArguments
	}
	acl, code := completeACL(op.ACL, c.ids)
	if code != OK {
		return code
	}
	d := x.find(op.Path)
	switch {
	case d == nil:
		return NoNode
	case !allowed(d.acl, permAdmin, c.ids):
		return NoAuth
	case op.Version != -1 && op.Version != d.aversion:
		return BadVersion
	}
	if isOpen(acl) {
		acl = nil
	}
	d.aversion++
	d.acl = acl
	x.add(entry{kind: entryACL, path: op.Path, stat: d.stat, acl: acl})
	return OK
}

func (x *transaction) check(c *Client, op Check) Code {
	_, code := x.expect(c, op.Path, permRead, op.Version)
	return code
}
