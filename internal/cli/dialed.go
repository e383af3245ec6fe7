package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// dialed dials a client's connections and remembers how it went, so that a failure can be told in terms of addresses.
type dialed struct {
	seeds   []string
	timeout time.Duration

	mu       sync.Mutex
	failed   map[string]error // the last failure by address; taken out when a later try succeeds
	answered map[string]bool  // addresses that took a connection
	told     io.Writer        // where failures are told as they come; nil: only explain tells
	telling  map[string]bool  // addresses whose failure was told, until they take a connection
}

func (d *dialed) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: d.timeout}).DialContext(ctx, network, address)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failed == nil {
		d.failed, d.answered = make(map[string]error), make(map[string]bool)
	}
	if err != nil {
		// A try that the caller cut off says nothing that an earlier one has not said. The dialer sees a deadline before ctx does.
		deadline, ok := ctx.Deadline()
		cut := ctx.Err() != nil || ok && !time.Now().Before(deadline)
		if !cut || d.failed[address] == nil && !d.answered[address] {
			d.failed[address] = err
		}
		if !cut {
			d.tellLocked(address)
		}
		return nil, err
	}
	delete(d.failed, address)
	delete(d.telling, address)
	d.answered[address] = true
	return conn, nil
}

// tell has failures told as they come, for work that has no end at which they could be.
func (d *dialed) tell(w io.Writer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.told, d.telling = w, make(map[string]bool)
	for _, address := range sortedKeys(d.failed) {
		d.tellLocked(address)
	}
}

func (d *dialed) tellLocked(address string) {
	if d.told == nil || d.telling[address] {
		return
	}
	d.telling[address] = true
	who := ""
	if !slices.Contains(d.seeds, address) {
		who = ", which the cluster advertises"
	}
	fmt.Fprintf(d.told, "moldau: warning: cannot reach %s%s: %s; trying again\n", address, who, reason(d.failed[address]))
}

// explain turns an error that comes from the way to the cluster into one that says which address was tried, what
// answered, and what to check. Other errors it returns as they are.
func (d *dialed) explain(err error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !onTheWay(err) {
		return err
	}
	var b strings.Builder
	advertised := false
	for _, address := range sortedKeys(d.failed) {
		if slices.Contains(d.seeds, address) {
			fmt.Fprintf(&b, "\n  %s: %s", address, reason(d.failed[address]))
		} else {
			advertised = true
			fmt.Fprintf(&b, "\n  %s, which the cluster advertises: %s", address, reason(d.failed[address]))
		}
	}
	for _, address := range sortedKeys(d.answered) {
		if d.failed[address] == nil && slices.Contains(d.seeds, address) && !advertised {
			fmt.Fprintf(&b, "\n  %s: %s", address, silence(err))
		}
	}
	check := "Check that a node runs there (`moldau` starts one here) and that --bootstrap-server is one of its listeners."
	if advertised {
		check = "Check advertised.listeners of that broker: clients have to reach what it says. `moldau doctor` tries every address."
	}
	return &failure{exitUnreachable, fmt.Errorf("cannot reach the cluster; tried%s\n%s", &b, check)}
}

// onTheWay tells whether an error is about connections and not an answer.
func onTheWay(err error) bool {
	var op *net.OpError
	var eof *kgo.ErrFirstReadEOF
	return errors.As(err, &op) || errors.As(err, &eof) || errors.Is(err, io.EOF) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, syscall.ECONNRESET) || strings.Contains(err.Error(), "invalid large response size")
}

// reason is why a dial failed, in words that help.
func reason(err error) string {
	var dns *net.DNSError
	var op *net.OpError
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return "no such host"
	case dns != nil:
		return "its name cannot be looked up: " + dns.Err
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused: nothing listens on that port"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "no route to that host"
	case errors.As(err, &op) && op.Timeout():
		return "no answer to the connection: a firewall, or a machine that is down"
	}
	return err.Error()
}

// silence is what a program that took the connection did instead of answering.
func silence(err error) string {
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return "took the connection and then did not answer: not Kafka, or a broker that hangs"
	case strings.Contains(err.Error(), "invalid large response size"):
		return "answered, but not as Kafka does: a web server, or a listener that wants TLS"
	}
	return "took the connection and closed it: not Kafka, a controller's listener, or one that wants TLS or SASL"
}
