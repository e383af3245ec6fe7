package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/config"
	"moldau/internal/kafka"
	"moldau/internal/node"
	"moldau/internal/vfs"
)

// startNodes starts a cluster of nodes 1 to n in this process, with these log directories each, or one. The tools of a test
// talk to node 1.
func startNodes(t *testing.T, n int, dirs ...string) (*cluster, *ensemble) {
	t.Helper()
	if len(dirs) == 0 {
		dirs = []string{"/disk"}
	}
	listeners := map[string]net.Listener{} // by address: a port that is only looked up may be gone when it is listened on
	listen := func() string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listeners[l.Addr().String()] = l
		return l.Addr().String()
	}
	var brokers, controllers []string
	for range n {
		brokers, controllers = append(brokers, listen()), append(controllers, listen())
	}
	all := &ensemble{failed: make(chan struct{}), over: make(chan struct{}), level: new(slog.LevelVar)}
	for i := range n {
		c, _, err := config.Load(config.Source{File: "test", Text: []byte(fmt.Sprintf("process.roles=broker,controller\nnode.id=%d\n"+
			"listeners=PLAINTEXT://%s,CONTROLLER://%s\ncontroller.listener.names=CONTROLLER\ncontroller.quorum.bootstrap.servers=%s\n"+
			"log.dirs=%s\noffsets.topic.num.partitions=1\n", i+1, brokers[i], controllers[i], strings.Join(controllers, ","), strings.Join(dirs, ",")))})
		if err != nil {
			t.Fatal(err)
		}
		mine := map[string]net.Listener{brokers[i]: listeners[brokers[i]], controllers[i]: listeners[controllers[i]]}
		one, err := node.Build(node.Options{Config: c, Logger: slog.New(slog.DiscardHandler), FS: vfs.NewMem(), Listen: func(address string) (net.Listener, error) {
			if l, ok := mine[address]; ok {
				delete(mine, address) // the next time it is asked for, this one has been closed
				return l, nil
			}
			return net.Listen("tcp", address)
		}})
		if err != nil {
			t.Fatal(err)
		}
		all.nodes = append(all.nodes, one)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := all.Start(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = all.Stop(context.Background()) }) // a test may have stopped one of them
	c := &cluster{address: brokers[0]}
	cl := &client{Client: c.kgo(t)}
	eventually(t, "all brokers are there", func() bool {
		up, err := cl.brokers(ctx)
		return err == nil && len(up) == n
	})
	return c, all
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("not in a minute: %s", what)
		}
		timer := time.NewTimer(50 * time.Millisecond)
		<-timer.C
	}
}

// agree waits until all brokers that are up tell the same of the cluster: what one has heard the next may hear a little later, and a
// tool asks any of them.
func (c *cluster) agree(t *testing.T) {
	t.Helper()
	cl := c.kgo(t)
	eventually(t, "all brokers tell the same", func() bool {
		brokers, err := kadm.NewClient(cl).ListBrokers(t.Context())
		if err != nil {
			return false
		}
		told := map[string]bool{}
		for _, b := range brokers {
			m, err := kmsg.NewPtrMetadataRequest().RequestWith(t.Context(), cl.Broker(int(b.NodeID)))
			if err != nil {
				return false
			}
			text, err := json.Marshal([]any{m.Brokers, m.Topics})
			if err != nil {
				t.Fatal(err)
			}
			told[string(text)] = true
		}
		return len(told) == 1
	})
}

func (c *cluster) replicasOf(t *testing.T, topic string) string {
	t.Helper()
	c.agree(t)
	as, err := (&client{Client: c.kgo(t)}).assigned(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	var parts []string
	for _, tp := range as.sorted() {
		parts = append(parts, ids(as[tp]))
	}
	return strings.Join(parts, " ")
}

// create makes a topic, and waits until every broker knows of it: the next tool may ask any of them.
func (c *cluster) create(t *testing.T, topic, replicas string) {
	t.Helper()
	c.want(t, "Created topic "+topic+".\n", "", "topics", "--create", "--topic", topic, "--replica-assignment", replicas)
	cl := c.kgo(t)
	brokers, err := kadm.NewClient(cl).ListBrokers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range brokers {
		eventually(t, fmt.Sprintf("broker %d knows of topic %s", b.NodeID, topic), func() bool {
			req := kmsg.NewPtrMetadataRequest()
			req.Topics = []kmsg.MetadataRequestTopic{{Topic: &topic}}
			resp, err := cl.Broker(int(b.NodeID)).Request(t.Context(), req)
			return err == nil && resp.(*kmsg.MetadataResponse).Topics[0].ErrorCode == 0
		})
	}
}

// unthrottled waits until a topic has no configuration of its own, as when no throttle stays: the broker that is asked may hear of
// that a little later than the tool that took it away.
func (c *cluster) unthrottled(t *testing.T, topic string) {
	t.Helper()
	eventually(t, topic+" has no throttle", func() bool {
		code, out, _ := c.run("", "configs", "--describe", "--topic", topic)
		return code == exitOK && out == "Dynamic configs for topic "+topic+" are:\n"
	})
}

// produce writes records to every partition.
func produce(t *testing.T, c *cluster, topic string, partitions int32) {
	t.Helper()
	cl := c.kgo(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for p := range partitions {
		for i := range 20 {
			r := &kgo.Record{Topic: topic, Partition: p, Value: []byte(fmt.Sprintf("%d-%d", p, i))}
			if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestMovingPartitions runs the tools that move data on a cluster of three: drain, reassign-partitions and leader-election.
func TestMovingPartitions(t *testing.T) {
	c, nodes := startNodes(t, 3)
	admin := kadm.NewClient(c.kgo(t))
	c.create(t, "a", "1:2,2:3,3:1,1:3")
	produce(t, c, "a", 4)

	// What a plan costs is not Kafka's to say: it goes to standard error.
	code, out, errs := c.run("", "drain", "3", "--dry-run")
	if code != exitOK || !strings.HasPrefix(out, "a-1: 2,3 -> 2,1 (") || !strings.Contains(out, "\n3 partitions to move off broker 3. ") || !strings.Contains(out, "in 3 replicas: ") {
		t.Errorf("dry run: %d\n%s%s", code, out, errs)
	}
	if got := c.replicasOf(t, "a"); got != "1,2 2,3 3,1 1,3" {
		t.Errorf("a dry run moved something: %s", got)
	}
	code, out, errs = c.run("", "drain", "3", "--throttle", "100000000", "--at-once", "1")
	if code != exitOK || !strings.HasSuffix(out, "Broker 3 has no replicas left.\n") || !strings.Contains(errs, "cluster unregister --id 3") ||
		!strings.Contains(errs, "remove-controller --controller-id 3 --controller-directory-id ") {
		t.Fatalf("drain: %d\n%s%s", code, out, errs)
	}
	if got := c.replicasOf(t, "a"); strings.Contains(got, "3") {
		t.Errorf("after a drain: %s", got)
	}
	c.unthrottled(t, "a")
	c.want(t, "0 partitions to move off broker 3. No data has to be copied.\nBroker 3 has no replicas left.\n", "", "drain", "3")

	// Every other broker has it already: nothing left to put it on.
	c.create(t, "wide", "1:2:3")
	c.fails(t, exitFailure, "every other broker that is up has a replica already", "drain", "3")
	code, out, errs = c.run("", "drain", "3", "--fewer-replicas", "--output", "json")
	var drained drainedJSON
	if err := json.Unmarshal([]byte(out), &drained); err != nil || code != exitOK || len(drained.Partitions) != 1 || !slices.Equal(drained.Partitions[0].Replicas, []int32{1, 2}) {
		t.Errorf("--fewer-replicas: %d %v\n%s%s", code, err, out, errs)
	}

	// A plan for a topic, done with a throttle that is gone in the end.
	topics := writeFile(t, "topics", `{"topics":[{"topic":"a"}],"version":1}`)
	c.fails(t, exitFailure, "replication factor: 2 larger than available brokers: 1", "reassign-partitions", "--generate", "--topics-to-move-json-file", topics, "--broker-list", "3")
	code, out, errs = c.run("", "reassign-partitions", "--generate", "--topics-to-move-json-file", topics, "--broker-list", "1,2,3")
	_, proposed, ok := strings.Cut(out, "\nProposed partition reassignment configuration\n")
	if code != exitOK || !ok || !strings.HasPrefix(out, "Current partition replica assignment\n{\"version\":1,\"partitions\":[{\"topic\":\"a\",\"partition\":0,\"replicas\":[1,2],\"log_dirs\":[\"any\",\"any\"]},") {
		t.Fatalf("generate: %d\n%s%s", code, out, errs)
	}
	plan := writeFile(t, "plan", proposed)
	want, err := parseReassignment([]byte(proposed))
	if err != nil {
		t.Fatal(err)
	}
	code, out, errs = c.run("", "reassign-partitions", "--execute", "--reassignment-json-file", plan, "--throttle", "100000000", "--wait")
	if code != exitOK || !strings.Contains(out, "\nSave this to use as the --reassignment-json-file option during rollback\nThe inter-broker throttle limit was set to 100000000 B/s\n"+
		"Successfully started partition reassignments for a-0,a-1,a-2,a-3\nStatus of partition reassignment:\nReassignment of partition a-0 is completed.\n") ||
		!strings.HasSuffix(out, "Clearing broker-level throttles on brokers 1,2,3\nClearing topic-level throttles on topic a\n") || !strings.Contains(errs, " to copy in ") {
		t.Errorf("execute: %d\n%s%s", code, out, errs)
	}
	for i, got := range strings.Split(c.replicasOf(t, "a"), " ") {
		if want := ids(want.parts[kafka.TopicPartition{Topic: "a", Partition: int32(i)}]); got != want {
			t.Errorf("a-%d is on %s, want %s", i, got, want)
		}
	}
	c.unthrottled(t, "a")
	c.want(t, "No partition reassignments found.\n", "", "reassign-partitions", "--list")
	c.want(t, "None of the specified partition reassignments are active.\nNone of the specified partition moves are active.\n", "", "reassign-partitions", "--cancel", "--preserve-throttles", "--reassignment-json-file", plan)

	elect(t, c, admin)

	// A broker that is down: what it is to have is under way until it is back, or until it is taken back.
	if err := nodes.nodes[2].Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "node 3 is gone", func() bool {
		code, out, _ := c.run("", "cluster", "list-endpoints")
		return code == exitOK && !strings.Contains(out, "\n3 ")
	})
	c.agree(t)
	var req kadm.AlterPartitionAssignmentsReq
	req.Assign("wide", 0, []int32{3, 2})
	if resp, err := admin.AlterPartitionAssignments(t.Context(), req); err != nil || resp.Error() != nil {
		t.Fatal(err, resp.Error())
	}
	slow := writeFile(t, "slow", `{"partitions":[{"topic":"wide","partition":0,"replicas":[3,2]}]}`)
	c.want(t, "Current partition reassignments:\nwide-0: replicas: 3,2,1. adding: 3. removing: 1.\n", "", "reassign-partitions", "--list")
	c.want(t, "Status of partition reassignment:\nReassignment of partition wide-0 is still in progress.\n", "", "reassign-partitions", "--verify", "--reassignment-json-file", slow)
	c.fails(t, exitFailure, "Use --additional to override this", "reassign-partitions", "--execute", "--reassignment-json-file", plan)
	c.fails(t, exitFailure, "unknown broker id 3", "reassign-partitions", "--execute", "--additional", "--reassignment-json-file", slow)
	c.want(t, "Successfully cancelled partition reassignment for: wide-0\nNone of the specified partition moves are active.\n"+
		"Clearing broker-level throttles on brokers 1,2\nClearing topic-level throttles on topic wide\n", "", "reassign-partitions", "--cancel", "--reassignment-json-file", slow)
	c.agree(t)
	c.want(t, "Status of partition reassignment:\nThere is no active reassignment of partition wide-0, but replica set is 2,1 rather than 3,2.\n", "", "reassign-partitions", "--verify", "--preserve-throttles", "--reassignment-json-file", slow)
	c.fails(t, exitFailure, "The replication factor is changed from 2 to 1", "reassign-partitions", "--execute", "--disallow-replication-factor-change", "--throttle", "5000",
		"--reassignment-json-file", writeFile(t, "fewer", `{"partitions":[{"topic":"wide","partition":0,"replicas":[1]}]}`))
	c.unthrottled(t, "wide") // nothing moves
	c.fails(t, exitFailure, "unable to find partition: wide-7", "reassign-partitions", "--execute", "--reassignment-json-file", writeFile(t, "none", `{"partitions":[{"topic":"wide","partition":7,"replicas":[1]}]}`))

	c.fails(t, exitFailure, "Broker 1 is in service", "cluster", "unregister", "--id", "1")
	eventually(t, "broker 3 can be taken out", func() bool {
		code, _, _ := c.run("", "cluster", "unregister", "--id", "3")
		return code == exitOK
	})
}

// elect has leaders of topic a moved to where they belong.
func elect(t *testing.T, c *cluster, admin *kadm.Client) {
	t.Helper()
	c.create(t, "e", "1:2,2:1")
	code, out, errs := c.run("", "reassign-partitions", "--execute", "--wait", "--reassignment-json-file",
		writeFile(t, "swap", `{"partitions":[{"topic":"e","partition":0,"replicas":[2,1]}]}`))
	if code != exitOK {
		t.Fatalf("swap: %d\n%s%s", code, out, errs)
	}
	c.want(t, "Successfully completed leader election (PREFERRED) for partitions e-0\nValid replica already elected for partitions e-1\n", "",
		"leader-election", "--election-type", "preferred", "--path-to-json-file", writeFile(t, "parts", `{"partitions":[{"topic":"e","partition":0},{"topic":"e","partition":1}]}`))
	c.want(t, "Valid replica already elected for partitions e-0\n", "", "leader-election", "--election-type", "UNCLEAN", "--topic", "e", "--partition", "0")
	c.fails(t, exitFailure, "1 replica(s) could not be elected", "leader-election", "--election-type", "preferred", "--topic", "nothing", "--partition", "0")
	code, out, _ = c.run("", "leader-election", "--election-type", "preferred", "--topic", "nothing", "--partition", "0")
	if want := "Error completing leader election (PREFERRED) for partition: nothing-0: No such topic as nothing\n"; code != exitFailure || out != want {
		t.Errorf("%d %q, want %q", code, out, want)
	}
	if code, out, errs := c.run("", "leader-election", "--election-type", "preferred", "--all-topic-partitions", "--output", "json"); code != exitOK || !json.Valid([]byte(out)) {
		t.Errorf("all: %d\n%s%s", code, out, errs)
	}
}

// TestMovingBetweenDirectories: reassign-partitions moves a leader's and a follower's replica to another directory of their
// nodes, at a rate that lets a test see them on the way, one back before its time, and the controller hears of it.
func TestMovingBetweenDirectories(t *testing.T) {
	c, _ := startNodes(t, 2, "/one", "/two")
	c.create(t, "a", "1:2")
	produce(t, c, "a", 1)
	admin := kadm.NewClient(c.kgo(t))
	where := func(broker int32) (current, future string, lag int64) {
		t.Helper()
		dirs, err := admin.DescribeBrokerLogDirs(t.Context(), broker, kadm.TopicsSet{"a": {0: {}}})
		if err != nil {
			t.Fatal(err)
		}
		dirs.EachPartition(func(p kadm.DescribedLogDirPartition) {
			if p.IsFuture {
				future, lag = p.Dir, p.OffsetLag
			} else {
				current = p.Dir
			}
		})
		return current, future, lag
	}
	other := map[string]string{"/one": "/two", "/two": "/one"}
	was1, _, _ := where(1)
	was2, _, _ := where(2)
	plan := func(dir1, dir2 string) string {
		return writeFile(t, "plan", fmt.Sprintf(`{"version":1,"partitions":[{"topic":"a","partition":0,"replicas":[1,2],"log_dirs":[%q,%q]}]}`, dir1, dir2))
	}
	away := plan(other[was1], other[was2])
	rate := func(bytes string) {
		t.Helper()
		alter := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "replica.alter.log.dirs.io.max.bytes.per.second", Value: &bytes}}
		if _, err := admin.AlterBrokerConfigs(t.Context(), alter); err != nil {
			t.Fatal(err)
		}
	}
	rate("0")
	in := func(dir string) func() bool {
		return func() bool {
			at, future, _ := where(1)
			return at == dir && future == ""
		}
	}
	eventually(t, "moves are throttled", func() bool {
		set, err := admin.DescribeBrokerConfigs(t.Context(), 1, 2)
		throttled := 0
		for _, broker := range set {
			for _, c := range broker.Configs {
				if c.Key == "replica.alter.log.dirs.io.max.bytes.per.second" && c.MaybeValue() == "0" {
					throttled++
				}
			}
		}
		return err == nil && throttled == 2
	})
	code, out, errs := c.run("", "reassign-partitions", "--execute", "--reassignment-json-file", away)
	if code != exitOK || strings.Count(out, "Successfully started moving log directory to ") != 2 {
		t.Fatalf("execute: %d\n%s%s", code, out, errs)
	}
	if at, future, lag := where(1); at != was1 || future != other[was1] || lag != 20 {
		t.Errorf("on its way: in %s, to %s, %d behind", at, future, lag)
	}
	code, out, errs = c.run("", "reassign-partitions", "--verify", "--preserve-throttles", "--reassignment-json-file", away)
	if code != exitOK || strings.Count(out, "is still in progress.") != 2 {
		t.Errorf("verify: %d\n%s%s", code, out, errs)
	}
	// Broker 1 stays where it is.
	code, out, errs = c.run("", "reassign-partitions", "--execute", "--additional", "--reassignment-json-file", plan(was1, other[was2]))
	if code != exitOK || !in(was1)() {
		t.Errorf("called off: %d\n%s%s", code, out, errs)
	}
	code, out, errs = c.run("", "reassign-partitions", "--execute", "--additional", "--reassignment-json-file", away)
	if code != exitOK {
		t.Errorf("once more: %d\n%s%s", code, out, errs)
	}
	rate("1000000")
	eventually(t, "both have moved", func() bool {
		code, out, _ := c.run("", "reassign-partitions", "--verify", "--preserve-throttles", "--reassignment-json-file", away)
		return code == exitOK && strings.Count(out, "completed successfully.") == 2
	})
	produce(t, c, "a", 1)
	records := c.kgo(t, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"a": {0: kgo.NewOffset().AtStart()}}))
	for seen := 0; seen < 40; {
		got := records.PollFetches(t.Context())
		if err := got.Err(); err != nil {
			t.Fatal(err)
		}
		seen += got.NumRecords()
	}
	// The tool names a directory that is none of the broker's.
	c.fails(t, exitFailure, "LOG_DIR_NOT_FOUND", "reassign-partitions", "--execute", "--reassignment-json-file", plan("/three", "any"))
}

func TestMovingToolsRefuseNonsense(t *testing.T) {
	c := &cluster{address: "127.0.0.1:1"}
	plan := writeFile(t, "plan", `{"partitions":[{"topic":"t","partition":0,"replicas":[1]}]}`)
	for _, x := range []struct{ sentence, args string }{
		{"exactly one action", "reassign-partitions"},
		{"exactly one action", "reassign-partitions --list --verify"},
		{"--generate needs --topics-to-move-json-file and --broker-list", "reassign-partitions --generate --broker-list 1"},
		{"--reassignment-json-file is required", "reassign-partitions --execute"},
		{"at least 1024 bytes a second", "reassign-partitions --execute --throttle 5 --reassignment-json-file " + plan},
		{"--throttle cannot be used with this action", "reassign-partitions --verify --throttle 5000 --reassignment-json-file " + plan},
		{"--wait cannot be used with this action", "reassign-partitions --list --wait"},
		{"moldau: --reassignment-json-file /nowhere/plan: no such file or directory\n", "reassign-partitions --verify --reassignment-json-file /nowhere/plan"},
		{"moldau: --topics-to-move-json-file /nowhere/topics: no such file or directory\n", "reassign-partitions --generate --broker-list 1 --topics-to-move-json-file /nowhere/topics"},
		{`: topics is a wrong number; want {"topics": [{"topic": "orders"}], "version": 1}`, "reassign-partitions --generate --broker-list 1 --topics-to-move-json-file " + writeFile(t, "t", `{"topics":3}`)},
		{"moldau: --path-to-json-file /nowhere/parts: no such file or directory\n", "leader-election --election-type preferred --path-to-json-file /nowhere/parts"},
		{"it is no JSON from byte 1 on: ", "leader-election --election-type preferred --path-to-json-file " + writeFile(t, "t", `orders-0`)},
		{"moldau: --offset-json-file /nowhere/offsets: no such file or directory\n", "delete-records --offset-json-file /nowhere/offsets"},
		{`: the document is a wrong array; want {"partitions": `, "delete-records --offset-json-file " + writeFile(t, "t", `[]`)},
		{"moldau: --payload-file /nowhere/values: no such file or directory\n", "producer-perf-test --topic t --num-records 1 --throughput -1 --payload-file /nowhere/values"},
		{"duplicate entries: 1", "reassign-partitions --generate --broker-list 1,1 --topics-to-move-json-file " + writeFile(t, "t", `{"topics":[{"topic":"a"}]}`)},
		{`"x" is no broker id`, "reassign-partitions --generate --broker-list x --topics-to-move-json-file " + writeFile(t, "t", `{"topics":[{"topic":"a"}]}`)},
		{"--election-type is required", "leader-election --all-topic-partitions"},
		{"want preferred or unclean", "leader-election --all-topic-partitions --election-type any"},
		{"one and only one", "leader-election --election-type preferred"},
		{"one and only one", "leader-election --election-type preferred --topic t --partition 1 --all-topic-partitions"},
		{"go together", "leader-election --election-type preferred --topic t"},
		{"duplicate partitions: t-0", "leader-election --election-type preferred --path-to-json-file " + writeFile(t, "t", `{"partitions":[{"topic":"t","partition":0},{"topic":"t","partition":0}]}`)},
		{`"x" is no node id`, "drain x"},
		{"at least 1024 bytes a second", "drain 1 --throttle 1"},
		{"--at-once: at least 1", "drain 1 --at-once 0"},
	} {
		words := strings.Fields(x.args)
		c.fails(t, exitUsage, x.sentence, words[0], words[1:]...)
	}
	for text, want := range map[string]string{
		`{`:                               "unexpected end",
		`{"version":3,"partitions":[{}]}`: "not supported version field value 3",
		`{"version":1}`:                   "partition reassignment list cannot be empty",
		`{"partitions":[{"topic":"t"}]}`:  "entry 1 lacks topic or partition",
		`{"partitions":[{"topic":"t","partition":0}]}`:                                                           "partition replica list cannot be empty: t-0",
		`{"partitions":[{"topic":"t","partition":0,"replicas":[1,1]}]}`:                                          "may not contain duplicate entries: t-0 has 1,1",
		`{"partitions":[{"topic":"t","partition":0,"replicas":[1]},{"topic":"t","partition":0,"replicas":[2]}]}`: "duplicate topic partitions: t-0",
		`{"partitions":[{"topic":"t","partition":0,"replicas":[1,2],"log_dirs":["any"]}]}`:                       "is different from size of log dirs list",
	} {
		if _, err := parseReassignment([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestDrainPlans(t *testing.T) {
	tp := func(i int32) kafka.TopicPartition { return kafka.TopicPartition{Topic: "t", Partition: i} }
	brokers := []brokerAt{{1, "a"}, {2, "a"}, {3, "b"}, {4, "b"}}
	current := assignment{tp(0): {1, 3}, tp(1): {2, 4}, tp(2): {3, 1, 4}, tp(3): {1, 3}, tp(4): {2, 1, 3, 4}}
	under := map[kafka.TopicPartition]move{tp(3): {replicas: []int32{2, 3, 1}, adding: []int32{2}, removing: []int32{1}}}
	plan := planDrain(1, current, under, brokers, false)
	want := assignment{tp(0): {2, 3}, tp(2): {3, 2, 4}} // 2 is the one in the rack that 1 leaves
	if fmt.Sprint(plan.to) != fmt.Sprint(want) || !slices.Equal(plan.stuck, []kafka.TopicPartition{tp(4)}) || fmt.Sprint(plan.under) != fmt.Sprint(assignment{tp(3): {2, 3}}) {
		t.Errorf("plan %+v, want %v", plan, want)
	}
	if plan := planDrain(1, current, under, brokers, true); len(plan.stuck) > 0 || !slices.Equal(plan.to[tp(4)], []int32{2, 3, 4}) {
		t.Errorf("with fewer replicas: %+v", plan)
	}
	if plan := planDrain(9, current, under, brokers, false); len(plan.to)+len(plan.under)+len(plan.stuck) > 0 {
		t.Errorf("of a broker without replicas: %+v", plan)
	}
	// Leaders and replicas of a broker spread over all others.
	wide := assignment{}
	for i := range int32(90) {
		wide[tp(i)] = []int32{1, 2 + i%3}
	}
	plan = planDrain(1, wide, nil, []brokerAt{{1, ""}, {2, ""}, {3, ""}, {4, ""}}, false)
	leads := map[int32]int{}
	for _, replicas := range plan.to {
		leads[replicas[0]]++
	}
	if len(plan.to) != 90 || leads[2] != 30 || leads[3] != 30 || leads[4] != 30 {
		t.Errorf("%d moves, leaders %v", len(plan.to), leads)
	}
}

func TestSpreadOver(t *testing.T) {
	current := assignment{}
	for i := range int32(12) {
		current[kafka.TopicPartition{Topic: "t", Partition: i}] = []int32{9, 8}
	}
	next, err := spreadOver(current, []brokerAt{{1, "a"}, {2, "a"}, {3, "b"}, {4, "b"}})
	if err != nil {
		t.Fatal(err)
	}
	leads, replicas := map[int32]int{}, map[int32]int{}
	for tp, on := range next {
		leads[on[0]]++
		for _, id := range on {
			replicas[id]++
		}
		if len(on) != 2 || (on[0] <= 2) == (on[1] <= 2) {
			t.Errorf("%v is on %v: not in two racks", tp, on)
		}
	}
	for id := range int32(4) {
		if leads[id+1] != 3 || replicas[id+1] != 6 {
			t.Errorf("leaders %v, replicas %v", leads, replicas)
		}
	}
}

func TestTrafficOfAPlan(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 5 << 30: "5.0 GiB", 3 << 50: "3.0 PiB"} {
		if got := byteText(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
	tp := kafka.TopicPartition{Topic: "t"}
	s := sizes{{tp, 1}: 1000, {tp, 2}: 900}
	work := s.work(assignment{tp: {1, 2}}, assignment{tp: {2, 3, 4}})
	if work.replicas != 2 || work.bytes != 2000 || work.String() != "2.0 KiB to copy in 2 replicas: 1000 B to broker 3, 1000 B to broker 4." {
		t.Errorf("%+v %s", work, work)
	}
}
