package main

import (
	"encoding/binary"
	"errors"
	"net"
	"testing"
	"time"
)

// zkAnswers serves one session: it answers each request with the xid and the code that answer makes of it, after an event.
func zkAnswers(t *testing.T, answer func(xid int32) (int32, int32)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		requests := newFrameReader(conn)
		if _, err := requests.next(); err != nil {
			return
		}
		connected := zkBytes(binary.BigEndian.AppendUint64(make([]byte, 8), 7), string(make([]byte, 16)))
		_, err = conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(connected))), connected...))
		for err == nil {
			var frame []byte
			if frame, err = requests.next(); err != nil {
				return
			}
			xid, code := answer(int32(binary.BigEndian.Uint32(frame)))
			var out []byte
			for _, h := range [][2]int32{{eventXid, 0}, {xid, code}} {
				out = binary.BigEndian.AppendUint32(out, 16)
				out = binary.BigEndian.AppendUint32(out, uint32(h[0]))
				out = binary.BigEndian.AppendUint64(out, 1)
				out = binary.BigEndian.AppendUint32(out, uint32(h[1]))
			}
			_, err = conn.Write(out)
		}
	}()
	return ln.Addr().String()
}

// TestKeeper: every request is answered, and events between the answers are counted.
func TestKeeper(t *testing.T) {
	k, err := newKeeper(t.Context(), zkAnswers(t, func(xid int32) (int32, int32) { return xid, 0 }))
	if err != nil {
		t.Fatal(err)
	}
	times, err := k.ask(100, 7, func(int) []byte { return zkGetRequest("/a", true) })
	if err != nil || len(times) != 100 || k.events != 100 {
		t.Errorf("%d answers, %d events: %v", len(times), k.events, err)
	}
	if err := k.await(100); err != nil {
		t.Errorf("all have come, and it waits: %v", err)
	}
	if err := k.end(); err != nil {
		t.Error(err)
	}
}

// TestKeeperTellsErrors: neither a refusal nor an answer to something else passes for an answer.
func TestKeeperTellsErrors(t *testing.T) {
	for what, answer := range map[string]func(xid int32) (int32, int32){
		"a refusal":        func(xid int32) (int32, int32) { return xid, int32(zkNodeExists) * (xid / 3) },
		"the wrong answer": func(xid int32) (int32, int32) { return xid + xid/3, 0 },
	} {
		k, err := newKeeper(t.Context(), zkAnswers(t, answer))
		if err != nil {
			t.Fatal(err)
		}
		failed := make(chan error, 1)
		go func() {
			_, err := k.ask(10, 2, func(int) []byte { return zkSetRequest("/a", "") })
			failed <- err
		}()
		select {
		case err := <-failed:
			if err == nil || what == "a refusal" && !errors.Is(err, zkNodeExists) {
				t.Errorf("%s: %v", what, err)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: it waits for ever", what)
		}
	}
}

// TestDefaultSystems: nobody compares a ZooKeeper with a broker.
func TestDefaultSystems(t *testing.T) {
	for _, c := range []struct{ words, want string }{{"start", "moldau,kafka"}, {"old-", "moldau,kafka-3.9"}, {"zookeeper", "moldau,zookeeper"}, {"start,zookeeper", ""}} {
		chosen, err := chooseWorkloads(allWorkloads(), c.words, false)
		if err != nil {
			t.Fatal(err)
		}
		got, err := defaultSystems(chosen)
		if got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%s: %q, %v", c.words, got, err)
		}
		if err == nil {
			if _, err := chooseSystems(allSystems(""), got); err != nil {
				t.Error(err)
			}
		}
	}
}
