package uplink

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/kafka"
	"moldau/internal/peer"
	"moldau/internal/wire"
)

// nodeIDTimeout is how long a controller may take to give a number.
const nodeIDTimeout = 5 * time.Second

// AskNodeID asks the controllers at these addresses (host:port) in turn for a number, least or more, that no node has had: the active one
// gives it. The error tells what each of them said.
func AskNodeID(ctx context.Context, addresses []string, least kafka.NodeID, dial func(ctx context.Context, address string) (net.Conn, error)) (kafka.NodeID, error) {
	var errs []error
	for _, address := range addresses {
		id, err := askNodeID(ctx, address, least, dial)
		if err == nil {
			return id, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", address, err))
	}
	return kafka.NoNode, errors.Join(errs...)
}

func askNodeID(ctx context.Context, address string, least kafka.NodeID, dial func(ctx context.Context, address string) (net.Conn, error)) (kafka.NodeID, error) {
	ctx, cancel := context.WithTimeout(ctx, nodeIDTimeout)
	defer cancel()
	conn, err := peer.Dial(ctx, address, peer.Options{Dial: dial, ClientID: "without-a-number", MaxBytes: 1 << 10})
	if err != nil {
		return kafka.NoNode, err
	}
	defer conn.Close()
	answer, err := conn.DoPrivate(ctx, wire.NodeIDKey, appendNodeIDRequest(nil, least))
	if err != nil {
		return kafka.NoNode, err
	}
	return readNodeIDAnswer(answer)
}

// The bodies under wire.NodeIDKey; docs/format has their bytes.
func appendNodeIDRequest(dst []byte, least kafka.NodeID) []byte {
	return binary.BigEndian.AppendUint32(dst, uint32(least))
}

// ReadNodeIDRequest reads the body of a request with wire.NodeIDKey.
func ReadNodeIDRequest(body []byte) (least kafka.NodeID, err error) {
	if len(body) != 4 {
		return kafka.NoNode, kerr.InvalidRequest
	}
	return kafka.NodeID(binary.BigEndian.Uint32(body)), nil
}

// AppendNodeIDAnswer appends the body of the response: the number, or why there is none.
func AppendNodeIDAnswer(dst []byte, id kafka.NodeID, err error) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(wire.Code(err)))
	return binary.BigEndian.AppendUint32(dst, uint32(id))
}

func readNodeIDAnswer(body []byte) (kafka.NodeID, error) {
	if len(body) != 6 {
		return kafka.NoNode, errors.New("another kind of answer")
	}
	if err := kerr.ErrorForCode(int16(binary.BigEndian.Uint16(body))); err != nil {
		return kafka.NoNode, err
	}
	return kafka.NodeID(binary.BigEndian.Uint32(body[2:])), nil
}
