package cli

import (
	"context"
	"errors"
	"time"
)

// readerLook is how often work without an end looks whether somebody still reads what it prints.
const readerLook = 500 * time.Millisecond

var errUnread = errors.New("nobody reads on")

// whileRead is ctx until nobody reads standard output any more, as behind `| head -3`. A write would find that out, but none comes as
// long as no record does. release waits for the goroutine that looks.
func (a *app) whileRead(parent context.Context) (ctx context.Context, release func()) {
	if a.pipe == nil {
		return parent, func() {}
	}
	ctx, cancel := context.WithCancelCause(parent)
	done := make(chan struct{})
	go func() {
		defer close(done)
		look := time.NewTicker(readerLook)
		defer look.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-look.C:
				if readerGone(a.pipe) {
					cancel(errUnread)
				}
			}
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-done
	}
}
