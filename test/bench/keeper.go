package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"time"
)

// keeper is a session with a ZooKeeper, by a client of our own that costs as little as it can: requests are bytes.
type keeper struct {
	conn    net.Conn
	answers *frameReader
	xid     int32
	events  int // watches that have fired since the session began
}

// keeperTimeoutMs is the timeout of sessions, the most that ZooKeeper grants unless it is configured. Nothing here takes as long.
const keeperTimeoutMs = 40_000

// What is asked of a ZooKeeper, by its numbers.
const (
	zkCreate  int32 = 1
	zkGetData int32 = 4
	zkSetData int32 = 5
	zkClose   int32 = -11
)

// zkEphemeral is the flag of a node that ends with its session.
const zkEphemeral = 1

// zkError is what a ZooKeeper refuses something with.
type zkError int32

const zkNodeExists zkError = -110

func (e zkError) Error() string { return fmt.Sprintf("ZooKeeper error %d", int32(e)) }

// newKeeper connects and begins a session.
func newKeeper(ctx context.Context, addr string) (*keeper, error) {
	conn, err := dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	k := &keeper{conn: conn, answers: newFrameReader(conn)}
	hello := make([]byte, 4+4+8+4+8+4+16)
	binary.BigEndian.PutUint32(hello, uint32(len(hello)-4))
	binary.BigEndian.PutUint32(hello[16:], keeperTimeoutMs)
	binary.BigEndian.PutUint32(hello[28:], 16) // of the password
	_, err = conn.Write(hello)
	if err == nil {
		var answer []byte
		if answer, err = k.answers.next(); err == nil && (len(answer) < 16 || binary.BigEndian.Uint64(answer[8:]) == 0) {
			err = errors.New("no session")
		}
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("session at %s: %w", addr, err)
	}
	return k, nil
}

// zkRequest builds a frame of which only the xid is missing.
func zkRequest(kind int32, body []byte) []byte {
	frame := binary.BigEndian.AppendUint32(nil, uint32(8+len(body)))
	frame = binary.BigEndian.AppendUint32(frame, 0)
	frame = binary.BigEndian.AppendUint32(frame, uint32(kind))
	return append(frame, body...)
}

// zkBytes is a string or a buffer as requests have them.
func zkBytes(b []byte, v string) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(v))), v...)
}

// zkCreateRequest makes a node that everybody may do everything with.
func zkCreateRequest(path, data string, flags uint32) []byte {
	body := zkBytes(zkBytes(nil, path), data)
	body = binary.BigEndian.AppendUint32(body, 1)
	body = binary.BigEndian.AppendUint32(body, 31)
	body = zkBytes(zkBytes(body, "world"), "anyone")
	return zkRequest(zkCreate, binary.BigEndian.AppendUint32(body, flags))
}

func zkSetRequest(path, data string) []byte {
	return zkRequest(zkSetData, binary.BigEndian.AppendUint32(zkBytes(zkBytes(nil, path), data), 0xffffffff)) // whatever its version
}

func zkGetRequest(path string, watch bool) []byte {
	body := append(zkBytes(nil, path), 0)
	if watch {
		body[len(body)-1] = 1
	}
	return zkRequest(zkGetData, body)
}

// ask sends n requests, depth of them on the way at once, and returns how long each took. Every answer must be a good one.
func (k *keeper) ask(n, depth int, request func(i int) []byte) ([]time.Duration, error) {
	slots, since, failed := make(chan struct{}, depth), make(chan time.Time, depth), make(chan error, 1)
	first := k.xid + 1
	k.xid += int32(n)
	go func() {
		for i := range n {
			frame := request(i)
			binary.BigEndian.PutUint32(frame[4:], uint32(first)+uint32(i))
			slots <- struct{}{}
			since <- time.Now()
			if _, err := k.conn.Write(frame); err != nil {
				failed <- err
				k.conn.Close() // whoever waits for its answer need not
				return
			}
		}
		failed <- nil
	}()
	times := make([]time.Duration, 0, n)
	err := func() error {
		for i := range n {
			if err := k.answer(first + int32(i)); err != nil {
				return err
			}
			times = append(times, time.Since(<-since))
			<-slots
		}
		return nil
	}()
	if err != nil {
		k.conn.Close()
		for { // until the writer has noticed
			select {
			case <-slots:
			case <-since:
			case sendErr := <-failed:
				return nil, firstCause([]error{err, sendErr})
			}
		}
	}
	return times, <-failed
}

// answer reads up to the answer to a request; events that come before it are counted.
func (k *keeper) answer(xid int32) error {
	for {
		got, err := k.next()
		if err != nil || got == xid {
			return err
		}
		if got != eventXid {
			return fmt.Errorf("an answer to request %d, want %d", got, xid)
		}
	}
}

// eventXid is the xid of what a watch brings.
const eventXid = -1

// next reads a frame, and tells what it answers.
func (k *keeper) next() (xid int32, err error) {
	frame, err := k.answers.next()
	if err != nil {
		return 0, err
	}
	if len(frame) < 16 {
		return 0, errors.New("an answer without a header")
	}
	if code := int32(binary.BigEndian.Uint32(frame[12:])); code != 0 {
		return int32(binary.BigEndian.Uint32(frame)), zkError(code)
	}
	if xid = int32(binary.BigEndian.Uint32(frame)); xid == eventXid {
		k.events++
	}
	return xid, nil
}

// await reads until n watches have fired, nothing being asked meanwhile.
func (k *keeper) await(n int) error {
	for k.events < n {
		xid, err := k.next()
		if err == nil && xid != eventXid {
			err = fmt.Errorf("request %d is answered again", xid)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// make creates nodes that may be there.
func (k *keeper) make(paths ...string) error {
	for _, path := range paths {
		k.xid++
		frame := zkCreateRequest(path, zkData, 0)
		binary.BigEndian.PutUint32(frame[4:], uint32(k.xid))
		if _, err := k.conn.Write(frame); err != nil {
			return err
		}
		if err := k.answer(k.xid); err != nil && !errors.Is(err, zkNodeExists) {
			return fmt.Errorf("create %s: %w", path, err)
		}
	}
	return nil
}

// end ends the session, and with it what it owns.
func (k *keeper) end() error {
	defer k.conn.Close()
	_, err := k.ask(1, 1, func(int) []byte { return zkRequest(zkClose, nil) })
	return err
}
