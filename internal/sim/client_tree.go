package sim

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"time"
)

// keeper is a client of the ZooKeeper tree: one session, one connection, one request at a time.
type keeper struct {
	*client
	session  int64 // 0: none
	password []byte
	timeout  time.Duration
	conn     net.Conn // nil: none
	xid      int32
	zxid     int64             // the highest that the session was told
	over     int64             // the session before, if it is over and nothing has been answered since
	watches  map[string]*watch // by path
	fired    map[string]int64  // watches that have fired, and the node was not read since: when they were set
	claims   map[string]int64  // ephemeral nodes that the session has: their czxid
	next     int               // value
}

// watch is one that is set and has not fired.
type watch struct {
	since int64 // of the answer that set it: what happens later fires it
	there bool  // whether the node was
}

func newKeeper(c *client) *keeper {
	k := &keeper{client: c}
	k.forget()
	return k
}

// forget is the end of the session, for the client.
func (k *keeper) forget() {
	k.session, k.zxid = 0, 0
	k.watches, k.fired, k.claims = make(map[string]*watch), make(map[string]int64), make(map[string]int64)
}

// The numbers of ZooKeeper's protocol (ZooDefs.OpCode, KeeperException.Code, Watcher.Event.EventType).
const (
	opDelete     int32 = 2
	opExists     int32 = 3
	opGetData    int32 = 4
	opSetData    int32 = 5
	opPing       int32 = 11
	opCreate2    int32 = 15
	opSetWatches int32 = 101
	opClose      int32 = -11

	nodeIsMissing errTree = -101
	nodeIsThere   errTree = -110

	eventXid     int32 = -1
	eventCreated int32 = 1
)

// errTree is what ZooKeeper refuses a request with.
type errTree int32

func (e errTree) Error() string { return fmt.Sprintf("ZooKeeper error %d", int32(e)) }

// errExpired: the session is over, as the server says.
var errExpired = errors.New("the session is over")

// treeStat is what matters of ZooKeeper's Stat.
type treeStat struct {
	czxid, mzxid, owner int64
	version             int32
}

// text and blob are a string and a buffer as requests have them.
func text(b []byte, s string) []byte { return blob(b, []byte(s)) }
func blob(b, v []byte) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(v))), v...)
}

// join begins a session at any node, or goes on with the one that there is.
func (k *keeper) join(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	host, _, err := net.SplitHostPort(k.any())
	if err != nil {
		return err
	}
	if k.conn, err = k.dial(ctx, host+":2181"); err != nil {
		k.conn = nil
		return err
	}
	if err = k.hello(); err == nil {
		err = k.rewatch()
	}
	if err != nil {
		k.cut()
	}
	return err
}

func (k *keeper) hello() error {
	asked := time.Now()
	_ = k.conn.SetDeadline(asked.Add(attempt))
	if k.session == 0 {
		k.password, k.timeout = make([]byte, 16), 4*time.Second+time.Duration(k.rng.IntN(2000))*time.Millisecond
	}
	b := binary.BigEndian.AppendUint32(nil, 0)
	b = binary.BigEndian.AppendUint64(b, uint64(k.zxid))
	b = binary.BigEndian.AppendUint32(b, uint32(k.timeout.Milliseconds()))
	b = binary.BigEndian.AppendUint64(b, uint64(k.session))
	if _, err := k.conn.Write(blob(nil, blob(b, k.password))); err != nil {
		return err
	}
	answer, err := readFrame(k.conn)
	if err != nil {
		return err
	}
	if len(answer) < 36 {
		return fmt.Errorf("a connect is answered with %d bytes", len(answer))
	}
	session := int64(binary.BigEndian.Uint64(answer[8:]))
	switch {
	case session == 0:
		k.world.Note("%s is told that session %x is over", k.name, k.session)
		k.over = k.session
		k.forget()
		return errExpired
	case k.session == 0:
		k.world.Note("%s has session %x for %v", k.name, session, k.timeout)
		k.session, k.password = session, bytes.Clone(answer[20:36])
		k.history.sessionBegan(session, k.timeout, asked)
	case session != k.session:
		k.history.fault(sessionsLast, "%s goes on with session %x and gets session %x", k.name, k.session, session)
	}
	return nil
}

// cut ends the connection. The session goes on, and its watches wait for the next connection.
func (k *keeper) cut() {
	if k.conn == nil {
		return
	}
	_ = k.conn.Close()
	k.conn = nil
	for path, w := range k.watches {
		k.history.silent(k.name, path, w.since, k.zxid)
	}
}

// rewatch sets the session's watches on a new connection.
func (k *keeper) rewatch() error {
	if len(k.watches) == 0 {
		return nil
	}
	var of [3][]string // data, existence, children
	for _, path := range slices.Sorted(maps.Keys(k.watches)) {
		w := k.watches[path]
		w.since = k.zxid // what was before that, connections before have told
		if w.there {
			of[0] = append(of[0], path)
		} else {
			of[1] = append(of[1], path)
		}
	}
	b := binary.BigEndian.AppendUint64(nil, uint64(k.zxid))
	for _, paths := range of {
		b = binary.BigEndian.AppendUint32(b, uint32(len(paths)))
		for _, path := range paths {
			b = text(b, path)
		}
	}
	zxid, _, err := k.request(opSetWatches, b)
	if err != nil {
		return err
	}
	for _, path := range of[1] {
		if w := k.watches[path]; w != nil { // a node that came and went while there was no connection is nothing to ZooKeeper either
			w.since = zxid
			k.saw(path, treeFact{zxid: zxid}, false)
		}
	}
	return nil
}

// request sends a request and returns its answer. Events that come before it are noted. Any error but an errTree ends the connection.
func (k *keeper) request(kind int32, body []byte) (zxid int64, answer []byte, err error) {
	if k.conn == nil {
		return 0, nil, net.ErrClosed
	}
	known := k.history.knownOfTree()
	zxid, code, answer, err := k.exchange(kind, body)
	if err != nil {
		k.cut()
		return 0, nil, err
	}
	if zxid < k.zxid {
		k.history.fault(oneTree, "%s is told zxid %d after %d", k.name, zxid, k.zxid)
	}
	k.zxid = max(k.zxid, zxid)
	if k.over != 0 {
		k.history.sessionOver(k.over, zxid)
		k.over = 0
	}
	k.history.answered(known, k.session, kind, zxid, code == 0)
	if code != 0 {
		return zxid, nil, code
	}
	return zxid, answer, nil
}

func (k *keeper) exchange(kind int32, body []byte) (zxid int64, code errTree, answer []byte, err error) {
	_ = k.conn.SetDeadline(time.Now().Add(attempt))
	k.xid++
	b := binary.BigEndian.AppendUint32(nil, uint32(k.xid))
	b = append(binary.BigEndian.AppendUint32(b, uint32(kind)), body...)
	if _, err := k.conn.Write(blob(nil, b)); err != nil {
		return 0, 0, nil, err
	}
	for {
		frame, err := readFrame(k.conn)
		if err != nil {
			return 0, 0, nil, err
		}
		if len(frame) < 16 {
			return 0, 0, nil, fmt.Errorf("an answer of %d bytes", len(frame))
		}
		xid := int32(binary.BigEndian.Uint32(frame))
		switch {
		case xid == eventXid:
			k.event(frame[16:])
			continue
		case xid != k.xid && kind != opPing: // the xid of a ping's answer is always the same
			k.history.fault(sound, "%s asks %d and is answered %d", k.name, k.xid, xid)
			return 0, 0, nil, errors.New("the wrong answer")
		}
		return int64(binary.BigEndian.Uint64(frame[4:])), errTree(binary.BigEndian.Uint32(frame[12:])), frame[16:], nil
	}
}

// event is a watch that fires: one that was set, for a change that there can have been.
func (k *keeper) event(b []byte) {
	kind, path := int32(binary.BigEndian.Uint32(b)), string(b[12:])
	k.world.Note("%s hears of %s: %d", k.name, path, kind)
	w := k.watches[path]
	if w == nil {
		k.history.fault(watchesFire, "%s hears of %s, which it does not watch", k.name, path)
		return
	}
	if w.there == (kind == eventCreated) {
		k.history.fault(watchesFire, "%s hears event %d of %s, which was there when it was watched: %t", k.name, kind, path, w.there)
	}
	k.history.silent(k.name, path, w.since, k.zxid)
	k.fired[path] = w.since
	delete(k.watches, path)
}

// saw notes what an answer tells of a node, which may have set a watch.
func (k *keeper) saw(path string, f treeFact, watches bool) {
	f.who = k.name
	k.history.told(path, f)
	if since, ok := k.fired[path]; ok && f.there && f.mzxid <= since {
		k.history.fault(watchesFire, "%s has heard of %s, which has not changed since %d", k.name, path, since)
	}
	delete(k.fired, path)
	if watches && k.watches[path] == nil {
		k.watches[path] = &watch{f.zxid, f.there}
	}
	switch {
	case f.there && f.owner == k.session:
		k.claims[path] = f.czxid
	default:
		delete(k.claims, path)
	}
}

func readFrame(r io.Reader) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(length[:]))
	_, err := io.ReadFull(r, frame)
	return frame, err
}

// readStat reads a Stat, which is the last thing in an answer.
func readStat(b []byte) treeStat {
	b = b[len(b)-68:]
	long := func(at int) int64 { return int64(binary.BigEndian.Uint64(b[at:])) }
	return treeStat{czxid: long(0), mzxid: long(8), version: int32(binary.BigEndian.Uint32(b[32:])), owner: long(44)}
}
