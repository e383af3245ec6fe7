package main

import (
	"bufio"
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"moldau/internal/wire"
)

// The versions that the replayer speaks: those of a client of Apache Kafka 4.4, with topic ids.
const (
	produceVersion = 13
	fetchVersion   = 17
)

// onConnections runs one function on a connection to each of some addresses at a time, until all return or one fails, and
// joins what they measured.
func onConnections(ctx context.Context, addrs []string, run func(ctx context.Context, i int, conn net.Conn) ([]time.Duration, error)) ([]time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		wg       sync.WaitGroup
		measured = make([][]time.Duration, len(addrs))
		errs     = make([]error, len(addrs))
	)
	for i, addr := range addrs {
		wg.Go(func() {
			conn, err := dial(ctx, addr)
			if err == nil {
				measured[i], err = run(ctx, i, conn)
				conn.Close()
			}
			if errs[i] = err; err != nil {
				cancel()
			}
		})
	}
	wg.Wait()
	var all []time.Duration
	for _, m := range measured {
		all = append(all, m...)
	}
	return all, firstCause(errs)
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
