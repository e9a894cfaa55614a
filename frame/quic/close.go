package quic

import "time"

// CloseWrite ends our streams: the peer reads io.EOF behind what was written. It
// waits for a Write under way.
func (c *conn) CloseWrite() error {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.endStreams(func(*stream) bool { return true })
	return nil
}

// endStreams ends the streams chosen, in our direction. It is called with writing
// held.
func (c *conn) endStreams(chosen func(*stream) bool) {
	var now []*stream
	c.mu.Lock()
	all, open := true, false
	for _, s := range c.streams {
		open = open || !s.ended
		switch {
		case s.closed:
		case chosen(s):
			s.closed = true
			now = append(now, s)
		default:
			all = false
		}
	}
	if all && len(now) > 0 {
		c.farewell, c.first = true, open
	}
	c.mu.Unlock()
	for _, s := range now {
		s.s.Close()
	}
}

// Close ends our streams, waits for the peer to do the same, at most lingerTimeout,
// and closes the connection. Where the peer broke it, that is an orderly end only
// if CloseWrite came before. Reading and writing fail from now on. None of our
// goroutines is left when it returns. It is idempotent.
func (c *conn) Close() error {
	c.shut.Do(func() { close(c.closing) })
	c.end.Do(func() {
		c.mu.Lock()
		c.setWriteDeadline(time.Unix(1, 0)) // a Write under way ends
		broken, farewell := c.broken, c.farewell
		c.mu.Unlock()
		if broken == nil {
			c.CloseWrite()
		}
		if broken == nil || farewell {
			c.linger()
		}
		c.hangUp(codeOf(broken), broken)
		c.running.Wait()
		c.rd.set(time.Time{})
		c.wr.set(time.Time{})
		c.socket.release()
	})
	return nil
}

// linger gives the peer time to read what we wrote: closing the connection throws
// away what is under way. Of the two sides, the one that ended its streams first
// closes, once the other has done so too; that one waits for it.
func (c *conn) linger() {
	timer := time.NewTimer(lingerTimeout)
	defer timer.Stop()
	for {
		c.mu.Lock()
		open, first, changed := false, c.first, c.changed
		for _, s := range c.streams {
			open = open || !s.ended
		}
		none := len(c.streams) == 0
		c.mu.Unlock()
		if none || first && !open {
			return
		}
		select {
		case <-changed:
		case <-c.qc.Context().Done():
			return
		case <-timer.C:
			return
		}
	}
}

// Cut implements association.Streams.
func (c *conn) Cut() {
	c.shut.Do(func() { close(c.closing) })
	c.mu.Lock()
	code, broken := codeOf(c.broken), c.broken
	c.mu.Unlock()
	if code == codeOrderly {
		code = codeCut
	}
	c.hangUp(code, broken)
}
