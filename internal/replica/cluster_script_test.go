package replica

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

// TestClusterScripts runs the scripts in testdata/cluster. Each is the life of one partition, t-0, whose replicas are on
// nodes 1, 2 and 3. Nothing happens by itself, save syncs: "fetch node=2" is one fetch of a follower, "elect" what a
// controller would publish. Records are written as epoch/value, and no two values are the same.
func TestClusterScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/cluster", func(t *testing.T, path string) {
		s := &clusterScript{cluster: newCluster(t, true, 1, 2, 3), waiters: map[string]*Waiter{}, answers: map[string]answer{}, minISR: "1"}
		defer s.stop()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.t, s.d = t, d
			for _, m := range s.nodes {
				m.t = t
			}
			out := s.run()
			s.quiet()
			if d.HasArg("quiet") {
				return out
			}
			return strings.TrimPrefix(out+"\n", "\n") + s.state()
		})
	})
}

type clusterScript struct {
	*cluster
	d       *datadriven.TestData
	waiters map[string]*Waiter
	answers map[string]answer
	minISR  string
	value   int
}

func (s *clusterScript) run() string {
	switch s.d.Cmd {
	case "min-isr":
		s.minISR = s.d.CmdArgs[0].Key
		return ""
	case "elect":
		replicas := s.nodesOf("replicas")
		if replicas == nil {
			replicas = []kafka.NodeID{1, 2, 3}
		}
		s.elect(s.nodesOf("to"), kafka.Epoch(s.int("epoch")), kafka.NodeID(s.int("leader")), replicas, s.nodesOf("isr"), s.nodesOf("elr"), s.minISR)
		return ""
	case "fence", "unfence": // a broker's registration
		fenced := metadata.Fence
		if s.d.Cmd == "unfence" {
			fenced = metadata.Unfence
		}
		s.publish(nil, &metadata.BrokerRegistrationChangeRecord{BrokerID: s.node(), BrokerEpoch: s.nodes[s.node()].epoch, Fenced: fenced})
		return ""
	case "learn": // a node that was left out of an election hears of it
		s.nodes[s.node()].catchUp(s.image)
		return ""
	case "racks":
		var records []metadata.Record
		for i, arg := range s.d.CmdArgs {
			id := kafka.NodeID(i + 1)
			records = append(records, &metadata.RegisterBrokerRecord{BrokerID: id, BrokerEpoch: s.nodes[id].epoch, Rack: &arg.Key})
		}
		s.publish(nil, records...)
		return ""
	case "append":
		return s.append()
	case "fetch":
		a, err := s.ask(s.node())
		if err == nil {
			if arg, ok := s.d.Arg("keep"); ok {
				s.answers[arg.Vals[0]] = a
				return "answer is under way"
			}
			err = s.take(s.node(), a)
		}
		return outcome(err)
	case "deliver":
		return outcome(s.take(s.node(), s.answers[s.d.CmdArgs[1].Key]))
	case "zombie-fetch": // by an earlier incarnation of the node
		m := s.nodes[s.node()]
		m.epoch--
		defer func() { m.epoch++ }()
		a, err := s.ask(s.node())
		if err == nil {
			err = a.err
		}
		return outcome(err)
	case "hold-syncs":
		m := s.nodes[s.node()]
		m.held = true
		m.gate.Close()
		return ""
	case "release-syncs":
		m := s.nodes[s.node()]
		m.held = false
		m.gate.Open()
		return ""
	case "kill":
		s.crash(s.node(), false)
		return ""
	case "power-cut":
		s.crash(s.node(), true)
		return ""
	case "restart":
		s.restart(s.node())
		return ""
	case "pass":
		s.pass(time.Duration(s.int("ms")) * time.Millisecond)
		return ""
	case "drop-lagging":
		s.nodes[s.node()].set.DropLagging(30 * time.Second)
		return s.wishes()
	case "wishes":
		return s.wishes()
	case "wish-refused":
		_, reg, _ := s.image.Topics.Partition(tp)
		s.nodes[s.node()].partition().WishFailed(Wish{LeaderEpoch: reg.LeaderEpoch, PartitionEpoch: reg.PartitionEpoch})
		return ""
	case "waiter":
		return s.waiter(s.d.CmdArgs[0].Key)
	case "read": // by a consumer
		return s.read()
	case "epoch-end":
		end, err := s.nodes[s.node()].partition().EndOffsetForEpoch(kafka.Epoch(s.int("of")), s.optional("epoch", kafka.NoEpoch))
		if err != nil {
			return outcome(err)
		}
		return fmt.Sprintf("epoch=%d end=%d", end.Epoch, end.EndOffset)
	case "delete-records":
		_, w, err := s.nodes[s.node()].partition().DeleteRecords(int64(s.int("to")))
		if arg, ok := s.d.Arg("as"); ok {
			s.waiters[arg.Vals[0]] = w
		}
		return outcome(err)
	}
	s.t.Fatalf("unknown verb %s", s.d.Cmd)
	return ""
}

func outcome(err error) string {
	if err == nil {
		return "ok"
	}
	if text := codeOf(err); !strings.HasPrefix(text, "no Kafka error") {
		return text
	}
	return err.Error()
}

func (s *clusterScript) append() string {
	m := s.nodes[s.node()]
	b := batch.NewBuilder(batch.BuildOptions{LeaderEpoch: kafka.NoEpoch})
	for i := range s.int("records") {
		s.value++
		b.Add(batch.Record{Offset: int64(i), Timestamp: 1000, Value: []byte(strconv.Itoa(s.value))})
	}
	o := AppendOptions{Acks: kafka.AcksAll, LeaderEpoch: kafka.NoEpoch}
	if arg, ok := s.d.Arg("acks"); ok && arg.Vals[0] == "1" {
		o.Acks = kafka.AcksLeader
	}
	_, w, err := m.partition().Append(b.Build(), o)
	if err != nil {
		return outcome(err)
	}
	if arg, ok := s.d.Arg("as"); ok {
		s.waiters[arg.Vals[0]] = w
	}
	return ""
}

func (s *clusterScript) waiter(name string) string {
	s.quiet()
	w := s.waiters[name]
	if w == nil {
		return "acked at once"
	}
	select {
	case <-w.Done():
		if w.Err() != nil {
			return outcome(w.Err())
		}
		return "acked"
	default:
		return "waits"
	}
}

func (s *clusterScript) read() string {
	r, err := s.nodes[s.node()].partition().Read(ReadOptions{
		From: int64(s.int("from")), MaxBytes: 1 << 20, AtLeastOne: true, Replica: kafka.ConsumerReplica, LogStart: -1,
		CurrentEpoch: s.optional("epoch", kafka.NoEpoch), LastFetchedEpoch: s.optional("last-epoch", kafka.NoEpoch),
		AnyReplica: !s.d.HasArg("only-leader"), Rack: s.text("rack"),
	})
	if err != nil {
		return outcome(err)
	}
	if r.Nearest != kafka.NoNode {
		return fmt.Sprintf("read from node %d", r.Nearest)
	}
	out := "nothing"
	if r.Region != nil {
		out = fmt.Sprintf("bytes=%d", r.Region.Len())
		r.Region.Release()
	}
	if r.Diverging != nil {
		out = fmt.Sprintf("diverging: epoch=%d end=%d", r.Diverging.Epoch, r.Diverging.EndOffset)
	}
	return out
}

func (s *clusterScript) text(key string) string {
	if arg, ok := s.d.Arg(key); ok {
		return arg.Vals[0]
	}
	return ""
}

func (s *clusterScript) optional(key string, otherwise int32) int32 {
	if s.d.HasArg(key) {
		return int32(s.int(key))
	}
	return otherwise
}

func (s *clusterScript) wishes() string {
	for _, w := range s.nodes[s.node()].set.TakeWishes(1) {
		return fmt.Sprintf("wish isr=%v broker-epochs=%v epoch=%d", w.ISR, w.Epochs, w.LeaderEpoch)
	}
	return "no wish"
}

// state is a line for each node that is up.
func (s *clusterScript) state() string {
	var out strings.Builder
	for _, id := range s.ids() {
		m := s.nodes[id]
		if !m.up {
			fmt.Fprintf(&out, "%d down\n", id)
			continue
		}
		p, err := m.set.Partition(tp)
		if err != nil {
			continue
		}
		a := p.acting.Load()
		role := "follower"
		if a.leading {
			role = "leader"
		}
		fmt.Fprintf(&out, "%d %s epoch=%d hw=%d", id, role, a.epoch, p.HighWatermark())
		if start := p.LogStart(); start > 0 {
			fmt.Fprintf(&out, " start=%d", start)
		}
		for _, e := range m.history() {
			fmt.Fprintf(&out, " %d/%s", e.epoch, e.value)
		}
		out.WriteString("\n")
	}
	return out.String()
}

func (s *clusterScript) node() kafka.NodeID { return kafka.NodeID(s.int("node")) }

func (s *clusterScript) int(key string) int {
	arg, ok := s.d.Arg(key)
	if !ok {
		s.t.Fatalf("%s: %s needs %s=", s.d.Pos, s.d.Cmd, key)
	}
	n, err := strconv.Atoi(arg.Vals[0])
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

func (s *clusterScript) nodesOf(key string) []kafka.NodeID {
	arg, ok := s.d.Arg(key)
	if !ok {
		return nil
	}
	var ids []kafka.NodeID
	for _, text := range strings.Split(strings.Join(arg.Vals, ","), ",") {
		n, err := strconv.Atoi(text)
		if err != nil {
			s.t.Fatal(err)
		}
		ids = append(ids, kafka.NodeID(n))
	}
	return ids
}
