package replica

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

// TestScripts runs the scripts in testdata/node. Each is the life of one partition, t-0, on node 1. Syncs wait for the verb
// "sync", so that a script can look at the time between write and sync. In page_cache nothing waits for syncs.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/node", func(t *testing.T, path string) {
		s := &script{world: newWorld(t, !strings.Contains(path, "page_cache")), waiters: map[string]*Waiter{}}
		defer func() { s.stop(false) }()
		defer func() { s.work() }()
		s.gate.Close()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.t, s.d = t, d
			return s.run()
		})
	})
}

type script struct {
	*world
	d       *datadriven.TestData
	waiters map[string]*Waiter
	watch   *Watch
	idle    chan struct{} // the worker waits until it is closed; nil: it works
}

// work lets the worker go on.
func (s *script) work() {
	if s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
}

func (s *script) run() string {
	switch s.d.Cmd {
	case "metadata":
		return s.metadata()
	case "remove-topic":
		s.applyOnly(&metadata.RemoveTopicRecord{TopicID: topicID("t")})
		s.gate.Open() // the folder is renamed when its sync is over
		s.settle(tp)
		s.gate.Close()
		return s.state()
	case "set":
		var records []metadata.Record
		for _, arg := range s.d.CmdArgs {
			records = append(records, &metadata.ConfigRecord{ResourceType: int8(metadata.ConfigTopic), ResourceName: "t", Name: arg.Key, Value: &arg.Vals[0]})
		}
		s.apply(records...)
		return s.state()
	case "append":
		return s.append()
	case "sync":
		s.gate.Open()
		err := s.partition().syncAll()
		s.gate.Close()
		if err != nil {
			return codeOf(err)
		}
		return s.state()
	case "fetch":
		return s.fetch()
	case "read":
		return s.read()
	case "list-offset":
		return s.listOffset()
	case "await-end":
		s.waiters["await-end"] = s.partition().AwaitEnd()
		return fmt.Sprintf("waits=%v", s.waiters["await-end"] != nil)
	case "waiter":
		return s.waiter(s.d.CmdArgs[0].Key)
	case "delete-records":
		low, w, err := s.partition().DeleteRecords(s.int64("to"))
		if err != nil {
			return codeOf(err)
		}
		s.waiters["delete-records"] = w
		return fmt.Sprintf("low=%d waiting=%v %s", low, w != nil, s.state())
	case "watch":
		s.watch = NewWatch()
		kind := Consumer
		if s.d.HasArg("follower") {
			kind = Follower
		}
		s.partition().Attach(s.watch, 3, kind)
		return ""
	case "take":
		signalled := false
		select {
		case <-s.watch.C():
			signalled = true
		default:
		}
		return fmt.Sprintf("signalled=%v dirty=%v", signalled, s.watch.Take(nil))
	case "wishes":
		return s.wishes()
	case "wish-failed":
		s.partition().WishFailed(Wish{LeaderEpoch: int32(s.int64("leader-epoch")), PartitionEpoch: int32(s.int64("partition-epoch"))})
		return s.state()
	case "pass":
		s.now.Add(s.int64("ms"))
		return ""
	case "drop-lagging":
		s.set.DropLagging(time.Duration(s.int64("max-ms")) * time.Millisecond)
		return s.wishes()
	case "fetched":
		return s.fetched()
	case "truncate":
		s.gate.Open() // a cut is synced on the spot
		err := s.partition().Truncate(s.int64("to"), s.epoch("epoch"))
		s.gate.Close()
		if err != nil {
			return codeOf(err)
		}
		return s.state()
	case "epoch-end":
		end, err := s.partition().EndOffsetForEpoch(int32(s.int64("of")), kafka.NoEpoch)
		if err != nil {
			return codeOf(err)
		}
		return fmt.Sprintf("epoch=%d end=%d", end.Epoch, end.EndOffset)
	case "fail-sync":
		s.gate.Break(syscall.EIO)
		s.gate.Open()
		err := s.partition().syncAll()
		<-s.store.Failures()
		return codeOf(err) + " " + s.state()
	case "restart":
		s.stop(s.d.HasArg("clean"))
		s.set = nil
		s.start()
		image := s.image
		s.image = metadata.EmptyImage()
		s.set.Apply(metadata.Between(s.image, image), image)
		s.image = image
		s.settle(tp)
		s.gate.Close()
		return s.state()
	}
	s.t.Fatalf("unknown verb %s", s.d.Cmd)
	return ""
}

var tp = kafka.TopicPartition{Topic: "t"}

// metadata says who leads; the first one creates the topic.
func (s *script) metadata() string {
	var ints = func(key string) []kafka.NodeID {
		var ids []kafka.NodeID
		arg, ok := s.d.Arg(key)
		if !ok {
			return nil
		}
		for _, text := range arg.Vals {
			for _, one := range strings.Split(text, ",") {
				var id kafka.NodeID
				_, err := fmt.Sscan(one, &id)
				s.must(err)
				ids = append(ids, id)
			}
		}
		return ids
	}
	var records []metadata.Record
	if _, ok := s.image.Topics.ByName("t"); !ok {
		records = append(records, &metadata.TopicRecord{Name: "t", TopicID: topicID("t")})
	}
	r := partitionRecord("t", int32(s.int64("leader-epoch")), int32(s.int64("leader")), ints("isr"))
	r.Replicas = ints("replicas")
	r.Directories = make([]kafka.DirID, len(r.Replicas))
	if s.d.HasArg("partition-epoch") {
		r.PartitionEpoch = int32(s.int64("partition-epoch"))
	}
	for _, id := range r.Replicas {
		records = append(records, &metadata.RegisterBrokerRecord{BrokerID: id, BrokerEpoch: 1})
	}
	records = append(records, r)
	s.work()
	if s.d.HasArg("no-worker") {
		idle := make(chan struct{})
		s.idle = idle
		s.store.Run(tp, func() { <-idle })
	}
	s.applyOnly(records...)
	p, err := s.set.Partition(tp)
	switch {
	case s.d.HasArg("no-worker"):
	case err != nil || p.acting.Load().log == nil: // comes or goes: that takes syncs of its own
		s.gate.Open()
		s.settle(tp)
		s.gate.Close()
	default:
		s.settle(tp)
	}
	return s.state()
}

func (s *script) partition() *Partition {
	p, err := s.set.Partition(tp)
	s.must(err)
	return p
}

func (s *script) append() string {
	p := s.partition()
	o := AppendOptions{Acks: kafka.AcksLeader, LeaderEpoch: s.epoch("epoch")}
	if arg, ok := s.d.Arg("acks"); ok && arg.Vals[0] == "all" {
		o.Acks = kafka.AcksAll
	}
	ts := int64(1000)
	if s.d.HasArg("ts") {
		ts = s.int64("ts")
	}
	a, w, err := p.Append(records(int(s.int64("records")), ts), o)
	if err != nil {
		return codeOf(err)
	}
	name := "append"
	if arg, ok := s.d.Arg("as"); ok {
		name = arg.Vals[0]
	}
	s.waiters[name] = w
	return fmt.Sprintf("first=%d last=%d waits=%v %s", a.First, a.Last, w != nil, s.state())
}

func (s *script) waiter(name string) string {
	w := s.waiters[name]
	if w == nil {
		return "none"
	}
	select {
	case <-w.Done():
		if w.Err() != nil {
			return "done: " + codeOf(w.Err())
		}
		return "done"
	default:
		return "waits"
	}
}

func (s *script) fetch() string {
	r, err := s.partition().Read(ReadOptions{
		From: s.int64("offset"), MaxBytes: 1 << 20, Replica: int32(s.int64("from")), ReplicaEpoch: s.optional("broker-epoch", 1), LogStart: s.optional("log-start", 0),
		CurrentEpoch: s.epoch("epoch"), LastFetchedEpoch: s.epoch("last-epoch"),
	})
	if err != nil {
		return codeOf(err)
	}
	return describe(r) + " " + s.state()
}

func (s *script) read() string {
	o := ReadOptions{
		From: s.int64("from"), MaxBytes: int(s.optional("max", 1<<20)), AtLeastOne: true, Replica: kafka.ConsumerReplica, LogStart: -1,
		CurrentEpoch: s.epoch("epoch"), LastFetchedEpoch: s.epoch("last-epoch"),
	}
	if s.d.HasArg("debug") {
		o.Replica = kafka.DebugReplica
	}
	r, err := s.partition().Read(o)
	if err != nil {
		return codeOf(err)
	}
	return describe(r)
}

func describe(r ReadResult) string {
	var b strings.Builder
	size := int64(0)
	if r.Region != nil {
		size = r.Region.Len()
		r.Region.Release()
	}
	fmt.Fprintf(&b, "bytes=%d hw=%d start=%d more=%v", size, r.HighWatermark, r.LogStart, r.More)
	if r.Diverging != nil {
		fmt.Fprintf(&b, " diverging=%d@%d", r.Diverging.EndOffset, r.Diverging.Epoch)
	}
	return b.String()
}

func (s *script) listOffset() string {
	special := map[string]int64{
		"latest": kafka.LatestTimestamp, "earliest": kafka.EarliestTimestamp, "max": kafka.MaxTimestamp,
		"earliest-local": kafka.EarliestLocalTimestamp, "latest-tiered": kafka.LatestTieredTimestamp, "earliest-pending": kafka.EarliestPendingTimestamp,
	}
	arg, _ := s.d.Arg("ts")
	ts, ok := special[arg.Vals[0]]
	if !ok {
		ts = s.int64("ts")
	}
	replica := kafka.ConsumerReplica
	if s.d.HasArg("replica") {
		replica = int32(s.int64("replica"))
	}
	found, err := s.partition().ListOffset(ts, kafka.ReadUncommitted, replica, s.epoch("epoch"))
	if err != nil {
		return codeOf(err)
	}
	return fmt.Sprintf("offset=%d timestamp=%d epoch=%d", found.Offset, found.Timestamp, found.LeaderEpoch)
}

func (s *script) fetched() string {
	b := records(int(s.int64("records")), 1000)
	base := s.int64("base")
	batch.Batch(b).Assign(base, s.epoch("batch-epoch"))
	a, w, err := s.partition().AppendFetched(b, s.int64("leader-hw"), s.optional("leader-start", 0), s.epoch("epoch"))
	if err != nil {
		return codeOf(err)
	}
	s.waiters["fetched"] = w
	return fmt.Sprintf("from=%d last-epoch=%d waits=%v %s", a.From, a.LastEpoch, w != nil, s.state())
}

func (s *script) wishes() string {
	for _, w := range s.set.TakeWishes(1) {
		return fmt.Sprintf("isr=%v broker-epochs=%v leader-epoch=%d partition-epoch=%d", w.ISR, w.Epochs, w.LeaderEpoch, w.PartitionEpoch)
	}
	return "none"
}

// state is one line on the partition.
func (s *script) state() string {
	p, err := s.set.Partition(tp)
	if err != nil {
		return codeOf(err)
	}
	a := p.acting.Load()
	role := "none"
	switch {
	case a.diskErr != nil:
		role = "offline"
	case a.leading:
		role = "leader"
	case a.hasRole:
		role = fmt.Sprintf("follower of=%d", a.leader)
	}
	p.mu.Lock()
	waiting := p.forWatermark.count
	var progress []string
	for _, node := range p.target.Load().replicas {
		if f := p.progress[node]; f != nil {
			progress = append(progress, fmt.Sprintf("%d@%d", node, f.end))
		}
	}
	p.mu.Unlock()
	line := fmt.Sprintf("%s epoch=%d end=%d hw=%d", role, a.epoch, p.LogEnd(), p.HighWatermark())
	if len(progress) > 0 {
		line += " progress=" + strings.Join(progress, ",")
	}
	if waiting > 0 {
		line += fmt.Sprintf(" waiting=%d", waiting)
	}
	return line
}

func (s *script) int64(key string) int64 {
	arg, ok := s.d.Arg(key)
	if !ok {
		s.t.Fatalf("%s: %s needs %s=", s.d.Pos, s.d.Cmd, key)
	}
	var n int64
	_, err := fmt.Sscan(arg.Vals[0], &n)
	s.must(err)
	return n
}

func (s *script) optional(key string, otherwise int64) int64 {
	if s.d.HasArg(key) {
		return s.int64(key)
	}
	return otherwise
}

func (s *script) epoch(key string) kafka.Epoch { return int32(s.optional(key, int64(kafka.NoEpoch))) }

// codeOf is the Kafka error that a client gets.
func codeOf(err error) string {
	var code *kerr.Error
	if errors.As(err, &code) {
		return code.Message
	}
	return "no Kafka error: " + err.Error()
}
