package api

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/wire"
)

// TestTimedOutSaysWhy: a request for which no controller was there in time is told so, and one that a controller had and did not answer
// in time is not.
func TestTimedOutSaysWhy(t *testing.T) {
	for text, err := range map[string]error{
		"a majority of the controllers has to run": fmt.Errorf("%w: %w", context.DeadlineExceeded, kerr.NotController),
		kerr.RequestTimedOut.Description:           fmt.Errorf("CreateTopics: %w", context.DeadlineExceeded),
		kerr.TopicAlreadyExists.Description:        kerr.TopicAlreadyExists,
	} {
		got := timedOut(err)
		if message := wire.Message(got); message == nil || !strings.Contains(*message, text) {
			t.Errorf("%v is told as %v, want %q", err, got, text)
		}
	}
}
