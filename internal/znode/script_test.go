package znode

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// TestScripts runs scripts of clients against a tree. The verbs, where C is a client's name:
//
//	connect C [timeout=6000] [of=CLIENT] [password=wrong] [seen=ZXID]   of: takes over the session of another
//	create C PATH [DATA] [ephemeral] [sequential] [stat] [acl=(PERMS:SCHEME:ID,…)|none]
//	delete C PATH [version=N], set C PATH DATA [version=N], check C PATH version=N
//	exists|get|ls C PATH [watch] [stat], acl C PATH, set-acl C PATH acl=(…) [version=N]
//	multi C                     one operation a line, as above without the client
//	set-watches C since=ZXID [data=(…)] [exist=(…)] [child=(…)]
//	auth C SCHEME TEXT, ping C, sync C PATH, close C, leave C
//	commit-offsets GROUP TOPIC:PARTITION:OFFSET…, fetch-offsets GROUP TOPIC:PARTITION…   of version 0, past all clients
//	sleep MS, gate close|open (syncs), restart, crash, resign, elect, tree, log
//
// After each verb everything is printed that clients were told, by client. Zxids are counted from the first that is not of
// the cluster's own nodes.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		inWorld(t, func(w *world) {
			s := &script{world: w, callers: map[string]*caller{}, sessions: map[string]Connected{}}
			w.Must(w.c.turn(func(sh *shard, _ *coordinator.Turn) { s.base = sh.zxid }))
			datadriven.RunTest(t, path, s.run)
		})
	})
}

type script struct {
	*world
	callers  map[string]*caller
	sessions map[string]Connected
	base     int64 // the last zxid of the cluster's own nodes
}

func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	var out strings.Builder
	switch d.Cmd {
	case "connect":
		s.connect(t, d, &out)
	case "sleep":
		var ms int
		_, err := fmt.Sscan(d.CmdArgs[0].Key, &ms)
		s.Must(err)
		time.Sleep(time.Duration(ms) * time.Millisecond)
	case "gate":
		if d.CmdArgs[0].Key == "close" {
			s.Gate.Close()
		} else {
			s.Gate.Open()
		}
	case "restart":
		s.Restart()
	case "crash":
		s.Crash(1, 0)
	case "resign":
		s.resign()
	case "elect":
		s.elect()
	case "tree":
		return s.tree()
	case "commit-offsets", "fetch-offsets":
		s.offsets(d, &out)
	case "leave":
		c := s.callers[d.CmdArgs[0].Key]
		c.Leave()
		delete(s.callers, c.name)
	default:
		c := s.callers[d.CmdArgs[0].Key]
		if c == nil {
			d.Fatalf(t, "no client %s", d.CmdArgs[0].Key)
		}
		c.xid++
		if err := c.Do(context.Background(), c.xid, s.op(t, d, d.Cmd, d.CmdArgs[1:])); err != nil {
			fmt.Fprintf(&out, "%s: not served: %v\n", c.name, err)
		}
	}
	synctest.Wait()
	s.told(&out)
	if out.Len() == 0 {
		return "nothing\n"
	}
	return out.String()
}

func (s *script) connect(t *testing.T, d *datadriven.TestData, out *strings.Builder) {
	req := Connect{TimeoutMs: 6000}
	d.MaybeScanArgs(t, "timeout", &req.TimeoutMs)
	d.MaybeScanArgs(t, "seen", &req.LastZxid)
	var of, password string
	if d.MaybeScanArgs(t, "of", &of); of != "" {
		session := s.sessions[of]
		req.SessionID, req.Password = session.SessionID, session.Password[:]
	}
	if d.MaybeScanArgs(t, "password", &password); password != "" {
		req.Password = []byte("0123456789abcdef")
	}
	name := d.CmdArgs[0].Key
	c := &caller{w: s.world, name: name, Client: s.c.Client("127.0.0.1:1", func() {})}
	if err := c.Connect(0, req); err != nil {
		fmt.Fprintf(out, "%s: not served: %v\n", name, err)
		return
	}
	s.callers[name] = c
}

func (s *script) op(t *testing.T, d *datadriven.TestData, verb string, args []datadriven.CmdArg) Op {
	var plain []string
	values := map[string][]string{}
	for _, a := range args {
		if len(a.Vals) > 0 {
			values[a.Key] = a.Vals
		} else {
			plain = append(plain, a.Key)
		}
	}
	has := func(word string) bool { return slices.Contains(plain, word) }
	path := ""
	if len(plain) > 0 {
		path = strings.Trim(plain[0], `"`)
	}
	version := int32(-1)
	if v := values["version"]; v != nil {
		_, err := fmt.Sscan(v[0], &version)
		s.Must(err)
	}
	acl := open()
	if v, ok := values["acl"]; ok {
		acl = []ACL{}
		for _, text := range v {
			if text == "none" {
				continue
			}
			parts := strings.SplitN(text, ":", 3)
			var perms int32
			_, err := fmt.Sscan(parts[0], &perms)
			s.Must(err)
			acl = append(acl, ACL{perms, ID{parts[1], parts[2]}})
		}
	}
	switch verb {
	case "create":
		op := Create{Path: path, ACL: acl, WithStat: has("stat")}
		if has("ephemeral") {
			op.Flags |= flagEphemeral
		}
		if has("sequential") {
			op.Flags |= flagSequential
		}
		if len(plain) > 1 && !slices.Contains([]string{"stat", "ephemeral", "sequential"}, plain[1]) {
			op.Data = []byte(plain[1])
		}
		return op
	case "delete":
		return Delete{path, version}
	case "set":
		return SetData{path, []byte(plain[1]), version}
	case "check":
		return Check{path, version}
	case "exists":
		return Exists{path, has("watch")}
	case "get":
		return GetData{path, has("watch")}
	case "ls":
		return GetChildren{path, has("watch"), has("stat")}
	case "acl":
		return GetACL{path}
	case "set-acl":
		return SetACL{path, acl, version}
	case "sync":
		return Sync{path}
	case "auth":
		return Auth{path, []byte(plain[1])}
	case "ping":
		return Ping{}
	case "close":
		return CloseSession{}
	case "set-watches":
		op := SetWatches{Data: values["data"], Exist: values["exist"], Child: values["child"]}
		_, err := fmt.Sscan(values["since"][0], &op.Since)
		s.Must(err)
		op.Since += s.base
		return op
	case "multi":
		var m Multi
		for line := range strings.Lines(d.Input) {
			verb, each, err := datadriven.ParseLine(strings.TrimSpace(line))
			s.Must(err)
			m.Ops = append(m.Ops, s.op(t, d, verb, each))
		}
		return m
	}
	d.Fatalf(t, "unknown verb %s", verb)
	return nil
}

// told prints what every client has been told.
func (s *script) told(out *strings.Builder) {
	for _, name := range slices.Sorted(maps.Keys(s.callers)) {
		c := s.callers[name]
		select {
		case <-c.Gone(): // nothing that it may not be told yet reaches it any more
			fmt.Fprintf(out, "%s: cut\n", name)
			c.Leave()
			delete(s.callers, name)
			continue
		default:
		}
		all, err := c.messages()
		for _, m := range all {
			if connected, ok := m.Answer.(Connected); ok && connected.SessionID != 0 {
				s.sessions[name] = connected
			}
			fmt.Fprintf(out, "%s: %s\n", name, s.describe(m))
			if m.Close {
				fmt.Fprintf(out, "%s: closed\n", name)
			}
		}
		if err != nil {
			fmt.Fprintf(out, "%s: lost: %v\n", name, err)
		}
	}
}

func (s *script) describe(m Message) string {
	if m.Zxid > 0 {
		m.Zxid -= s.base
	}
	if m.Code != OK {
		return fmt.Sprintf("%s zxid=%d", m.Code.Error(), m.Zxid)
	}
	var text string
	switch a := m.Answer.(type) {
	case Connected:
		if a.SessionID == 0 {
			return "expired"
		}
		return fmt.Sprintf("connected timeout=%d", a.TimeoutMs)
	case Event:
		return fmt.Sprintf("event %s %s", [...]string{1: "created", "deleted", "data changed", "children changed"}[a.Type], a.Path)
	case Stat:
		text = s.stats(a)
	case Content:
		text = fmt.Sprintf("%s %s", quoted(a.Data), s.stats(a.Stat))
	case Created:
		text = a.Path
		if a.Stat != nil {
			text += " " + s.stats(*a.Stat)
		}
	case ACLs:
		text = fmt.Sprint(a.ACL)
	case Children:
		text = fmt.Sprint(a.Names)
		if a.Stat != nil {
			text += " " + s.stats(*a.Stat)
		}
	case Synced:
		text = "synced " + a.Path
	case Results:
		var parts []string
		for _, r := range a.Each {
			part := r.Code.Error()
			switch each := r.Answer.(type) {
			case Created:
				part = each.Path
			case Stat:
				part = fmt.Sprintf("version=%d", each.Version)
			}
			parts = append(parts, part)
		}
		text = fmt.Sprintf("failed=%v [%s]", a.Failed, strings.Join(parts, ", "))
	case nil:
		text = "ok"
	}
	return fmt.Sprintf("%s zxid=%d", text, m.Zxid)
}

func quoted(data []byte) string {
	if data == nil {
		return "null"
	}
	return fmt.Sprintf("%q", data)
}

func (s *script) stats(of Stat) string {
	text := fmt.Sprintf("{c=%d m=%d p=%d v=%d cv=%d av=%d len=%d kids=%d", of.Czxid-s.base, of.Mzxid-s.base, of.Pzxid-s.base,
		of.Version, of.Cversion, of.Aversion, of.DataLength, of.NumChildren)
	if of.Owner != 0 {
		text += " ephemeral"
	}
	return text + "}"
}

// tree prints the clients' own nodes, and the sessions.
func (s *script) tree() string {
	var out strings.Builder
	s.Must(s.c.turn(func(sh *shard, _ *coordinator.Turn) {
		for _, path := range slices.Sorted(maps.Keys(sh.tree.nodes)) {
			if n := sh.tree.nodes[path]; !n.view && !special(path) {
				fmt.Fprintf(&out, "%s %s %s\n", path, quoted(n.data), s.stats(n.shown()))
			}
		}
		for _, ses := range sh.sortedSessions() {
			fmt.Fprintf(&out, "session timeout=%d ephemerals=%v\n", ses.timeoutMs, slices.Sorted(maps.Keys(ses.ephemerals)))
		}
	}))
	return out.String()
}

// offsets commits or fetches where a group goes on. It waits for the answer, so that the gate has to be open.
func (s *script) offsets(d *datadriven.TestData, out *strings.Builder) {
	var partitions []kafka.TopicPartition
	var offsets []kafka.Offset
	for _, arg := range d.CmdArgs[1:] {
		parts := append(strings.Split(arg.Key, ":"), "0")
		partition, err := strconv.ParseInt(parts[1], 10, 32)
		s.Must(err)
		offset, err := strconv.ParseInt(parts[2], 10, 64)
		s.Must(err)
		partitions, offsets = append(partitions, kafka.TopicPartition{Topic: parts[0], Partition: int32(partition)}), append(offsets, offset)
	}
	if d.Cmd == "commit-offsets" {
		outcome(out, s.c.CommitOffsets(d.CmdArgs[0].Key, partitions, offsets))
	} else {
		outcome(out, s.c.FetchOffsets(d.CmdArgs[0].Key, partitions))
	}
}

func outcome[T any](out *strings.Builder, p *coordinator.Promise[T]) {
	<-p.Given()
	if committed := p.Committed(); committed != nil {
		<-committed
	}
	if answer, err := p.Answer(); err != nil {
		fmt.Fprintln(out, err)
	} else {
		fmt.Fprintln(out, answer)
	}
}
