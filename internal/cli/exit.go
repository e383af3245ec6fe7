package cli

import (
	"errors"
	"net"

	"moldau/internal/config"
	"moldau/internal/node"
	"moldau/internal/vfs"
)

// Exit codes of the process. Scripts rely on them.
const (
	exitOK      = 0
	exitFailure = 1 // something failed while running
	exitUsage   = 2 // wrong flags or arguments
	exitConfig  = 3 // the configuration is invalid
	exitData    = 4 // a data directory is damaged or another node's, or another process has it
	exitBind    = 5 // cannot listen on an address

	exitUnreachable = 6   // no broker answers
	exitInterrupted = 130 // a signal came before the work was done, as shells count it
)

// failure is an error whose exit code is known where it arises.
type failure struct {
	code int
	err  error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// exitCode finds the code for an error from anywhere below.
func exitCode(err error) int {
	var f *failure
	var faults config.Faults
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &f):
		return f.code
	case listening(err) != nil:
		return exitBind
	case errors.As(err, &faults):
		return exitConfig
	case errors.Is(err, vfs.ErrLocked), errors.Is(err, node.ErrData):
		return exitData
	default:
		return exitFailure
	}
}

// listening returns the failure to listen in err, if that is what it is.
func listening(err error) *net.OpError {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "listen" {
		return op
	}
	return nil
}
