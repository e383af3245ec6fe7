package zookeeper

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"

	"moldau/internal/kafka"
	"moldau/internal/wire"
)

// pass has another node serve the connection: it is asked on its listener for brokers, with a request of our own, and then
// every byte is the client's. begun is what the client has sent.
func (c *conn) pass(ctx context.Context, to kafka.NodeID, moved <-chan struct{}, begun []byte) error {
	other, err := c.s.o.Dial(ctx, to)
	if err != nil {
		return fmt.Errorf("pass a ZooKeeper connection to node %d: %w", to, err)
	}
	defer func() { _ = other.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = other.Close() })
	err = ask(other, c.s.o.NodeID, c.remote)
	if !stop() || err != nil {
		return fmt.Errorf("pass a ZooKeeper connection to node %d: %w", to, err)
	}
	if _, err := other.Write(begun); err != nil {
		return fmt.Errorf("pass a ZooKeeper connection to node %d: %w", to, err)
	}
	var copying sync.WaitGroup
	copying.Go(func() {
		_, _ = io.Copy(other, c.in)
		closeWrite(other) // who has asked all may still wait for answers
	})
	answered := make(chan struct{})
	copying.Go(func() {
		_, _ = io.Copy(c.nc, other)
		close(answered)
	})
	select { // whichever it is, it is over
	case <-answered:
	case <-moved:
	case <-c.ctx.Done():
	}
	c.cut()
	_ = other.Close()
	copying.Wait()
	return nil
}

// closeWrite says that nothing more will come; to a connection that cannot be told, that it is over.
func closeWrite(c net.Conn) {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
		return
	}
	_ = c.Close()
}

// ask sends the request for a connection to be served, and reads the answer.
func ask(other net.Conn, node kafka.NodeID, remote string) error {
	body := appendPassed(nil, node, remote)
	client := "moldau"
	frame := wire.AppendRequest(nil, 0, &client, &wire.PrivateRequest{APIKey: wire.ZooKeeperKey, Body: body})
	if _, err := other.Write(frame); err != nil {
		return err
	}
	n, err := readLength(other, answerBytes)
	if err == nil {
		_, err = readBody(other, nil, n)
	}
	return err
}

// answerBytes is the length of the answer to ask: a correlation id and no tagged fields.
const answerBytes = 5

// appendPassed appends the body of a request with wire.ZooKeeperKey. docs/format has its bytes.
func appendPassed(b []byte, by kafka.NodeID, remote string) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(by))
	return append(b, remote...)
}

// parsePassed reads it.
func parsePassed(b []byte) (by kafka.NodeID, remote string, err error) {
	if len(b) < 4 || len(b) > 4+256 {
		return kafka.NoNode, "", errRequest
	}
	return kafka.NodeID(binary.BigEndian.Uint32(b)), string(b[4:]), nil
}
