package wire

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
)

// toKafka returns the Kafka error that err is or stands for, nil for nil.
func toKafka(err error) *kerr.Error {
	if err == nil {
		return nil
	}
	if k, ok := errors.AsType[*kerr.Error](err); ok {
		return k
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return kerr.RequestTimedOut
	}
	return kerr.UnknownServerError
}

// Code returns the error code to put on the wire: that of the kerr value in the chain of err, 0 for nil,
// REQUEST_TIMED_OUT for a context's deadline, UNKNOWN_SERVER_ERROR for anything else.
func Code(err error) int16 {
	if k := toKafka(err); k != nil {
		return k.Code
	}
	return 0
}

// Message returns the text that goes with Code(err), nil for nil. The text of an error that is not Kafka's stays here: it
// may name paths and addresses, and the log has it.
func Message(err error) *string {
	k := toKafka(err)
	if k == nil {
		return nil
	}
	text := k.Description
	if k != kerr.UnknownServerError && err != error(k) {
		text = err.Error()
	}
	return &text
}
