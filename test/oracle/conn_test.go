package oracle

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// patience is how long an answer may take; a broker under test shares its machine.
const patience = time.Minute

// conn is a connection that is made again whenever the broker closes it.
type conn struct {
	address     string
	conn        net.Conn
	correlation int32
}

// errClosed says that the broker closed the connection instead of answering.
var errClosed = errors.New("closed")

func (c *conn) close() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

// exchange sends frames, without their lengths, and returns the one that is answered first.
func (c *conn) exchange(frames ...[]byte) ([]byte, error) {
	if c.conn == nil {
		conn, err := net.Dial("tcp", c.address)
		if err != nil {
			return nil, err
		}
		c.conn = conn
	}
	body, err := c.roundTrip(frames)
	if err != nil {
		c.close()
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			return nil, fmt.Errorf("no answer in %v", patience)
		}
		return nil, errClosed
	}
	return body, nil
}

// send sends a request whose answer hear waits for.
func (c *conn) send(t *testing.T, req kmsg.Request) {
	t.Helper()
	if c.conn == nil {
		t.Fatal("a request whose answer is left for later cannot be the first of its connection")
	}
	if err := c.write(c.frame(req)); err != nil {
		t.Fatal(err)
	}
}

// hear reads the answer to what was sent last.
func (c *conn) hear(req kmsg.Request) (kmsg.Response, error) {
	body, err := c.exchange()
	if err != nil {
		return nil, err
	}
	return c.read(req, body)
}

func (c *conn) write(frame []byte) error {
	_, err := c.conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...))
	return err
}

func (c *conn) roundTrip(frames [][]byte) ([]byte, error) {
	if err := c.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	for _, frame := range frames {
		if err := c.write(frame); err != nil {
			return nil, err
		}
	}
	var length [4]byte
	if _, err := io.ReadFull(c.conn, length[:]); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(length[:]))
	_, err := io.ReadFull(c.conn, body)
	return body, err
}

// frame is a request as it goes over the wire, without its length.
func (c *conn) frame(req kmsg.Request) []byte {
	c.correlation++
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("oracle")).AppendRequest(nil, req, c.correlation)[4:]
}

// ask sends a request and reads the answer.
func (c *conn) ask(req kmsg.Request) (kmsg.Response, error) {
	body, err := c.exchange(c.frame(req))
	if err != nil {
		return nil, err
	}
	return c.read(req, body)
}

func (c *conn) read(req kmsg.Request, body []byte) (kmsg.Response, error) {
	if len(body) < 4 || int32(binary.BigEndian.Uint32(body)) != c.correlation {
		return nil, fmt.Errorf("an answer with a wrong correlation id: %x", body[:min(len(body), 16)])
	}
	body = body[4:]
	resp := req.ResponseKind()
	if resp.IsFlexible() && req.Key() != kmsg.ApiVersions.Int16() {
		if len(body) == 0 || body[0] != 0 {
			return nil, errors.New("an answer with tagged fields in its header")
		}
		body = body[1:]
	}
	if err := resp.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("an answer of version %d that cannot be read: %w", req.GetVersion(), err)
	}
	return resp, nil
}

// must asks what has to be answered.
func (c *conn) must(t *testing.T, req kmsg.Request, version int16) kmsg.Response {
	t.Helper()
	req.SetVersion(version)
	resp, err := c.ask(req)
	if err != nil {
		t.Fatalf("%s %d: %v", kmsg.NameForKey(req.Key()), version, err)
	}
	return resp
}
