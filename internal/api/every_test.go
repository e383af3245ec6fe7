package api

import (
	"bytes"
	"io"
	"net"
	"reflect"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/server"
	"moldau/internal/stand"
	"moldau/internal/wire"
)

// sample is a request of an API in a version, with every field set and one element in every array.
func sample(key, version int16) kmsg.Request {
	req := kmsg.RequestForKey(key)
	fill(reflect.ValueOf(req).Elem())
	req.SetVersion(version)
	return req
}

func fill(v reflect.Value) {
	if d, ok := v.Addr().Interface().(interface{ Default() }); ok {
		d.Default()
	}
	for i := range v.NumField() {
		name, f := v.Type().Field(i).Name, v.Field(i)
		switch {
		case name == "Version" || name == "UnknownTags":
		case name == "BrokerID" || name == "ControllerID":
			f.SetInt(77) // not this node: it has to live on
		case name == "Acks":
			f.SetInt(-1)
		case name == "SessionEpoch" || name == "ReplicaID" || name == "LastFetchedEpoch":
			f.SetInt(-1)
		case name == "ReplicaState":
		case name == "Records":
			f.SetBytes(records(2, plain()))
		default:
			fillValue(f)
		}
	}
}

func fillValue(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		fill(v)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillValue(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fillValue(v.Index(0))
	case reflect.String:
		v.SetString("t")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		v.SetUint(1)
	}
}

// TestEveryVersionAnswers: each API in each version, on each listener, empty and with everything set, gets an answer
// that a client of that version can read, and the answer survives being encoded again.
func TestEveryVersionAnswers(t *testing.T) {
	inNode(t, nodeOptions{}, func(n *testNode) {
		n.create("t", 2)
		for _, r := range rows() {
			if r.hidden {
				continue // its body is not kmsg's; TestPrivateKeys
			}
			for version := r.min; version <= r.max; version++ {
				for kind, listener := range map[server.Mask]*stand.Pipes{server.Broker: n.broker, server.Controller: n.control} {
					if r.on(kind) == nil {
						continue
					}
					empty := kmsg.RequestForKey(r.key)
					empty.SetVersion(version)
					if r.key == 0 {
						empty.(*kmsg.ProduceRequest).Acks = 1
					}
					for _, req := range []kmsg.Request{empty, sample(r.key, version)} {
						c := n.dial(listener)
						resp := c.do(req)
						c.close()
						again := req.ResponseKind()
						if err := again.ReadFrom(resp.AppendTo(nil)); err != nil || !reflect.DeepEqual(resp, again) {
							n.t.Errorf("%s version %d: the answer changes when encoded again: %v", kmsg.NameForKey(r.key), version, err)
						}
					}
				}
			}
		}
	})
}

// FuzzRequest sends a frame to a node. Whatever it is, the node lives on: it answers or closes the connection.
func FuzzRequest(f *testing.F) {
	for _, r := range rows() {
		if r.hidden {
			f.Add(wire.AppendRequest(nil, 1, nil, &wire.PrivateRequest{APIKey: r.key, Body: []byte("body")})[4:], true)
			continue
		}
		for version := r.min; version <= r.max; version++ {
			for _, onController := range []bool{false, true} {
				f.Add(wire.AppendRequest(nil, 1, nil, sample(r.key, version))[4:], onController)
			}
		}
	}
	var n *testNode
	f.Fuzz(func(t *testing.T, frame []byte, onController bool) {
		if n == nil {
			n = startNode(t, nodeOptions{}) // in real time: what is fuzzed has no bubble
		}
		listener := n.broker
		if onController {
			listener = n.control
		}
		ours, theirs := net.Pipe()
		listener.Conns <- theirs
		length := []byte{byte(len(frame) >> 24), byte(len(frame) >> 16), byte(len(frame) >> 8), byte(len(frame))}
		_ = ours.SetDeadline(time.Now().Add(200 * time.Millisecond))
		if _, err := ours.Write(append(length, frame...)); err == nil {
			_, _ = io.ReadFull(ours, length) // an answer begins, or the connection ends, or it takes longer than we wait
		}
		_ = ours.Close()
		n.alive(t)
	})
}

// alive checks that the node still answers.
func (n *testNode) alive(t *testing.T) {
	ours, theirs := net.Pipe()
	n.broker.Conns <- theirs
	defer ours.Close()
	_ = ours.SetDeadline(time.Now().Add(10 * time.Second))
	req := kmsg.NewPtrApiVersionsRequest()
	if _, err := ours.Write(wire.AppendRequest(nil, 1, nil, req)); err != nil {
		t.Fatal(err)
	}
	frame, err := wire.ReadFrame(ours, 1<<20, nil)
	if err != nil || bytes.Count(frame, []byte{0, 18}) == 0 {
		t.Fatalf("the node does not answer: %v", err)
	}
}
