package zookeeper

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/znode"
)

// version is what words say: the release of ZooKeeper whose answers these are.
const version = "3.4.14-moldau, built on 03/06/2019 16:18 GMT"

// word is what operators ask with four letters.
type word struct {
	local bool // the same on every node, whether or not the tree is served
	write func(*conn, *strings.Builder, znode.Survey)
}

var words = map[string]word{
	"ruok": {true, func(_ *conn, b *strings.Builder, _ znode.Survey) { b.WriteString("imok") }},
	"isro": {true, func(_ *conn, b *strings.Builder, _ znode.Survey) { b.WriteString("rw") }},
	"conf": {true, (*conn).conf},
	"envi": {true, (*conn).envi},
	"srvr": {false, (*conn).srvr},
	"stat": {false, (*conn).stat},
	"mntr": {false, (*conn).mntr},
	"cons": {false, (*conn).cons},
	"dump": {false, (*conn).dump},
	"wchs": {false, (*conn).wchs},
}

// wordPatience is how long the tree may take for an answer to a word, and a client to read it.
const wordPatience = 5 * time.Second

// surveySlots is how many may be told of the whole tree at a time: four letters ask for a list that may have a million lines.
const surveySlots = 4

// tell answers a word, after which the connection ends.
func (c *conn) tell(w word, asked []byte) {
	if w.local {
		c.answer(w, znode.Survey{})
		return
	}
	err := c.route(asked, func() error {
		ctx, cancel := context.WithTimeout(c.ctx, wordPatience)
		defer cancel()
		select {
		case c.s.surveys <- struct{}{}:
			defer func() { <-c.s.surveys }()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		survey, err := c.survey(ctx)
		if err == nil {
			c.answer(w, survey)
		}
		return err
	})
	if err != nil {
		c.say("This ZooKeeper instance is not currently serving requests\n")
	}
}

func (c *conn) answer(w word, survey znode.Survey) {
	var b strings.Builder
	w.write(c, &b, survey)
	c.say(b.String())
}

func (c *conn) say(text string) {
	defer time.AfterFunc(wordPatience, c.cut).Stop()
	_, _ = c.nc.Write([]byte(text)) // whoever is gone does not miss it
}

// survey asks the tree, if it is served here.
func (c *conn) survey(ctx context.Context) (znode.Survey, error) {
	p := c.s.o.Tree.Survey()
	<-p.Given()
	if committed := p.Committed(); committed != nil {
		select {
		case <-committed:
		case <-ctx.Done():
			return znode.Survey{}, context.Cause(ctx)
		}
	}
	return p.Answer()
}

func (c *conn) conf(b *strings.Builder, _ znode.Survey) {
	o := c.s.o
	port := ""
	if at := strings.LastIndexByte(c.nc.LocalAddr().String(), ':'); at >= 0 {
		port = c.nc.LocalAddr().String()[at+1:]
	}
	fmt.Fprintf(b, "clientPort=%s\ntickTime=%d\nmaxClientCnxns=0\nminSessionTimeout=%d\nmaxSessionTimeout=%d\nserverId=%d\n",
		port, o.MinTimeoutMs/2, o.MinTimeoutMs, o.MaxTimeoutMs, o.NodeID)
}

func (c *conn) envi(b *strings.Builder, _ znode.Survey) {
	fmt.Fprintf(b, "Environment:\nzookeeper.version=%s\nos.name=%s\nos.arch=%s\n", version, runtime.GOOS, runtime.GOARCH)
}

// srvr is stat without the connections.
func (c *conn) srvr(b *strings.Builder, survey znode.Survey) {
	fmt.Fprintf(b, "Zookeeper version: %s\n", version)
	c.summary(b, survey)
}

func (c *conn) stat(b *strings.Builder, survey znode.Survey) {
	fmt.Fprintf(b, "Zookeeper version: %s\nClients:\n", version)
	for _, each := range c.s.connections() {
		fmt.Fprintf(b, " /%s[%d](queued=0,recved=%d,sent=%d)\n", each.remote, boolean(each.session.Load() != 0), each.received.Load(), each.sent.Load())
	}
	b.WriteString("\n")
	c.summary(b, survey)
}

func (c *conn) summary(b *strings.Builder, survey znode.Survey) {
	average, longest := c.latency()
	fmt.Fprintf(b, "Latency min/avg/max: 0/%d/%d\nReceived: %d\nSent: %d\nConnections: %d\nOutstanding: 0\nZxid: 0x%x\nMode: %s\nNode count: %d\n",
		average, longest, c.s.counts.received.Load(), c.s.counts.sent.Load(), len(c.s.connections()), survey.Zxid, c.mode(), survey.Nodes)
}

// latency is in ms.
func (c *conn) latency() (average, longest int64) {
	n := &c.s.counts
	if answers := n.answers.Load(); answers > 0 {
		average = n.latency.Load() / answers / 1000
	}
	return average, n.longest.Load() / 1000
}

// mode is what the node is that was asked.
func (c *conn) mode() string {
	switch {
	case c.by != kafka.NoNode:
		return "follower"
	case c.s.alone():
		return "standalone"
	}
	return "leader"
}

// alone reports whether this is the only broker.
func (s *Server) alone() bool {
	for id := range s.o.Image().Cluster.Brokers() {
		if id != s.o.NodeID {
			return false
		}
	}
	return true
}

func (c *conn) mntr(b *strings.Builder, survey znode.Survey) {
	average, longest := c.latency()
	for _, line := range []struct {
		name  string
		value any
	}{
		{"version", version},
		{"avg_latency", average},
		{"max_latency", longest},
		{"min_latency", 0},
		{"packets_received", c.s.counts.received.Load()},
		{"packets_sent", c.s.counts.sent.Load()},
		{"num_alive_connections", len(c.s.connections())},
		{"outstanding_requests", 0},
		{"server_state", c.mode()},
		{"znode_count", survey.Nodes},
		{"watch_count", survey.Watches},
		{"ephemerals_count", survey.Ephemerals},
		{"approximate_data_size", survey.Bytes},
	} {
		fmt.Fprintf(b, "zk_%s\t%v\n", line.name, line.value)
	}
}

func (c *conn) cons(b *strings.Builder, survey znode.Survey) {
	sessions := make(map[int64]znode.SessionSurvey, len(survey.Sessions))
	for _, each := range survey.Sessions {
		sessions[each.ID] = each
	}
	for _, each := range c.s.connections() {
		fmt.Fprintf(b, " /%s[%d](queued=0,recved=%d,sent=%d", each.remote, boolean(each.session.Load() != 0), each.received.Load(), each.sent.Load())
		if session, ok := sessions[each.session.Load()]; ok {
			fmt.Fprintf(b, ",sid=0x%x,est=%d,to=%d", session.ID, session.Since.UnixMilli(), session.TimeoutMs)
		}
		b.WriteString(")\n")
	}
	b.WriteString("\n")
}

func boolean(v bool) int {
	if v {
		return 1
	}
	return 0
}

func (c *conn) dump(b *strings.Builder, survey znode.Survey) {
	fmt.Fprintf(b, "SessionTracker dump:\nSession Sets (%d):\n", len(survey.Sessions))
	owners := 0
	for _, each := range survey.Sessions {
		fmt.Fprintf(b, "\t0x%x\n", each.ID)
		owners += boolean(len(each.Ephemerals) > 0)
	}
	fmt.Fprintf(b, "ephemeral nodes dump:\nSessions with Ephemerals (%d):\n", owners)
	for _, each := range survey.Sessions {
		if len(each.Ephemerals) == 0 {
			continue
		}
		fmt.Fprintf(b, "0x%x:\n", each.ID)
		for _, path := range each.Ephemerals {
			fmt.Fprintf(b, "\t%s\n", path)
		}
	}
}

func (c *conn) wchs(b *strings.Builder, survey znode.Survey) {
	watching := 0
	for _, each := range survey.Sessions {
		watching += boolean(each.Watches > 0)
	}
	fmt.Fprintf(b, "%d connections watching %d paths\nTotal watches:%d\n", watching, survey.Watched, survey.Watches)
}
