package main

import (
	"bufio"
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/wire"
)

// The versions that the replayer speaks: those of a client of Apache Kafka 4.4, with topic ids.
const (
	produceVersion = 13
	fetchVersion   = 17
)

// The newest versions of clients that know no format after 1: those of Kafka 0.10.2.
const (
	oldProduceVersion = 2
	oldFetchVersion   = 3
)

// onConnections connects to each of some addresses, runs one function on each connection at a time, until all return or one fails,
// and joins what they measured. Its time begins when the last connection has been greeted: a broker that a thousand clients
// dial at once lets some of them wait at the door, which is another thing to measure.
func onConnections(ctx context.Context, addrs []string, run func(ctx context.Context, i int, conn net.Conn, began time.Time) ([]time.Duration, error)) ([]time.Duration, time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conns, err := connect(ctx, addrs)
	if err != nil {
		return nil, 0, err
	}
	var (
		wg       sync.WaitGroup
		measured = make([][]time.Duration, len(addrs))
		errs     = make([]error, len(addrs))
		began    = time.Now()
	)
	for i, conn := range conns {
		wg.Go(func() {
			measured[i], errs[i] = run(ctx, i, conn, began)
			conn.Close()
			if errs[i] != nil {
				cancel()
			}
		})
	}
	wg.Wait()
	took := time.Since(began)
	var all []time.Duration
	for _, m := range measured {
		all = append(all, m...)
	}
	return all, took, firstCause(errs)
}

// connect connects to all addresses, a few at a time.
func connect(ctx context.Context, addrs []string) ([]net.Conn, error) {
	var (
		wg    sync.WaitGroup
		conns = make([]net.Conn, len(addrs))
		errs  = make([]error, min(16, len(addrs)))
	)
	for w := range errs {
		wg.Go(func() {
			for i := w; i < len(addrs) && errs[w] == nil; i += len(errs) {
				conns[i], errs[w] = greet(ctx, addrs[i])
			}
		})
	}
	wg.Wait()
	err := firstCause(errs)
	if err != nil {
		for _, conn := range conns {
			if conn != nil {
				conn.Close()
			}
		}
	}
	return conns, err
}

// greet connects and asks for ApiVersions, as clients do first.
func greet(ctx context.Context, addr string) (net.Conn, error) {
	conn, err := dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	req := kmsg.NewPtrApiVersionsRequest()
	req.SetVersion(3)
	req.ClientSoftwareName, req.ClientSoftwareVersion = "moldau-bench", "1"
	if _, err = conn.Write(wire.AppendRequest(nil, 1, nil, req)); err == nil {
		_, err = wire.ReadFrame(conn, 1<<20, nil)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// firstCause prefers an error that is not the echo of another connection's: those see their connection closed.
func firstCause(errs []error) error {
	for _, err := range errs {
		if err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	return errors.Join(errs...)
}

// frameReader reads answers into one buffer.
type frameReader struct {
	r   *bufio.Reader
	buf []byte
}

func newFrameReader(conn net.Conn) *frameReader {
	return &frameReader{r: bufio.NewReaderSize(conn, 64<<10)}
}

// next returns a frame without its length; it is valid until the next call.
func (f *frameReader) next() ([]byte, error) {
	return wire.ReadFrame(f.r, 256<<20, func(n int) []byte {
		if len(f.buf) < n {
			f.buf = make([]byte, n)
		}
		return f.buf
	})
}
