package group

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

// TestScripts runs scripts of clients against a coordinator. A client has a name, and keeps the member id, generation and
// group that it was last told of. The verbs:
//
//	join CLIENT [group=g] [id=(keep|none|CLIENT)] [instance=I] [protocols=(name:metadata,…)] [type=T] [version=9]
//	    [session=10000] [rebalance=60000]
//	sync CLIENT [assign=(CLIENT:part,…)] [generation=N] [protocol=P]
//	beat CLIENT [generation=N]       heartbeat
//	leave CLIENT…                    each on its own
//	commit CLIENT|GROUP TOPIC PARTITION OFFSET [note=N] [generation=N] [retention=MS] [version=N] [anonymous]
//	offsets GROUP                    what it has committed
//	forget GROUP TOPIC PARTITION     OffsetDelete
//	describe GROUP, list [STATE], delete GROUP
//	sleep MS, gate close|open (syncs), restart, crash, resign, drop-topic TOPIC, set KEY VALUE
//
// After each verb all answers are printed that have come, by client. An answer that may not leave yet is not printed.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		inWorld(t, func(w *world) {
			s := &script{world: w, clients: map[string]*client{}}
			datadriven.RunTest(t, path, s.run)
		})
	})
}

type script struct {
	*world
	clients map[string]*client
	waiting []waiting
}

// client is one that takes part in a group.
type client struct {
	name, group, id string
	generation      int32
	instance        *string
}

// waiting is an answer that has not come.
type waiting struct {
	who  string
	done func() (text string, ok bool)
}

func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	arg := func(i int) string {
		if i < len(d.CmdArgs) {
			return d.CmdArgs[i].Key
		}
		d.Fatalf(t, "%s: argument %d is missing", d.Cmd, i)
		return ""
	}
	switch d.Cmd {
	case "join":
		s.join(t, d, s.client(arg(0)))
	case "sync":
		s.sync(t, d, s.client(arg(0)))
	case "beat":
		c := s.client(arg(0))
		req := kmsg.NewPtrHeartbeatRequest()
		req.Group, req.MemberID, req.InstanceID, req.Generation = c.group, c.id, c.instance, c.generation
		d.MaybeScanArgs(t, "generation", &req.Generation)
		await(s, c.name, s.c.Heartbeat(req), func(None) string { return "ok" })
	case "leave":
		for _, each := range d.CmdArgs {
			c := s.client(each.Key)
			l := kmsg.NewLeaveGroupRequestMember()
			l.MemberID, l.InstanceID = c.id, c.instance
			await(s, c.name, s.c.Leave(c.group, []kmsg.LeaveGroupRequestMember{l}), func(errs []error) string { return outcome("left", errs[0]) })
		}
	case "commit":
		s.commit(t, d, arg)
	case "offsets":
		await(s, arg(0), s.c.FetchAll(arg(0)), func(all []Offset) string {
			var b strings.Builder
			for _, o := range all {
				fmt.Fprintf(&b, " %s:%d", o.TopicPartition, o.Offset)
				if o.Metadata != "" {
					fmt.Fprintf(&b, "(%s)", o.Metadata)
				}
			}
			return "offsets" + b.String()
		})
	case "forget":
		await(s, arg(0), s.c.DeleteOffsets(arg(0), []kafka.TopicPartition{s.partitionOf(t, d, arg)}), func(errs []error) string {
			return outcome("forgotten", errs[0])
		})
	case "describe":
		await(s, arg(0), s.c.Describe(arg(0)), s.describe)
	case "list":
		var states []string
		if len(d.CmdArgs) > 0 {
			states = []string{arg(0)}
		}
		for _, p := range s.c.List(states, nil) {
			await(s, "groups", p, func(all []kmsg.ListGroupsResponseGroup) string {
				var b strings.Builder
				for _, g := range all {
					fmt.Fprintf(&b, " %s(%s)", g.Group, g.GroupState)
				}
				return b.String()
			})
		}
	case "delete":
		await(s, arg(0), s.c.Delete(arg(0)), func(None) string { return "deleted" })
	case "sleep":
		time.Sleep(time.Duration(number(t, d, arg(0))) * time.Millisecond)
	case "gate":
		if arg(0) == "close" {
			s.Gate.Close()
		} else {
			s.Gate.Open()
		}
	case "restart":
		s.Restart()
	case "crash":
		s.Crash(1, 0)
	case "resign":
		s.Epoch++
		topic, _ := s.Image().Topics.ByName(Topic)
		s.Apply(s.Partition(topic.ID, 0, kafka.NoNode))
	case "drop-topic":
		topic, _ := s.Image().Topics.ByName(arg(0))
		s.Apply(&metadata.RemoveTopicRecord{TopicID: topic.ID})
	case "set":
		switch v := int32(number(t, d, arg(1))); arg(0) {
		case "max.size":
			s.groups.MaxSize = v
		case "initial.delay":
			s.groups.InitialDelayMs = v
		case "retention":
			s.groups.RetentionMs = int64(v)
		default:
			d.Fatalf(t, "unknown setting")
		}
		s.Restart()
	default:
		d.Fatalf(t, "unknown verb")
	}
	synctest.Wait()
	return s.answers()
}

func number(t *testing.T, d *datadriven.TestData, text string) (n int64) {
	if _, err := fmt.Sscan(text, &n); err != nil {
		d.Fatalf(t, "%q is no number", text)
	}
	return n
}

func (s *script) client(name string) *client {
	c := s.clients[name]
	if c == nil {
		c = &client{name: name, group: "g"}
		s.clients[name] = c
	}
	return c
}

func (s *script) join(t *testing.T, d *datadriven.TestData, c *client) {
	req := kmsg.NewPtrJoinGroupRequest()
	version, session, rebalance, id, protocolType := 9, 10_000, 60_000, "keep", "consumer"
	instance := ""
	protocols := []string{"range:A"}
	d.MaybeScanArgs(t, "group", &c.group)
	d.MaybeScanArgs(t, "version", &version)
	d.MaybeScanArgs(t, "session", &session)
	d.MaybeScanArgs(t, "rebalance", &rebalance)
	d.MaybeScanArgs(t, "id", &id)
	d.MaybeScanArgs(t, "type", &protocolType)
	d.MaybeScanArgs(t, "instance", &instance)
	for _, a := range d.CmdArgs {
		if a.Key == "protocols" {
			protocols = a.Vals
		}
	}
	if instance != "" {
		c.instance = &instance
	}
	switch id {
	case "keep":
	case "none":
		c.id = ""
	default:
		c.id = s.client(id).id
	}
	req.Version, req.Group, req.MemberID, req.InstanceID, req.ProtocolType = int16(version), c.group, c.id, c.instance, protocolType
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = int32(session), int32(rebalance)
	for _, p := range protocols {
		assignor, said, _ := strings.Cut(p, ":")
		protocol := kmsg.NewJoinGroupRequestProtocol()
		protocol.Name, protocol.Metadata = assignor, []byte(said)
		if topics, ok := strings.CutPrefix(said, "topics="); ok {
			member := kmsg.NewConsumerMemberMetadata()
			member.Topics = strings.Split(topics, "+")
			protocol.Metadata = member.AppendTo(nil)
		}
		req.Protocols = append(req.Protocols, protocol)
	}
	await(s, c.name, s.c.Join(req, Client{ID: c.name, Host: "/here"}), func(resp *kmsg.JoinGroupResponse) string {
		if resp.MemberID != "" {
			c.id = resp.MemberID
		}
		if resp.ErrorCode != 0 {
			return name(kerr.ErrorForCode(resp.ErrorCode))
		}
		c.generation = resp.Generation
		text := fmt.Sprintf("joined generation=%d protocol=%s leader=%s", resp.Generation, *resp.Protocol, s.nameOf(resp.LeaderID))
		for i, m := range resp.Members {
			if i == 0 {
				text += " members="
			} else {
				text += ","
			}
			text += s.nameOf(m.MemberID)
		}
		if resp.SkipAssignment {
			text += " skip"
		}
		return text
	})
}

func (s *script) nameOf(id string) string {
	for _, name := range slices.Sorted(maps.Keys(s.clients)) {
		if s.clients[name].id == id {
			return name
		}
	}
	if len(id) > 36 {
		return id[:len(id)-37] + "(gone)"
	}
	return id
}

func (s *script) sync(t *testing.T, d *datadriven.TestData, c *client) {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Group, req.MemberID, req.InstanceID, req.Generation = c.group, c.id, c.instance, c.generation
	d.MaybeScanArgs(t, "generation", &req.Generation)
	var protocol string
	if d.HasArg("protocol") {
		d.ScanArgs(t, "protocol", &protocol)
		req.Protocol = &protocol
	}
	for _, a := range d.CmdArgs {
		if a.Key != "assign" {
			continue
		}
		for _, each := range a.Vals {
			who, part, _ := strings.Cut(each, ":")
			assignment := kmsg.NewSyncGroupRequestGroupAssignment()
			assignment.MemberID, assignment.MemberAssignment = s.client(who).id, []byte(part)
			req.GroupAssignment = append(req.GroupAssignment, assignment)
		}
	}
	await(s, c.name, s.c.Sync(req), func(resp *kmsg.SyncGroupResponse) string {
		if resp.ErrorCode != 0 {
			return name(kerr.ErrorForCode(resp.ErrorCode))
		}
		return fmt.Sprintf("part %q", resp.MemberAssignment)
	})
}

func (s *script) partitionOf(t *testing.T, d *datadriven.TestData, arg func(int) string) kafka.TopicPartition {
	return kafka.TopicPartition{Topic: arg(1), Partition: int32(number(t, d, arg(2)))}
}

func (s *script) commit(t *testing.T, d *datadriven.TestData, arg func(int) string) {
	commit := Commit{Group: arg(0), Generation: -1, Version: 9, RetentionMs: -1}
	if c := s.clients[arg(0)]; c != nil {
		commit.Group = c.group
		if !d.HasArg("anonymous") {
			commit.Generation, commit.MemberID, commit.InstanceID = c.generation, c.id, c.instance
		}
	}
	o := Offset{TopicPartition: s.partitionOf(t, d, arg), Offset: number(t, d, arg(3)), LeaderEpoch: -1}
	d.MaybeScanArgs(t, "note", &o.Metadata)
	d.MaybeScanArgs(t, "generation", &commit.Generation)
	d.MaybeScanArgs(t, "retention", &commit.RetentionMs)
	version := 9
	d.MaybeScanArgs(t, "version", &version)
	commit.Version = int16(version)
	commit.Offsets = append(commit.Offsets, o)
	await(s, arg(0), s.c.Commit(commit), func(errs []error) string { return outcome("committed", errs[0]) })
}

func (s *script) describe(g *kmsg.DescribeGroupsResponseGroup) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s type=%s protocol=%s", g.State, g.ProtocolType, g.Protocol)
	for _, m := range g.Members {
		fmt.Fprintf(&b, "\n  %s", s.nameOf(m.MemberID))
		if m.InstanceID != nil {
			fmt.Fprintf(&b, " instance=%s", *m.InstanceID)
		}
		fmt.Fprintf(&b, " client=%s%s subscription=%q part=%q", m.ClientID, m.ClientHost, m.ProtocolMetadata, m.MemberAssignment)
	}
	return b.String()
}

// await has an answer printed once it may leave.
func await[T any](s *script, who string, p *coordinator.Promise[T], text func(T) string) {
	s.waiting = append(s.waiting, waiting{who, func() (string, bool) {
		select {
		case <-p.Given():
		default:
			return "", false
		}
		if c := p.Committed(); c != nil {
			select {
			case <-c:
			default:
				return "", false
			}
		}
		answer, err := p.Answer()
		if err != nil {
			return name(err), true
		}
		return text(answer), true
	}})
}

func (s *script) answers() string {
	var lines []string
	still := s.waiting[:0]
	for _, w := range s.waiting {
		if text, ok := w.done(); ok {
			lines = append(lines, w.who+": "+text)
		} else {
			still = append(still, w)
		}
	}
	s.waiting = still
	if len(lines) == 0 {
		return "nothing"
	}
	return strings.Join(lines, "\n")
}

func outcome(good string, err error) string {
	if err != nil {
		return name(err)
	}
	return good
}

// name is an error in Kafka's words.
func name(err error) string {
	if k, ok := err.(*kerr.Error); ok {
		return k.Message
	}
	return err.Error()
}
