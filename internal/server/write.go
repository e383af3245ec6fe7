package server

import "time"

// pending is a request whose reply has not left yet.
type pending struct {
	frame    *frame
	size     int // bytes of the request
	route    *served
	received time.Time
	reply    Reply
}

// enqueue sends a reply, or queues it when it is not ready or not the first in line. Called by the reader only.
func (c *Conn) enqueue(p pending) error {
	q := &c.queue
	if p.reply.None {
		c.srv.frames.put(p.frame)
		p.route.metrics.done(c.srv.now().Sub(p.received))
		if p.reply.Close {
			return refuse("%s", p.reply.Reason)
		}
		return nil
	}
	q.mu.Lock()
	if !q.writing && p.reply.Response != nil {
		q.mu.Unlock()
		// Nothing is waiting and only the reader starts the writer, so the connection is ours to write to.
		if err := c.write(p); err != nil {
			return err
		}
	} else {
		q.waiting = append(q.waiting, p)
		q.held += p.size
		start := !q.writing
		q.writing = true
		q.mu.Unlock()
		if start {
			c.srv.running.Add(1) // the reader is counted, so Stop cannot have seen zero
			go func() {
				defer c.srv.running.Done()
				c.writeLoop()
			}()
		}
	}
	if p.reply.Close {
		return refuse("%s", p.reply.Reason)
	}
	return nil
}

// writeLoop writes the queue's replies in order until there are none.
func (c *Conn) writeLoop() {
	q := &c.queue
	for {
		q.mu.Lock()
		if q.first == len(q.waiting) {
			clear(q.waiting)
			q.waiting, q.first = q.waiting[:0], 0
			q.writing = false
			q.mu.Unlock()
			c.moved()
			return
		}
		p := q.waiting[q.first]
		q.mu.Unlock()
		if err := c.write(p); err != nil {
			c.cut(err)
		}
		q.mu.Lock()
		q.waiting[q.first] = pending{}
		q.first++
		q.held -= p.size
		q.mu.Unlock()
		c.moved()
	}
}

// write sends one reply, waiting for it first if it is not ready. When the connection is gone it waits all the same,
// which is short then, because whoever waits has things to let go of.
func (c *Conn) write(p pending) error {
	resp := p.reply.Response
	if resp == nil {
		resp = p.reply.Wait()
	}
	defer c.srv.frames.put(p.frame)
	defer release(resp)
	if err := c.ctx.Err(); err != nil {
		return err
	}
	c.active()
	n, err := resp.WriteTo(c.nc)
	c.srv.meters.bytesOut.Add(float64(n))
	if err != nil {
		return err
	}
	c.active()
	p.route.metrics.done(c.srv.now().Sub(p.received))
	return nil
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
