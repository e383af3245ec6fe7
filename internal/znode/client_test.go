package znode

import (
	"testing"
	"testing/synctest"
)

// One at a time passes on what a client is told. Whoever asked looks himself and is not woken; nothing is left behind when two meet.
func TestPassingOn(t *testing.T) {
	inWorld(t, func(w *world) {
		told := func(c *caller) bool {
			select {
			case <-c.Ready():
				return true
			default:
				return false
			}
		}
		a, b := w.call("a", Connect{TimeoutMs: 40000}), w.call("b", Connect{TimeoutMs: 40000})
		synctest.Wait()
		if told(a) {
			t.Error("the caller of Connect is told of its answer")
		}
		a.do(Create{Path: "/x", ACL: open()})
		a.do(Exists{Path: "/x", Watch: true})
		if told(a) {
			t.Error("the caller of Do is told of its answer")
		}
		if !a.Take() || a.Take() {
			t.Fatal("the right to pass on is not one that one has")
		}
		if a.Next() != nil {
			t.Fatal("something is left")
		}
		b.do(Delete{"/x", -1})
		if told(a) {
			t.Error("who passes on is told, although he looks")
		}
		event := a.Next()
		if event == nil {
			t.Fatal("the event is not there for who passes on")
		}
		a.Yield(event)
		if !told(a) {
			t.Error("nobody is told of what is left")
		}
		if !a.Take() || a.Next() != event || a.Next() != nil {
			t.Error("what was left is not the next")
		}
		b.do(Create{Path: "/y", ACL: open()})
		a.do2(7, Exists{Path: "/y", Watch: true})
		b.do(Delete{"/y", -1})
		a.Yield(nil) // the event has come since he last looked
		if !told(a) || !a.Take() || a.Next() == nil {
			t.Error("an event that came before the right was given back is lost")
		}
		a.Yield(nil)
		if told(a) {
			t.Error("somebody is told of nothing")
		}
	})
}
