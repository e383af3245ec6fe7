package peer

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/wire"
)

// other is the other node: the test reads its requests and writes its responses.
type other struct {
	t  *testing.T
	nc net.Conn
}

func (o *other) request() (wire.Header, kmsg.Request) {
	o.t.Helper()
	frame, err := wire.ReadFrame(o.nc, 1<<20, nil)
	if err != nil {
		o.t.Fatalf("read request: %v", err)
	}
	h, err := wire.ParseHeader(frame)
	if err != nil {
		o.t.Fatalf("read request: %v", err)
	}
	req, err := wire.DecodeRequest(h, frame[h.BodyOffset:])
	if err != nil {
		o.t.Fatalf("read request: %v", err)
	}
	return h, req
}

func (o *other) respond(id int32, resp kmsg.Response) {
	o.t.Helper()
	if _, err := o.nc.Write(wire.AppendResponse(nil, id, resp)); err != nil {
		o.t.Fatalf("write response: %v", err)
	}
}

// versions answers ApiVersions with Metadata 1 to 5 alone.
func (o *other) versions() {
	h, req := o.request()
	resp := req.ResponseKind().(*kmsg.ApiVersionsResponse)
	k := kmsg.NewApiVersionsResponseApiKey()
	k.ApiKey, k.MinVersion, k.MaxVersion = 3, 1, 5
	resp.ApiKeys = append(resp.ApiKeys, k)
	o.respond(h.CorrelationID, resp)
}

// dial connects to an other that answers as answer does while Dial runs.
func dial(t *testing.T, ctx context.Context, answer func(*other)) (*Conn, *other, error) {
	ours, theirs := net.Pipe()
	o := &other{t, theirs}
	if answer != nil {
		go answer(o)
	}
	c, err := Dial(ctx, "node:9093", Options{
		Dial:            func(context.Context, string) (net.Conn, error) { return ours, nil },
		ClientID:        "n1",
		SoftwareName:    "moldau",
		SoftwareVersion: "1",
	})
	return c, o, err
}

func mustDial(t *testing.T) (*Conn, *other) {
	t.Helper()
	c, o, err := dial(t, t.Context(), (*other).versions)
	if err != nil {
		t.Fatal(err)
	}
	return c, o
}

func metadata(version int16) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	req.Version = version
	return req
}

func TestRequestsArePipelined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, o := mustDial(t)
		go func() {
			first, _ := o.request()
			second, req := o.request() // both are here before either is answered
			if v := req.GetVersion(); v != 5 {
				t.Errorf("sent in version %d, want the highest that both know, 5", v)
			}
			for i, h := range []wire.Header{first, second} {
				resp := kmsg.NewPtrMetadataResponse()
				resp.Version = 5
				resp.ControllerID = int32(i + 1)
				o.respond(h.CorrelationID, resp)
			}
		}()
		first, err := c.Send(t.Context(), metadata(12))
		if err != nil {
			t.Fatal(err)
		}
		second, err := c.Do(t.Context(), metadata(12))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := first.Wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if resp.(*kmsg.MetadataResponse).ControllerID != 1 || second.(*kmsg.MetadataResponse).ControllerID != 2 {
			t.Error("responses were paired with the wrong requests")
		}
		c.Close()
	})
}

func TestUnservedVersionIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := mustDial(t)
		if _, err := c.Do(t.Context(), metadata(0)); !errors.Is(err, kerr.UnsupportedVersion) {
			t.Errorf("version below the lowest: %v", err)
		}
		if _, err := c.Do(t.Context(), kmsg.NewPtrFetchRequest()); !errors.Is(err, kerr.UnsupportedVersion) {
			t.Errorf("API that is not served: %v", err)
		}
		if _, _, ok := c.Versions(1); ok {
			t.Error("Versions tells of an API that is not served")
		}
		c.Close()
	})
}

func TestAbandonedCallLeavesTheConnectionWorking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, o := mustDial(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var late wire.Header
		got := make(chan struct{})
		go func() {
			late, _ = o.request()
			close(got)
		}()
		if _, err := c.Do(ctx, metadata(5)); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("Do: %v", err)
		}
		<-got
		go func() {
			resp := kmsg.NewPtrMetadataResponse()
			resp.Version = 5
			o.respond(late.CorrelationID, resp)
			h, _ := o.request()
			resp.ControllerID = 7
			o.respond(h.CorrelationID, resp)
		}()
		resp, err := c.Do(t.Context(), metadata(5))
		if err != nil || resp.(*kmsg.MetadataResponse).ControllerID != 7 {
			t.Errorf("Do after an abandoned call: %v, %v", resp, err)
		}
		c.Close()
	})
}

func TestFailuresEndEveryCall(t *testing.T) {
	for name, c := range map[string]struct {
		fail func(*Conn, *other, wire.Header)
		want string
	}{
		"closed by us":     {func(c *Conn, _ *other, _ wire.Header) { c.Close() }, ErrClosed.Error()},
		"closed by them":   {func(_ *Conn, o *other, _ wire.Header) { o.nc.Close() }, io.EOF.Error()},
		"huge length":      {func(_ *Conn, o *other, _ wire.Header) { _, _ = o.nc.Write([]byte{0x7f, 0, 0, 0}) }, "larger than allowed"},
		"wrong number":     {func(_ *Conn, o *other, h wire.Header) { o.respond(h.CorrelationID+5, metadataResponse()) }, "was due"},
		"unreadable":       {func(_ *Conn, o *other, h wire.Header) { o.garbage(h.CorrelationID) }, "Metadata"},
		"nobody asked for": {func(_ *Conn, o *other, h wire.Header) { o.twice(h.CorrelationID) }, "nobody asked"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn, o := mustDial(t)
				call, err := sendAsync(t, conn, o, func(h wire.Header) { c.fail(conn, o, h) })
				if err != nil {
					t.Fatal(err)
				}
				_, _ = call.Wait(t.Context())
				synctest.Wait()
				if err := conn.Err(); err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("the connection failed with %v, want %q", err, c.want)
				}
				if _, err := conn.Do(t.Context(), metadata(5)); err == nil {
					t.Error("a failed connection took a request")
				}
				conn.Close()
				o.nc.Close()
			})
		})
	}
}

func metadataResponse() *kmsg.MetadataResponse {
	resp := kmsg.NewPtrMetadataResponse()
	resp.Version = 5
	return resp
}

func (o *other) garbage(id int32) {
	frame := binary.BigEndian.AppendUint32([]byte{0, 0, 0, 6}, uint32(id))
	_, _ = o.nc.Write(append(frame, 0xff, 0xff))
}

func (o *other) twice(id int32) {
	o.respond(id, metadataResponse())
	o.respond(id+1, metadataResponse())
}

// sendAsync sends a request, and has then run once the other side has it.
func sendAsync(t *testing.T, c *Conn, o *other, then func(wire.Header)) (*Call, error) {
	go func() {
		h, _ := o.request()
		then(h)
	}()
	return c.Send(t.Context(), metadata(5))
}

func TestSilentPeerDoesNotHoldDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, _, err := dial(t, ctx, nil); !errors.Is(err, context.DeadlineExceeded) && !strings.Contains(err.Error(), "timeout") {
			t.Errorf("Dial: %v", err)
		}
	})
}

func TestOldPeerAnswersInVersionZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, o, err := dial(t, t.Context(), func(o *other) {
			h, _ := o.request()
			refused := kmsg.NewPtrApiVersionsResponse()
			refused.ErrorCode = kerr.UnsupportedVersion.Code
			o.respond(h.CorrelationID, refused)
			o.versions()
		})
		if err != nil {
			t.Fatal(err)
		}
		if lowest, highest, ok := c.Versions(3); !ok || lowest != 1 || highest != 5 {
			t.Errorf("Metadata %d to %d, %v", lowest, highest, ok)
		}
		c.Close()
		o.nc.Close()
	})
}

// failing is a connection whose Write reports an error when everything has been written and answered.
type failing struct {
	net.Conn
	on bool
}

func (c *failing) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if c.on {
		synctest.Wait() // the response has been read
		return n, errors.New("too late")
	}
	return n, err
}

// TestResponseBeforeTheFailure: a request that was answered while its connection failed has its answer.
func TestResponseBeforeTheFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		o, nc := &other{t, theirs}, &failing{Conn: ours}
		go o.versions()
		c, err := Dial(t.Context(), "node:9093", Options{Dial: func(context.Context, string) (net.Conn, error) { return nc, nil }})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		nc.on = true
		go func() {
			h, req := o.request()
			o.respond(h.CorrelationID, req.ResponseKind())
		}()
		req := kmsg.NewPtrMetadataRequest()
		req.Version = 5
		if resp, err := c.Do(t.Context(), req); err != nil || resp == nil {
			t.Errorf("the answer is %v, %v", resp, err)
		}
		if _, err := c.Do(t.Context(), req); err == nil || !strings.Contains(err.Error(), "too late") {
			t.Errorf("the connection goes on: %v", err)
		}
	})
}

// tardy is a connection whose Write is through when end ends its context, and whose deadline takes a while to be set.
type tardy struct {
	net.Conn
	end context.CancelFunc
}

func (c *tardy) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if c.end != nil {
		c.end()
		c.end = nil
	}
	return n, err
}

func (c *tardy) SetWriteDeadline(at time.Time) error {
	if !at.IsZero() {
		time.Sleep(time.Millisecond)
	}
	return c.Conn.SetWriteDeadline(at)
}

// TestContextThatEndsWithTheWrite: a context that ends when a request has just been written does not end the connection.
func TestContextThatEndsWithTheWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		o, nc := &other{t, theirs}, &tardy{Conn: ours}
		go o.versions()
		c, err := Dial(t.Context(), "node:9093", Options{Dial: func(context.Context, string) (net.Conn, error) { return nc, nil }})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		go func() {
			for range 2 {
				h, req := o.request()
				o.respond(h.CorrelationID, req.ResponseKind())
			}
		}()
		var ctx context.Context
		ctx, nc.end = context.WithCancel(t.Context())
		_, _ = c.Do(ctx, metadata(5)) // the answer may be faster than the end
		time.Sleep(time.Second)
		if _, err := c.Do(t.Context(), metadata(5)); err != nil {
			t.Errorf("the next request: %v", err)
		}
	})
}
