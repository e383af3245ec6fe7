package znode

import (
	"maps"
	"slices"
	"time"

	"moldau/internal/coordinator"
)

// Survey is what operators ask of the tree.
type Survey struct {
	Zxid       int64
	Nodes      int
	Ephemerals int
	Bytes      int64 // of paths and data
	Watches    int
	Watched    int // paths
	Sessions   []SessionSurvey
}

// SessionSurvey is one session, with or without a connection.
type SessionSurvey struct {
	ID         int64
	TimeoutMs  int32
	Ephemerals []string
	Remote     string    // "": it has no connection
	Since      time.Time // of the connection
	Watches    int       // paths
}

// Survey looks at the tree; the promise fails where it is not served.
func (c *Coordinator) Survey() *coordinator.Promise[Survey] {
	p := coordinator.NewPromise[Survey]()
	if err := c.turn(func(s *shard, t *coordinator.Turn) { p.Give(t, s.survey()) }); err != nil {
		return coordinator.Broken[Survey](err)
	}
	return p
}

func (s *shard) survey() Survey {
	out := Survey{Zxid: s.zxid, Nodes: len(s.tree.nodes), Bytes: s.tree.bytes}
	for _, table := range []watchTable{s.watches.data, s.watches.child} {
		out.Watched += len(table)
		for _, clients := range table {
			out.Watches += len(clients)
		}
	}
	for _, ses := range s.sortedSessions() {
		one := SessionSurvey{ID: ses.id, TimeoutMs: ses.timeoutMs, Ephemerals: slices.Sorted(maps.Keys(ses.ephemerals))}
		if c := ses.client; c != nil {
			one.Remote, one.Since, one.Watches = c.remote, c.since, len(c.watched)
		}
		out.Ephemerals += len(ses.ephemerals)
		out.Sessions = append(out.Sessions, one)
	}
	return out
}
