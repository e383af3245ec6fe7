package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"moldau/test/harness"
)

// fetch fetches what the tests need from elsewhere. What cannot be had, the test that needs it says.
func fetch() { harness.Prefetch(librdkafka) }

// cluster is some nodes that know of each other.
type cluster struct {
	dir   string
	nodes map[int]*process
}

// process is one node, running or not.
type process struct {
	id         int
	properties string    // path
	broker     bool      // clients know it
	cmd        *exec.Cmd // nil: not running
	done       chan struct{}
	log        string // path of what it prints
}

// prepare makes the places and files of a cluster: node ids 1 to n, each told where the controllers are and nothing else,
// but for extra properties ("key=value").
func prepare(t *testing.T, n int, extra ...string) *cluster {
	t.Helper()
	needNetwork(t)
	c := &cluster{dir: t.TempDir(), nodes: map[int]*process{}}
	var controllers []string
	for id := 1; id <= n; id++ {
		controllers = append(controllers, address(id)+":9093")
	}
	for id := 1; id <= n; id++ {
		c.add(t, id, append([]string{
			"controller.quorum.bootstrap.servers=" + strings.Join(controllers, ","),
			fmt.Sprintf("offsets.topic.replication.factor=%d", min(n, 3)),
			"offsets.topic.num.partitions=4",
			"group.initial.rebalance.delay.ms=0",
		}, extra...)...)
	}
	return c
}

// add makes one more node's place and file.
func (c *cluster) add(t *testing.T, id int, properties ...string) *process {
	t.Helper()
	network().AddPlace(t, namespace(id), id, address(id))
	p := &process{id: id, properties: filepath.Join(c.dir, fmt.Sprintf("%d.properties", id)), log: filepath.Join(c.dir, fmt.Sprintf("%d.log", id))}
	p.write(t, append([]string{
		fmt.Sprintf("node.id=%d", id),
		"listeners=PLAINTEXT://" + address(id) + ":9092",
		"http.listeners=http://" + address(id) + ":9644",
		"log.dirs=" + c.data(id),
	}, properties...)...)
	c.nodes[id] = p
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			text, _ := os.ReadFile(p.log)
			t.Logf("log of node %d:\n%s", id, last(string(text), 6000))
		}
	})
	return p
}

// write writes the node's configuration. Of a key that comes twice the later line counts.
func (p *process) write(t *testing.T, properties ...string) {
	t.Helper()
	var lines []string
	for _, property := range properties {
		key, _, _ := strings.Cut(property, "=")
		lines = slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(line, key+"=") })
		lines = append(lines, property)
	}
	if err := os.WriteFile(p.properties, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	p.broker = !slices.Contains(lines, "process.roles=controller")
}

func last(s string, n int) string {
	if len(s) > n {
		return "…" + s[len(s)-n:]
	}
	return s
}

func (c *cluster) data(id int) string { return filepath.Join(c.dir, fmt.Sprintf("data%d", id)) }

func (c *cluster) ids() []int { return slices.Sorted(maps.Keys(c.nodes)) }

// start starts a cluster of n nodes and waits until all are ready.
func start(t *testing.T, n int, extra ...string) *cluster {
	t.Helper()
	c := prepare(t, n, extra...)
	for _, id := range c.ids() {
		c.nodes[id].spawn(t)
	}
	for _, id := range c.ids() {
		c.nodes[id].ready(t)
	}
	return c
}

func (p *process) spawn(t *testing.T) {
	t.Helper()
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command("ip", "netns", "exec", namespace(p.id), harness.Binary(t), "serve", p.properties)
	cmd.Stdout, cmd.Stderr, cmd.Env = log, log, harness.Environment()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(done)
	}()
	p.cmd, p.done = cmd, done
}

// ready waits until the node serves.
func (p *process) ready(t *testing.T) {
	t.Helper()
	harness.Eventually(t, time.Minute, fmt.Sprintf("node %d is ready", p.id), func() error {
		select {
		case <-p.done:
			text, _ := os.ReadFile(p.log)
			t.Fatalf("node %d ended before it was ready:\n%s", p.id, last(string(text), 4000))
		default:
		}
		return harness.Answers("http://" + address(p.id) + ":9644/readyz")
	})
}

// logged waits until the node has printed a line with all these texts.
func (p *process) logged(t *testing.T, texts ...string) {
	t.Helper()
	harness.Eventually(t, time.Minute, fmt.Sprintf("node %d says %q", p.id, texts), func() error {
		log, _ := os.ReadFile(p.log)
		for line := range strings.Lines(string(log)) {
			if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) }) {
				return nil
			}
		}
		return errors.New("not yet")
	})
}

// gives waits for a node that cannot start to end, and looks for a text in what it says.
func (p *process) gives(t *testing.T, text string) {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(time.Minute):
		t.Fatalf("node %d goes on", p.id)
	}
	if p.cmd.ProcessState.ExitCode() == 0 {
		t.Errorf("node %d ends as if all were well", p.id)
	}
	p.cmd = nil
	p.logged(t, text)
}

// restart starts a node that does not run and waits until it serves.
func (p *process) restart(t *testing.T) {
	t.Helper()
	p.spawn(t)
	p.ready(t)
}

// kill is kill -9.
func (p *process) kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	<-p.done
	p.cmd = nil
}

// stop is SIGTERM, and a wait for the end.
func (p *process) stop(t *testing.T) {
	t.Helper()
	p.signal(t, syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(time.Minute):
		t.Fatalf("node %d did not stop within a minute", p.id)
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("node %d stopped with status %d", p.id, code)
	}
	p.cmd = nil
}

func (p *process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatalf("%v to node %d: %v", s, p.id, err)
	}
}

// halt stops the process where it is, until it is killed or gets SIGCONT.
func (p *process) halt(t *testing.T) {
	t.Helper()
	p.signal(t, syscall.SIGSTOP)
	harness.Eventually(t, time.Minute, fmt.Sprintf("node %d stands still", p.id), func() error {
		if !harness.Halted(p.cmd.Process.Pid) {
			return errors.New("it runs")
		}
		return nil
	})
}

// seeds are the brokers' addresses.
func (c *cluster) seeds() []string {
	var out []string
	for _, id := range c.ids() {
		if c.nodes[id].broker {
			out = append(out, address(id)+":9092")
		}
	}
	return out
}

// client is a client of the whole cluster.
func (c *cluster) client(t *testing.T, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(c.seeds()...),
		kgo.MetadataMinAge(50 * time.Millisecond), kgo.MetadataMaxAge(2 * time.Second),
		kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }),
		kgo.DialTimeout(time.Second),
	}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// tool runs one of our tools against the cluster to its end, and returns standard output; status other than 0 is an error,
// which ends in what the tool says.
func (c *cluster) tool(t *testing.T, name string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, harness.Binary(t), append([]string{name, "--bootstrap-server", strings.Join(c.seeds(), ",")}, args...)...)
	cmd.Env = harness.Environment()
	out, err := harness.Output(cmd, "")
	if err != nil {
		err = fmt.Errorf("%s %v: %w\n%s", name, args, err, out)
	}
	return out, err
}

// must is tool for what has to succeed.
func (c *cluster) must(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := c.tool(t, name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// create makes a topic and waits until every broker that runs knows it: a coordinator takes no commit for a topic it has not heard of.
// That it is there already is fine: a request that nobody answered may have made it.
func (c *cluster) create(t *testing.T, topic string, partitions int32, copies int16, configs map[string]*string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := kadm.NewClient(c.client(t)).CreateTopic(ctx, partitions, copies, configs, topic); err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		t.Fatalf("create %s: %v", topic, err)
	}
	for _, id := range c.ids() {
		if p := c.nodes[id]; p.cmd == nil || !p.broker {
			continue
		}
		harness.Eventually(t, time.Minute, fmt.Sprintf("node %d knows %s", id, topic), func() error {
			_, err := ask(topic, address(id)+":9092")
			return err
		})
	}
}

// describe returns what any broker knows of a topic.
func (c *cluster) describe(topic string) (kadm.TopicDetail, error) { return c.describeBut(0, topic) }

// describeBut is describe, but does not ask one of the nodes.
func (c *cluster) describeBut(but int, topic string) (kadm.TopicDetail, error) {
	return ask(topic, c.seedsBut(but)...)
}

// topic returns what any broker knows of a topic that is there, as soon as one answers.
func (c *cluster) topic(t *testing.T, topic string) (d kadm.TopicDetail) {
	t.Helper()
	harness.Eventually(t, time.Minute, "a broker tells of "+topic, func() (err error) {
		d, err = c.describe(topic)
		return err
	})
	return d
}

// ask returns what one of the brokers at some addresses knows of a topic.
func ask(topic string, addresses ...string) (kadm.TopicDetail, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	cl, err := briefly(addresses)
	if err != nil {
		return kadm.TopicDetail{}, err
	}
	defer cl.Close()
	m, err := kadm.NewClient(cl).Metadata(ctx, topic)
	if err != nil {
		return kadm.TopicDetail{}, err
	}
	return m.Topics[topic], m.Topics[topic].Err
}

// seedsBut are the addresses of all brokers but one.
func (c *cluster) seedsBut(but int) []string {
	return slices.DeleteFunc(c.seeds(), func(seed string) bool { return seed == address(but)+":9092" })
}

// briefly is a client for one question.
func briefly(addresses []string) (*kgo.Client, error) {
	return kgo.NewClient(kgo.SeedBrokers(addresses...), kgo.DialTimeout(time.Second), kgo.RetryTimeout(3*time.Second))
}

// createBut makes a topic with two replicas, asking any node but one. That it is there already is fine: a try before has made it.
func (c *cluster) createBut(but int, topic string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	cl, err := briefly(c.seedsBut(but))
	if err != nil {
		return err
	}
	defer cl.Close()
	_, err = kadm.NewClient(cl).CreateTopic(ctx, 1, 2, nil, topic)
	if errors.Is(err, kerr.TopicAlreadyExists) {
		return nil
	}
	return err
}

// leader returns who leads a partition.
func (c *cluster) leader(t *testing.T, topic string, partition int32) int {
	t.Helper()
	leader := -1
	harness.Eventually(t, time.Minute, fmt.Sprintf("%s-%d has a leader", topic, partition), func() error {
		d, err := c.describe(topic)
		if err != nil {
			return err
		}
		if leader = int(d.Partitions[partition].Leader); leader < 0 {
			return fmt.Errorf("leader %d", leader)
		}
		return nil
	})
	return leader
}

// inSync waits until every partition of a topic has so many replicas in sync, as far as one of some nodes knows, by default of all.
func (c *cluster) inSync(t *testing.T, topic string, n int, of ...int) {
	t.Helper()
	asked := c.seeds()
	if len(of) > 0 {
		asked = nil
		for _, id := range of {
			asked = append(asked, address(id)+":9092")
		}
	}
	harness.Eventually(t, 60*time.Second, fmt.Sprintf("%s has %d replicas in sync", topic, n), func() error {
		d, err := ask(topic, asked...)
		if err != nil {
			return err
		}
		for _, p := range d.Partitions.Sorted() {
			if len(p.ISR) != n || p.Leader < 0 {
				return fmt.Errorf("partition %d: leader %d, in sync %v", p.Partition, p.Leader, p.ISR)
			}
		}
		return nil
	})
}

// controller returns which node's controller is active, asked of the nodes that answer.
func (c *cluster) controller(t *testing.T) int {
	t.Helper()
	leader := -1
	harness.Eventually(t, time.Minute, "there is an active controller", func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		q, err := quorumLeader(ctx, c.client(t))
		leader = q
		return err
	})
	return leader
}

// remove deletes a topic and reports whether nobody knows it any more.
func (c *cluster) remove(ctx context.Context, topic string) error {
	cl, err := briefly(c.seeds())
	if err != nil {
		return err
	}
	defer cl.Close()
	admin := kadm.NewClient(cl)
	if _, err := admin.DeleteTopic(ctx, topic); err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) {
		return err
	}
	topics, err := admin.ListTopics(ctx)
	if err == nil && topics.Has(topic) {
		err = errors.New("it is listed")
	}
	return err
}
