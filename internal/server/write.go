package server

import "io"

// gatherBytes is from how many bytes on answers do not wait for others to go out with.
const gatherBytes = 32 << 10

// pending is a request whose reply has not left yet.
type pending struct {
	req   *Request
	reply Reply
}

// ready reports whether the reply can be told without waiting.
func (p *pending) ready() bool {
	return p.reply.Response != nil || p.reply.Ready != nil && p.reply.Ready()
}

// response returns the answer, waiting for it if it is not ready. It is called when the connection is gone too, and is short
// then, because whoever waits has things to let go of.
func (p *pending) response() Response {
	if p.reply.Response != nil {
		return p.reply.Response
	}
	return p.reply.Wait()
}

// enqueue sends a reply, or queues it when it is not ready or not the first in line. Called by the reader only.
func (c *Conn) enqueue(p pending) error {
	q := &c.queue
	q.mu.Lock()
	writing := q.writing
	q.mu.Unlock()
	switch {
	case p.reply.None:
		c.done(p.req)
	case !writing && p.reply.Response != nil:
		// Nothing is waiting and only the reader starts the writer, so the connection is ours to write to.
		if err := c.send(p.reply.Response); err != nil {
			return err
		}
		c.done(p.req)
	case q.add(p):
		c.srv.running.Add(1) // the reader is counted, so Stop cannot have seen zero
		go c.write()
	}
	if p.reply.Close {
		return refuse("%s", p.reply.Reason)
	}
	return nil
}

// add puts a request at the end. It reports whether the writer is to be started.
func (q *queue) add(p pending) (start bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.first > 0 && len(q.waiting) == cap(q.waiting) {
		left := copy(q.waiting, q.waiting[q.first:])
		clear(q.waiting[left:])
		q.waiting, q.first = q.waiting[:left], 0
	}
	q.waiting = append(q.waiting, p)
	q.held += p.req.Size
	start = !q.writing
	q.writing = true
	return start
}

// next returns the oldest but n. If there is none at all the writer has ended.
func (q *queue) next(n int) (p pending, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if at := q.first + n; at < len(q.waiting) {
		return q.waiting[at], true
	}
	if n == 0 {
		q.waiting, q.first = q.waiting[:0], 0
		q.writing = false
	}
	return pending{}, false
}

// remove takes the oldest out.
func (q *queue) remove() *Request {
	q.mu.Lock()
	defer q.mu.Unlock()
	r := q.waiting[q.first].req
	q.waiting[q.first] = pending{}
	q.first++
	q.held -= r.Size
	return r
}

// writeLoop writes the queue's replies in order until there are none. Answers that are ready together go out together: a
// write costs about as much as all else that is done for a small request.
func (c *Conn) writeLoop() {
	defer c.srv.running.Done()
	o := &c.out
	for {
		gathered := o.answers
		p, ok := c.queue.next(gathered)
		switch {
		case gathered > 0 && (!ok || !p.ready()):
			o.flush() // meanwhile there may be more
		case !ok:
			c.moved() // the outbox is the next writer's by now
			return
		default:
			o.add(p.response())
		}
	}
}

// outbox gathers the answers to the oldest requests of a queue. It is the writer's.
type outbox struct {
	c       *Conn
	frame   *frame // nil while there are none
	answers int
}

func (o *outbox) add(resp Response) {
	k, ok := resp.(*KResponse)
	if !ok { // it writes itself
		o.flush()
		o.c.settle(1, o.c.send(resp))
		return
	}
	if o.frame == nil {
		o.frame = o.c.srv.frames.get(smallestFrame)
		o.frame.buf = o.frame.buf[:0]
	}
	o.frame.buf = k.appendTo(o.frame.buf)
	if o.answers++; len(o.frame.buf) >= gatherBytes {
		o.flush()
	}
}

// flush sends what there is.
func (o *outbox) flush() {
	if o.answers == 0 {
		return
	}
	o.c.settle(o.answers, o.c.send(o))
	o.c.srv.frames.put(o.frame)
	o.frame, o.answers = nil, 0
}

// WriteTo writes what has been gathered, in one Write.
func (o *outbox) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(o.frame.buf)
	return int64(n), err
}

// settle ends the oldest n requests, whose answers have been sent, or dropped for err.
func (c *Conn) settle(n int, err error) {
	if err != nil {
		c.cut(err)
	}
	for range n {
		r := c.queue.remove()
		if err == nil {
			c.done(r)
		} else {
			r.finish()
		}
	}
	c.moved()
}

// done ends a request that has been answered.
func (c *Conn) done(r *Request) {
	r.route.metrics.done(c.srv.now().Sub(r.Received))
	r.finish()
}

// send writes an answer, unless the connection is gone.
func (c *Conn) send(resp Response) error {
	defer release(resp)
	if err := c.ctx.Err(); err != nil {
		return err
	}
	c.active()
	pieces := inPieces(resp)
	if pieces {
		c.cork()
	}
	n, err := resp.WriteTo(c.nc)
	if pieces {
		c.uncork()
	}
	c.srv.meters.bytesOut.Add(float64(n))
	if err == nil {
		c.active()
	}
	return err
}

// moved tells the reader that the queue is shorter.
func (c *Conn) moved() {
	select {
	case c.queue.moved <- struct{}{}:
	default:
	}
}

// awaitRoom returns when one more request may be read.
func (c *Conn) awaitRoom() error {
	for {
		q := &c.queue
		q.mu.Lock()
		n := len(q.waiting) - q.first
		room := n == 0 || n < c.srv.limits.MaxUnanswered && q.held < c.srv.limits.MaxHeldBytes
		closed := q.closed
		q.mu.Unlock()
		switch {
		case closed:
			return errStopReading
		case room:
			return nil
		}
		<-q.moved
	}
}

// awaitReplies returns when every reply has been written or dropped and the writer is gone.
func (c *Conn) awaitReplies() {
	for {
		c.queue.mu.Lock()
		writing := c.queue.writing
		c.queue.mu.Unlock()
		if !writing {
			return
		}
		<-c.queue.moved
	}
}
