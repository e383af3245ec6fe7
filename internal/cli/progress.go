package cli

import (
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// progressDelay is how long work goes on before its progress is shown.
const progressDelay = time.Second

// progress shows on a terminal how far work is that takes longer than progressDelay. Its methods may be called on nil,
// which shows nothing, and add from any goroutine.
type progress struct {
	bars    *mpb.Progress
	bar     *mpb.Bar
	count   atomic.Int64
	stop    chan struct{}
	ending  sync.Once
	stopped sync.WaitGroup
}

// progressUnit is what work counts.
type progressUnit int

const (
	countUnit progressUnit = iota
	byteUnit               // shown as KiB, MiB, …
)

// progress begins to count up to total, if there is a person who could watch: standard error is a terminal, and results are
// not for a program. A total of 0 is unknown. Whoever begins it calls done.
func (a *app) progress(json bool, name string, total int64, unit progressUnit) *progress {
	a.waiting.done()
	if !a.watched || json {
		return nil
	}
	delay := make(chan any)
	timer := time.AfterFunc(progressDelay, func() { close(delay) })
	p := &progress{bars: mpb.New(mpb.WithOutput(a.screen), mpb.WithWidth(80), mpb.WithRenderDelay(delay), mpb.WithAutoRefresh()), stop: make(chan struct{})}
	counters := decor.CountersNoUnit("%d / %d", decor.WCSyncSpace)
	if unit == byteUnit {
		counters = decor.CountersKibiByte("% .1f / % .1f", decor.WCSyncSpace)
	}
	title := decor.Name(name)
	if total > 0 {
		p.bar = p.bars.AddBar(total, mpb.PrependDecorators(title, counters), mpb.AppendDecorators(decor.Percentage(), decor.Name(" "), decor.AverageETA(decor.ET_STYLE_GO)))
	} else {
		p.bar = p.bars.AddSpinner(0, mpb.PrependDecorators(title), mpb.AppendDecorators(decor.Elapsed(decor.ET_STYLE_GO)))
	}
	p.stopped.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				p.bar.SetCurrent(p.count.Load())
			case <-p.stop:
				timer.Stop()
				return
			}
		}
	})
	return p
}

// add counts n more.
func (p *progress) add(n int64) {
	if p != nil {
		p.count.Add(n)
	}
}

// done takes the bar off the terminal. It may be called again.
func (p *progress) done() {
	if p == nil {
		return
	}
	p.ending.Do(func() {
		close(p.stop)
		p.stopped.Wait()
		p.bar.Abort(true)
		p.bars.Wait()
	})
}

// printed is standard output or standard error of an invocation: what is said takes away what was shown for lack of it.
type printed struct {
	io.Writer
	app *app
}

func (o printed) Write(p []byte) (int, error) {
	o.app.waiting.done()
	return o.Writer.Write(p)
}

// lines is where whole lines go that are printed while the bar is there: above it when w is a terminal too.
func (p *progress) lines(a *app, w io.Writer) io.Writer {
	if p == nil || !a.terminal {
		return w
	}
	return p.bars
}
