package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/batch"
)

func framed(body []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

func TestReadFrame(t *testing.T) {
	big := make([]byte, 3<<20+17)
	for i := range big {
		big[i] = byte(i * 7)
	}
	for _, body := range [][]byte{{}, []byte("x"), big[:FirstStepBytes-1], big[:FirstStepBytes], big[:FirstStepBytes+1], big} {
		in := bytes.NewReader(append(framed(body), framed([]byte("next"))...))
		got, err := ReadFrame(iotest.HalfReader(in), len(big), nil)
		if err != nil || !bytes.Equal(got, body) {
			t.Fatalf("%d bytes: got %d, %v", len(body), len(got), err)
		}
		if next, err := ReadFrame(in, 100, nil); err != nil || string(next) != "next" {
			t.Fatalf("after %d bytes: %q, %v", len(body), next, err)
		}
		if _, err := ReadFrame(in, 100, nil); err != io.EOF {
			t.Fatalf("at the end: %v", err)
		}
	}
}

func TestReadFrameRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		in   []byte
		want error
	}{
		{"nothing", nil, io.EOF},
		{"part of the length", []byte{0, 0}, io.ErrUnexpectedEOF},
		{"length only", framed(make([]byte, 9))[:4], io.ErrUnexpectedEOF},
		{"part of the frame", framed(make([]byte, 9))[:12], io.ErrUnexpectedEOF},
		{"one too many", framed(make([]byte, 101)), ErrFrameTooLarge},
		{"2 GiB", []byte{0x7f, 0xff, 0xff, 0xff}, ErrFrameTooLarge},
		{"negative", []byte{0xff, 0xff, 0xff, 0xff}, ErrFrameLength},
		{"HTTP", []byte("GET / HTTP/1.1\r\n"), ErrFrameTooLarge},
	} {
		if _, err := ReadFrame(bytes.NewReader(c.in), 100, nil); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

// A sender who declares 100 MiB and sends k bytes holds about growFactor times k of our memory.
func TestReadFrameMemoryFollowsBytesReceived(t *testing.T) {
	for _, sent := range []int{0, 1, 1000, FirstStepBytes, FirstStepBytes + 1, 1 << 20} {
		in := binary.BigEndian.AppendUint32(nil, 100<<20)
		in = append(in, make([]byte, sent)...)
		largest := 0
		_, err := ReadFrame(bytes.NewReader(in), 100<<20, func(n int) []byte {
			largest = max(largest, n)
			return make([]byte, n)
		})
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatal(err)
		}
		if limit := max(FirstStepBytes, growFactor*sent); largest > limit {
			t.Errorf("%d bytes sent: a buffer of %d", sent, largest)
		}
	}
}

func TestReadFrameUsesWhatGetGives(t *testing.T) {
	pooled := make([]byte, 1<<20)
	body := make([]byte, 300<<10)
	calls := 0
	got, err := ReadFrame(bytes.NewReader(framed(body)), 1<<20, func(int) []byte { calls++; return pooled })
	if err != nil || calls != 1 || &got[0] != &pooled[0] || cap(got) != len(body) {
		t.Fatalf("%d calls, cap %d, %v", calls, cap(got), err)
	}
}

// Every version of every request goes through AppendRequest, ParseHeader and DecodeRequest and comes back the same.
func TestRequestsRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 22))
	every(func(req kmsg.Request) {
		for _, client := range []*string{nil, ptr(""), ptr("client-ü")} {
			fill(rng, reflect.ValueOf(req).Elem())
			frame := AppendRequest([]byte("before"), 77, client, req)[len("before"):]
			if int(binary.BigEndian.Uint32(frame)) != len(frame)-4 {
				t.Fatalf("length %x of %d bytes", frame[:4], len(frame))
			}
			h, err := ParseHeader(frame[4:])
			if err != nil || h.Key != req.Key() || h.Version != req.GetVersion() || h.CorrelationID != 77 {
				t.Fatalf("%+v, %v", h, err)
			}
			if noID := h.Key == controlledShutdown && h.Version == 0; !noID && !reflect.DeepEqual(h.ClientID, client) {
				t.Fatalf("client id %v, want %v", h.ClientID, client)
			}
			body := frame[4+h.BodyOffset:]
			got, err := DecodeRequest(h, body)
			if err != nil {
				t.Fatalf("%s version %d: %v", kmsg.NameForKey(h.Key), h.Version, err)
			}
			if again := got.AppendTo(nil); !bytes.Equal(again, body) {
				t.Fatalf("%s version %d: decoded and encoded again\n%x, was\n%x", kmsg.NameForKey(h.Key), h.Version, again, body)
			}
		}
	})
}

// A request decoded into the memory of others, of any version, is what it would be in memory of its own.
func TestDecodeAgain(t *testing.T) {
	rng := rand.New(rand.NewPCG(23, 24))
	earlier := map[int16]kmsg.Request{}
	for range 20 {
		every(func(req kmsg.Request) {
			fill(rng, reflect.ValueOf(req).Elem())
			h := Header{Key: req.Key(), Version: int16(rng.IntN(int(req.MaxVersion()) + 1))}
			req.SetVersion(h.Version)
			body := req.AppendTo(nil)
			want, err := DecodeRequest(h, body)
			if err != nil {
				t.Fatal(err)
			}
			got, err := DecodeAgain(h, body, earlier[h.Key])
			if err != nil {
				t.Fatal(err)
			}
			if f, ok := got.(*kmsg.FetchRequest); ok && len(f.Topics) == 0 {
				f.Topics = nil
			}
			if f, ok := got.(*kmsg.FetchRequest); ok && len(f.ForgottenTopics) == 0 {
				f.ForgottenTopics = nil
			}
			if p, ok := got.(*kmsg.ProduceRequest); ok && len(p.Topics) == 0 {
				p.Topics = nil
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("%s version %d: %+v, want %+v", kmsg.NameForKey(h.Key), h.Version, got, want)
			}
			earlier[h.Key] = got
		})
	}
}

// The header of a version that does not exist has the form of the newest that does.
func TestFlexibleRequests(t *testing.T) {
	every(func(req kmsg.Request) {
		for _, version := range []int16{req.GetVersion(), req.MaxVersion() + 1, 32767} {
			req.SetVersion(version)
			if got, ok := flexibleRequest(req.Key(), version); !ok || got != req.IsFlexible() {
				t.Errorf("%s version %d: flexible %v, want %v", kmsg.NameForKey(req.Key()), version, got, req.IsFlexible())
			}
		}
	})
	for _, key := range []int16{-1, maxKey + 1, lastPrivateKey + 1} {
		if _, ok := flexibleRequest(key, 0); ok {
			t.Errorf("key %d is known", key)
		}
	}
}

func TestAppendRequestIsKmsgs(t *testing.T) {
	f := kmsg.NewRequestFormatter(kmsg.FormatterClientID("me"))
	every(func(req kmsg.Request) {
		if req.Key() == controlledShutdown && req.GetVersion() == 0 {
			return // kmsg's formatter stops after the header and leaves the length 0
		}
		if got, want := AppendRequest(nil, 5, ptr("me"), req), f.AppendRequest(nil, req, 5); !bytes.Equal(got, want) {
			t.Errorf("%s version %d: %x, kmsg %x", kmsg.NameForKey(req.Key()), req.GetVersion(), got, want)
		}
	})
}

func TestResponsesRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(31, 32))
	every(func(req kmsg.Request) {
		resp := req.ResponseKind()
		fill(rng, reflect.ValueOf(resp).Elem())
		if v, ok := resp.(*kmsg.ApiVersionsResponse); ok {
			v.ErrorCode = 0
		}
		frame := AppendResponse(nil, -9, resp)
		got := req.ResponseKind()
		id, err := ReadResponse(frame[4:], got)
		if err != nil || id != -9 {
			t.Fatalf("%s version %d: %d, %v", kmsg.NameForKey(req.Key()), req.GetVersion(), id, err)
		}
		if again := AppendResponse(nil, -9, got); !bytes.Equal(again, frame) {
			t.Fatalf("%s version %d: read and written again\n%x, was\n%x", kmsg.NameForKey(req.Key()), req.GetVersion(), again, frame)
		}
	})
}

func TestApiVersionsResponse(t *testing.T) {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.Version = 3
	frame := AppendResponse(nil, 1, resp)
	if want := "0000000c" + "00000001" + "0000" + "01" + "00000000" + "00"; fmt.Sprintf("%x", frame) != want {
		t.Errorf("%x, want %s: the header has no tags", frame, want)
	}
	// KIP-511: a broker too old answers version 0 with error 35.
	old := kmsg.NewPtrApiVersionsResponse()
	old.ErrorCode = kerr.UnsupportedVersion.Code
	old.ApiKeys = []kmsg.ApiVersionsResponseApiKey{{ApiKey: 18, MaxVersion: 2}}
	got := kmsg.NewPtrApiVersionsResponse()
	got.Version = 4
	if _, err := ReadResponse(AppendResponse(nil, 1, old)[4:], got); err != nil || got.Version != 0 || len(got.ApiKeys) != 1 || got.ApiKeys[0].MaxVersion != 2 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestParseHeader(t *testing.T) {
	head := func(key, version int16, rest ...byte) []byte {
		b := binary.BigEndian.AppendUint16(nil, uint16(key))
		b = binary.BigEndian.AppendUint16(b, uint16(version))
		return append(append(b, 0, 0, 0, 7), rest...)
	}
	for _, c := range []struct {
		name   string
		frame  []byte
		offset int // 0: an error
		want   error
	}{
		{"empty", nil, 0, ErrBadRequest},
		{"seven bytes", make([]byte, 7), 0, ErrBadRequest},
		{"no client id", head(3, 1), 0, ErrBadRequest},
		{"null client id", head(3, 1, 0xff, 0xff), 10, nil},
		{"client id", head(3, 1, 0, 2, 'm', 'e', 'x'), 12, nil},
		{"client id beyond the end", head(3, 1, 0, 3, 'm', 'e'), 0, ErrBadRequest},
		{"flexible without tags", head(3, 9, 0, 1, 'm'), 0, ErrBadRequest},
		{"flexible", head(3, 9, 0, 1, 'm', 0, 'x'), 12, nil},
		{"flexible with two tags", head(3, 9, 0, 1, 'm', 2, 5, 1, 'a', 6, 0, 'x'), 17, nil},
		{"tag beyond the end", head(3, 9, 0, 1, 'm', 1, 5, 9, 'a'), 0, ErrBadRequest},
		{"four billion tags", head(3, 9, 0, 1, 'm', 0xff, 0xff, 0xff, 0xff, 0x0f), 0, ErrBadRequest},
		{"ControlledShutdown 0 has no client id", head(7, 0, 'x'), 8, nil},
		{"ApiVersions of the far future", head(18, 999, 0, 1, 'm', 0), 12, nil},
		{"negative version", head(3, -1, 0xff, 0xff), 0, ErrBadRequest},
		{"unknown key", head(12345, 0, 0xff, 0xff), 0, ErrUnknownKey},
		{"negative key", head(-1, 0, 0xff, 0xff), 0, ErrUnknownKey},
	} {
		h, err := ParseHeader(c.frame)
		if !errors.Is(err, c.want) || h.BodyOffset != c.offset {
			t.Errorf("%s: body at %d, %v; want %d, %v", c.name, h.BodyOffset, err, c.offset, c.want)
		}
		if len(c.frame) >= 8 && h.CorrelationID != 7 {
			t.Errorf("%s: correlation id %d", c.name, h.CorrelationID)
		}
	}
}

func TestDecodeRequestRefuses(t *testing.T) {
	for name, h := range map[string]Header{"key": {Key: 500}, "version": {Key: 3, Version: 99}} {
		if _, err := DecodeRequest(h, make([]byte, 100)); !errors.Is(err, ErrBadRequest) {
			t.Errorf("unknown %s: %v", name, err)
		}
	}
	if _, err := DecodeRequest(Header{Key: 3, Version: 1}, []byte{0, 0, 0}); !errors.Is(err, ErrBadRequest) {
		t.Error(err)
	}
}

// Strings may outlive the frame, which goes back to a pool; records must not be copied.
func TestDecodeAliasesRecordsButNotStrings(t *testing.T) {
	req := kmsg.NewPtrProduceRequest()
	req.Version = 9
	req.Topics = []kmsg.ProduceRequestTopic{{Topic: "name", Partitions: []kmsg.ProduceRequestTopicPartition{{Records: []byte("records")}}}}
	body := req.AppendTo(nil)
	got, err := DecodeRequest(Header{Key: 0, Version: 9}, body)
	if err != nil {
		t.Fatal(err)
	}
	clear(body)
	topic := got.(*kmsg.ProduceRequest).Topics[0]
	if topic.Topic != "name" {
		t.Errorf("the topic's name changed with the frame: %q", topic.Topic)
	}
	if string(topic.Partitions[0].Records) != strings.Repeat("\x00", 7) {
		t.Error("records were copied")
	}
}

func TestCode(t *testing.T) {
	deadline, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	<-deadline.Done()
	for _, c := range []struct {
		err  error
		code int16
		text string
	}{
		{nil, 0, ""},
		{kerr.NotLeaderForPartition, 6, kerr.NotLeaderForPartition.Description},
		{fmt.Errorf("append to t-0: %w", kerr.NotEnoughReplicas), 19, "append to t-0: " + kerr.NotEnoughReplicas.Error()},
		{batch.ErrCorrupt, 2, kerr.CorruptMessage.Description},
		{fmt.Errorf("parse: %w", batch.ErrOldMagic), 87, "parse: " + batch.ErrOldMagic.Error()},
		{&batch.RecordErrors{Err: kerr.InvalidTimestamp, Records: []batch.RecordError{{Index: 3, Message: "late"}}}, 32, "record 3 of the batch: late: " + kerr.InvalidTimestamp.Error()},
		{fmt.Errorf("wait: %w", deadline.Err()), 7, "wait: context deadline exceeded"},
		{context.Canceled, -1, kerr.UnknownServerError.Description},
		{errors.New("open /secret/path: denied"), -1, kerr.UnknownServerError.Description},
	} {
		if got := Code(c.err); got != c.code {
			t.Errorf("%v has code %d, want %d", c.err, got, c.code)
		}
		if got := Message(c.err); (got == nil) != (c.err == nil) || got != nil && *got != c.text {
			t.Errorf("%v has message %v, want %q", c.err, got, c.text)
		}
	}
}

func FuzzDecode(f *testing.F) {
	rng := rand.New(rand.NewPCG(41, 42))
	every(func(req kmsg.Request) {
		fill(rng, reflect.ValueOf(req).Elem())
		f.Add(AppendRequest(nil, 1, ptr("c"), req)[4:])
	})
	f.Fuzz(func(t *testing.T, frame []byte) {
		h, err := ParseHeader(frame)
		if err != nil {
			return
		}
		var req kmsg.Request
		got := allocated(func() { req, err = DecodeRequest(h, frame[h.BodyOffset:]) })
		if got > 32*len(frame)+4<<20 { // other goroutines of the fuzzer allocate too
			t.Fatalf("%d bytes became %d", len(frame), got)
		}
		if err != nil {
			return
		}
		// What was decoded has an encoding of its own that decodes again.
		again := req.AppendTo(nil)
		if _, err := DecodeRequest(h, again); err != nil && len(again) < guardFromBytes {
			t.Fatalf("%s version %d: encoded again as %x: %v", kmsg.NameForKey(h.Key), h.Version, again, err)
		}
	})
}

func FuzzReadFrame(f *testing.F) {
	f.Add(framed([]byte("hello")), 10)
	f.Add([]byte{0, 0, 1, 0}, 1<<20)
	f.Fuzz(func(t *testing.T, in []byte, maxBytes int) {
		frame, err := ReadFrame(bytes.NewReader(in), maxBytes, nil)
		if err == nil && (len(frame) > maxBytes || !bytes.Equal(framed(frame), in[:4+len(frame)])) {
			t.Fatalf("frame of %d bytes from %x", len(frame), in)
		}
	})
}
