package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"moldau/internal/config"
	"moldau/internal/peer"
	"moldau/internal/vfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// base is a node on free ports of loopback.
const base = `process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0
controller.listener.names=CONTROLLER
http.listeners=http://127.0.0.1:0
log.dirs=/disk
`

func options(t *testing.T, properties string, fs vfs.FS) Options {
	t.Helper()
	c, _, err := config.Load(config.Source{File: "test", Text: []byte(properties)})
	if err != nil {
		t.Fatal(err)
	}
	return Options{Config: c, Logger: slog.New(slog.DiscardHandler), FS: fs}
}

func start(t *testing.T, o Options) *Node {
	t.Helper()
	n, err := Build(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return n
}

func stop(t *testing.T, n *Node) {
	t.Helper()
	if err := n.Stop(context.Background()); err != nil {
		t.Errorf("stop: %v", err)
	}
}

func (n *Node) address(name string) string {
	for _, a := range n.Addresses() {
		if a.Name == name {
			return a.Bound
		}
	}
	return ""
}

// ask sends one request on a listener and returns the answer.
func ask[R kmsg.Response](t *testing.T, n *Node, listener string, req kmsg.Request) R {
	t.Helper()
	conn, err := peer.Dial(t.Context(), n.address(listener), peer.Options{
		Dial: func(ctx context.Context, address string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	resp, err := conn.Do(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return resp.(R)
}

func createTopic(t *testing.T, n *Node, name string) {
	t.Helper()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 2, 1
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = 7, 10000
	req.Topics = append(req.Topics, topic)
	resp := ask[*kmsg.CreateTopicsResponse](t, n, "PLAINTEXT", req)
	if code := resp.Topics[0].ErrorCode; code != 0 {
		t.Fatalf("create %s: error %d", name, code)
	}
}

func metadataOf(t *testing.T, n *Node, listener string) *kmsg.MetadataResponse {
	t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 12
	return ask[*kmsg.MetadataResponse](t, n, listener, req)
}

// TestSecondStartFindsEverything: a stop leaves a disk from which the next start goes on, as the same cluster.
func TestSecondStartFindsEverything(t *testing.T) {
	disk := vfs.NewMem()
	n := start(t, options(t, base, disk))
	createTopic(t, n, "orders")
	before := metadataOf(t, n, "PLAINTEXT")
	stop(t, n)

	n = start(t, options(t, base, disk))
	defer stop(t, n)
	after := metadataOf(t, n, "PLAINTEXT")
	if *before.ClusterID != *after.ClusterID {
		t.Errorf("cluster %s became %s", *before.ClusterID, *after.ClusterID)
	}
	if len(after.Topics) != 1 || *after.Topics[0].Topic != "orders" || after.Topics[0].TopicID != before.Topics[0].TopicID || len(after.Topics[0].Partitions) != 2 {
		t.Errorf("topics after the second start: %+v", after.Topics)
	}
}

// TestEachListenerHasItsAddress: a client is told the address that belongs to the listener it came in on.
func TestEachListenerHasItsAddress(t *testing.T) {
	properties := strings.Replace(base, "listeners=PLAINTEXT://127.0.0.1:0,",
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,OUTSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT\n"+
			"advertised.listeners=PLAINTEXT://127.0.0.1:7001,OUTSIDE://kafka.example.com:7002\n"+
			"listeners=PLAINTEXT://127.0.0.1:0,OUTSIDE://127.0.0.1:0,", 1)
	n := start(t, options(t, properties, vfs.NewMem()))
	defer stop(t, n)
	for listener, want := range map[string]string{"PLAINTEXT": "127.0.0.1:7001", "OUTSIDE": "kafka.example.com:7002"} {
		b := metadataOf(t, n, listener).Brokers[0]
		if got := fmt.Sprintf("%s:%d", b.Host, b.Port); got != want {
			t.Errorf("on listener %s the broker is at %s, want %s", listener, got, want)
		}
	}
}

// taken is a listen function that finds some ports in use.
func taken(ports ...string) func(string) (net.Listener, error) {
	return func(address string) (net.Listener, error) {
		for _, port := range ports {
			if strings.HasSuffix(address, ":"+port) {
				return nil, &net.OpError{Op: "listen", Net: "tcp", Err: syscall.EADDRINUSE}
			}
		}
		if strings.HasSuffix(address, ":9092") {
			address = "127.0.0.1:0" // nothing of a test may sit on Kafka's own port
		}
		return net.Listen("tcp", address)
	}
}

// TestPortsNobodyChoseMove: with no configuration at all the controller's and the HTTP port give way, Kafka's does not.
func TestPortsNobodyChoseMove(t *testing.T) {
	o := Options{Config: config.Default(), Logger: slog.New(slog.DiscardHandler), FS: vfs.NewMem(), Listen: taken("9093", "9644")}
	n := start(t, o)
	moved := 0
	for _, a := range n.Addresses() {
		if a.Moved {
			moved++
		}
	}
	stop(t, n)
	if moved != 2 {
		t.Errorf("%d listeners moved, want 2", moved)
	}

	disk := vfs.NewMem()
	o.FS, o.Listen = disk, taken("9092")
	n, err := Build(o)
	if err != nil {
		t.Fatal(err)
	}
	err = n.Start(t.Context())
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), "listeners") || !strings.Contains(err.Error(), "127.0.0.1:9092") {
		t.Errorf("with 9092 taken: %v", err)
	}
	if entries, err := disk.List("."); err == nil && len(entries) > 0 {
		t.Errorf("a node that could not listen has written %v", entries)
	}
}

// TestDiskIsLocked: a second node on the same directory does not start, and says which directory.
func TestDiskIsLocked(t *testing.T) {
	disk := vfs.NewMem()
	n := start(t, options(t, base, disk))
	defer stop(t, n)
	second, err := Build(options(t, base, disk))
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Start(t.Context()); !errors.Is(err, vfs.ErrLocked) || !strings.Contains(err.Error(), "/disk") {
		t.Errorf("second node: %v", err)
	}
}

// TestForeignDisk: data of another node or cluster is refused and not touched.
func TestForeignDisk(t *testing.T) {
	disk := vfs.NewMem()
	n := start(t, options(t, base, disk))
	stop(t, n)
	for setting, word := range map[string]string{"node.id=2": "node.id", "cluster.id=AAAAAAAAAAAAAAAAAAAAAQ": "cluster"} {
		key, _, _ := strings.Cut(setting, "=")
		properties := base + setting + "\n"
		if key == "node.id" {
			properties = strings.Replace(base, "node.id=1", setting, 1)
		}
		other, err := Build(options(t, properties, disk))
		if err != nil {
			t.Fatal(err)
		}
		if err := other.Start(t.Context()); !errors.Is(err, ErrData) || !strings.Contains(err.Error(), word) {
			t.Errorf("with %s: %v", setting, err)
		}
	}
}

// TestProbes: what probes and Prometheus ask for.
func TestProbes(t *testing.T) {
	n := start(t, options(t, base, vfs.NewMem()))
	defer stop(t, n)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for path, want := range map[string]string{
		"/livez": "ok", "/clients": "[]", "/readyz": "ok", "/startupz": "100%", "/metrics": "moldau_metadata_high_watermark", "/debug/pprof/": "goroutine",
	} {
		resp, err := client.Get("http://" + n.address("HTTP") + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
			t.Errorf("%s: %d %v, no %q in\n%s", path, resp.StatusCode, err, want, body)
		}
	}
}

// TestFailedMetadataDisk: a node whose metadata log cannot be written says so and ends, rather than going on half alive.
func TestFailedMetadataDisk(t *testing.T) {
	disk := vfs.NewInject(vfs.NewMem())
	n := start(t, options(t, base, disk))
	defer func() { _ = n.Stop(context.Background()) }()
	disk.SetRules(vfs.OnOp(vfs.OpSyncData, "__cluster_metadata-0/*.log", syscall.EIO))
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "never", 1, 1
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = 7, 1000
	req.Topics = append(req.Topics, topic)
	resp := ask[*kmsg.CreateTopicsResponse](t, n, "PLAINTEXT", req)
	if resp.Topics[0].ErrorCode == 0 {
		t.Error("a topic was created that no disk has")
	}
	select {
	case <-n.Failed():
	case <-time.After(time.Minute):
		t.Fatal("the node lives on")
	}
	if !errors.Is(n.Err(), syscall.EIO) {
		t.Errorf("it failed with %v", n.Err())
	}
	if err := n.alive(); err == nil {
		t.Error("/livez says ok")
	}
}

// TestMetricsAreInOrder: names, types and texts are as Prometheus wants them.
func TestMetricsAreInOrder(t *testing.T) {
	n := start(t, options(t, base, vfs.NewMem()))
	defer stop(t, n)
	families, err := n.metrics.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil || len(problems) > 0 || len(families) < 50 {
		t.Errorf("%d metrics, %v: %v", len(families), err, problems)
	}
}
