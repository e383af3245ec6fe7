package coordinator

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Fault is what a client is told of an error of the log under a shard: whether to look for another coordinator, to ask
// again, or to give up. Mirrors CoordinatorOperationExceptionHelper.handleOperationException.
func Fault(err error) error {
	for _, f := range []struct{ is, say error }{
		{kerr.UnknownTopicOrPartition, kerr.CoordinatorNotAvailable},
		{kerr.NotEnoughReplicas, kerr.CoordinatorNotAvailable},
		{kerr.RequestTimedOut, kerr.CoordinatorNotAvailable},
		{context.DeadlineExceeded, kerr.CoordinatorNotAvailable},
		{kerr.NotLeaderForPartition, kerr.NotCoordinator},
		{kerr.FencedLeaderEpoch, kerr.NotCoordinator},
		{kerr.UnknownLeaderEpoch, kerr.NotCoordinator},
		{kerr.KafkaStorageError, kerr.NotCoordinator},
		{kerr.MessageTooLarge, kerr.UnknownServerError},
	} {
		if errors.Is(err, f.is) {
			return f.say
		}
	}
	return err
}
