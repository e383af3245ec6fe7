package cli

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// noSuchTopic is what a cluster says of a topic that it does not have, or another error about that topic.
func noSuchTopic(topic string, err error) error {
	if !errors.Is(err, kerr.UnknownTopicOrPartition) {
		return fmt.Errorf("topic %s: %w", topic, err)
	}
	return fmt.Errorf("topic %q does not exist; `moldau topics --list` shows those that do (%w)", topic, &coded{kerr.UnknownTopicOrPartition})
}

// unread is why a partition cannot be read any further.
func unread(e kgo.FetchError) error {
	if errors.Is(e.Err, kerr.UnknownTopicID) {
		return deleted(e.Topic, "read", e.Err)
	}
	return fmt.Errorf("read %s-%d: %w", e.Topic, e.Partition, e.Err)
}

// deleted says that a topic ended under those who use it: what was known by its id is not there any more, whether or not there is
// another of its name by now.
func deleted(topic, used string, err error) error {
	var known *kerr.Error
	errors.As(err, &known)
	return fmt.Errorf("topic %s was deleted while it was %s (%w)", topic, used, &coded{known})
}
