package sim

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// dataPath is a node that stays, ownerPath one that whoever owns a partition has for as long as its session lasts.
func dataPath(i int) string  { return fmt.Sprintf("/data-%d", i) }
func ownerPath(i int) string { return fmt.Sprintf("/owner-%d", i) }

// run reads, writes and watches, owns partitions for a while, and loses connections and sessions.
func (k *keeper) run(ctx context.Context) {
	defer k.cut()
	for ctx.Err() == nil {
		k.rest(ctx)
		if k.conn == nil {
			if k.join(ctx) != nil {
				continue
			}
			for i := range partitions {
				_ = k.create(dataPath(i), false) // mostly it is there
			}
		}
		data, owner := dataPath(k.rng.IntN(partitions)), ownerPath(k.rng.IntN(partitions))
		switch n := k.rng.IntN(100); {
		case n == 0:
			k.leave()
		case n == 1: // it is gone without a word
			k.cut()
			k.forget()
		case n == 2: // it is silent for longer than some sessions last
			if k.rng.IntN(2) == 0 {
				k.cut()
			}
			k.pause(ctx, 5*time.Second)
		case n < 6:
			k.cut()
		case n < 30:
			_ = k.set(data)
		case n < 50:
			_ = k.get(data, n%2 == 0)
		case n < 65:
			_ = k.exists(owner, n%2 == 0)
		case n < 80:
			_ = k.create(owner, true)
		case n < 90 && k.claims[owner] != 0:
			_ = k.delete(owner)
		default:
			_, _, _ = k.request(opPing, nil)
		}
	}
}

// get reads a node.
func (k *keeper) get(path string, watches bool) error {
	zxid, answer, err := k.request(opGetData, withFlag(text(nil, path), watches))
	switch {
	case errors.Is(err, nodeIsMissing):
		k.saw(path, treeFact{zxid: zxid}, false)
		return nil
	case err != nil:
		return err
	}
	n := binary.BigEndian.Uint32(answer)
	k.saw(path, treeFact{zxid: zxid, there: true, treeStat: readStat(answer), data: string(answer[4 : 4+n])}, watches)
	return nil
}

// exists asks whether a node is there; a node that is not can be watched, too.
func (k *keeper) exists(path string, watches bool) error {
	zxid, answer, err := k.request(opExists, withFlag(text(nil, path), watches))
	switch {
	case errors.Is(err, nodeIsMissing):
		k.saw(path, treeFact{zxid: zxid}, watches)
		return nil
	case err != nil:
		return err
	}
	k.saw(path, treeFact{zxid: zxid, there: true, treeStat: readStat(answer)}, watches)
	return nil
}

// set writes a value that nobody else writes.
func (k *keeper) set(path string) error {
	value := k.value()
	zxid, answer, err := k.request(opSetData, binary.BigEndian.AppendUint32(text(text(nil, path), value), 0xffffffff))
	if err != nil {
		return err
	}
	k.world.Note("%s has set %s to %s: zxid %d", k.name, path, value, zxid)
	k.saw(path, treeFact{zxid: zxid, there: true, treeStat: readStat(answer), data: value}, false)
	return nil
}

func (k *keeper) create(path string, ephemeral bool) error {
	value := k.value()
	b := binary.BigEndian.AppendUint32(text(text(nil, path), value), 1)
	b = text(text(binary.BigEndian.AppendUint32(b, 31), "world"), "anyone")
	flags := uint32(0)
	if ephemeral {
		flags = 1
	}
	zxid, answer, err := k.request(opCreate2, binary.BigEndian.AppendUint32(b, flags))
	if err != nil {
		return err
	}
	k.world.Note("%s has made %s with %s: zxid %d", k.name, path, value, zxid)
	k.saw(path, treeFact{zxid: zxid, there: true, treeStat: readStat(answer), data: value}, false)
	return nil
}

// delete gives up a partition. It looks first: where the answer to a delete before was lost, what it thinks it has may be another's.
func (k *keeper) delete(path string) error {
	if err := k.exists(path, false); err != nil || k.claims[path] == 0 {
		return err
	}
	k.history.released(k.claims[path])
	zxid, _, err := k.request(opDelete, binary.BigEndian.AppendUint32(text(nil, path), 0xffffffff))
	if err != nil && !errors.Is(err, nodeIsMissing) { // as it is when the answer to the request before was lost
		return err
	}
	k.world.Note("%s has deleted %s: zxid %d, %v", k.name, path, zxid, err)
	k.saw(path, treeFact{zxid: zxid, changed: err == nil}, false)
	return nil
}

// leave closes the session.
func (k *keeper) leave() {
	session := k.session
	k.history.sessionLeaves(session, time.Now())
	zxid, _, err := k.request(opClose, nil)
	if err != nil {
		return
	}
	k.world.Note("%s has closed session %x: zxid %d", k.name, session, zxid)
	k.history.sessionOver(session, zxid)
	k.cut()
	k.forget()
}

func (k *keeper) value() string {
	k.next++
	value := fmt.Sprintf("%s-%d", k.name, k.next)
	k.history.sent([]string{value})
	return value
}

func withFlag(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// checkTree: after the last fault the tree is served, what stays is there, and what belonged to sessions is gone with them.
func (c *client) checkTree(ctx context.Context) {
	k := newKeeper(c)
	defer k.cut()
	insist := func(what string, try func() error) bool {
		ok := c.insist(ctx, what, func() error {
			if k.conn == nil {
				if err := k.join(ctx); err != nil {
					return err
				}
			}
			return try()
		})
		if !ok {
			c.history.fault(inTime, "%s: not %v after the last fault", what, treePatience)
		}
		return ok
	}
	for i := range partitions {
		if !insist("read "+dataPath(i), func() error { return k.get(dataPath(i), false) }) {
			return
		}
		gone := insist(ownerPath(i)+" ends with its session", func() error {
			if err := k.exists(ownerPath(i), false); err != nil {
				return err
			}
			if czxid, owner := c.history.owner(ownerPath(i)); owner != 0 {
				return fmt.Errorf("session %x still has it since %d", owner, czxid)
			}
			return nil
		})
		if !gone {
			return
		}
	}
}

// treePatience is how long after the last fault every session of a client that is gone has to be over.
const treePatience = patience + 6*time.Second
