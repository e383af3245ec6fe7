package controller

import "time"

// check is something that the loop looks at from time to time while it leads.
type check struct {
	interval time.Duration      // 0: never
	run      func() (more bool) // more: again at once, after whatever else waits

	timer      *time.Timer // nil: never armed
	generation int64       // tells a timer that was on its way when another was armed
}

// due says that a check's time has come.
type due struct {
	check      *check
	generation int64
}

func (l *loop) newChecks() []*check {
	ms := func(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
	return []*check{
		{interval: ms(l.c.o.Config.BalanceIntervalMs), run: l.balance},
		{interval: ms(l.c.o.Config.ReviveIntervalMs), run: l.revive},
	}
}

func (l *loop) arm(k *check, in time.Duration) {
	k.disarm()
	if k.interval <= 0 {
		return
	}
	k.generation++
	e := due{k, k.generation}
	k.timer = time.AfterFunc(in, func() { l.c.post(e) })
}

func (k *check) disarm() {
	if k.timer != nil {
		k.timer.Stop()
	}
}

func (l *loop) check(e due) {
	if !l.leading || e.generation != e.check.generation {
		return
	}
	next := e.check.interval
	if e.check.run() {
		next = 0
	}
	if l.leading {
		l.arm(e.check, next)
	}
}

// balance moves leadership back to preferred replicas.
func (l *loop) balance() (more bool) {
	records := l.state().preferLeaders(maxElections)
	if len(records) == 0 {
		return false
	}
	l.log.Info("moving leadership back to preferred replicas", "partitions", len(records))
	return l.follow(records) && len(records) == maxElections
}

// revive elects leaders where there are none and settings allow it. Decisions that make it possible do it at once; this is
// for those whose sequel the log refused.
func (l *loop) revive() (more bool) {
	l.follow(l.state().revive())
	return false
}
