package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/storage"
	"moldau/internal/vfs"
	"moldau/test/harness"
)

// TestNumbersFromTheControllers: brokers without broker.id that are none of the nodes in zookeeper.connect get the next numbers after
// those, two at a time as well as one after the other. They keep them; a number that was given and could not be kept is nobody's.
func TestNumbersFromTheControllers(t *testing.T) {
	needLoopback(t)
	ports := harness.FreePorts(t, 3)
	connect := fmt.Sprintf("zookeeper.connect=127.0.0.1:%d,127.0.0.2:%d\nhttp.listeners=http://127.0.0.1:0\nlog.dirs=/disk\n", ports[2], ports[2])
	var first []string
	for i := range 2 {
		host := fmt.Sprintf("127.0.0.%d", i+1)
		first = append(first, fmt.Sprintf("listeners=PLAINTEXT://%s:%d,CONTROLLER://%s:%d\ncontroller.listener.names=CONTROLLER\n", host, ports[0], host, ports[1])+connect)
	}
	nodes := startAll(t, first, []*vfs.Mem{vfs.NewMem(), vfs.NewMem()})
	defer stopAll(t, nodes)
	// Those that join call the others by names, as hosts do that are not the same machine.
	joining := "process.roles=broker\nbroker.id=-1\nlisteners=PLAINTEXT://127.0.0.1:0\nhttp.listeners=http://127.0.0.1:0\nlog.dirs=/disk\n" +
		fmt.Sprintf("controller.quorum.bootstrap.servers=one:%d,two:%d\nzookeeper.connect=one:2181,two:2181\n", ports[1], ports[1])
	build := func(disk vfs.FS) *Node {
		o := options(t, joining, disk)
		o.Dial = func(ctx context.Context, address string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", strings.NewReplacer("one", "127.0.0.1", "two", "127.0.0.2").Replace(address))
		}
		n, err := Build(o)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	join := func(disks ...*vfs.Mem) (joined []*Node, ids []kafka.NodeID) {
		var starting sync.WaitGroup
		for _, disk := range disks {
			n := build(disk)
			joined = append(joined, n)
			starting.Go(func() {
				if err := n.Start(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		starting.Wait()
		for _, n := range joined {
			ids = append(ids, n.ID())
		}
		return joined, ids
	}

	disks := []*vfs.Mem{vfs.NewMem(), vfs.NewMem()}
	more, ids := join(disks...)
	if !slices.Equal(slices.Sorted(slices.Values(ids)), []kafka.NodeID{1003, 1004}) {
		t.Errorf("numbers %v", ids)
	}
	awaitBrokers(t, nodes[0], 1001, 1002, 1003, 1004)
	stopAll(t, more)
	for i, disk := range disks {
		if id, ok := storage.KeptNodeID(disk, []string{"/disk"}); !ok || id != ids[i] {
			t.Errorf("node %d has kept %d", ids[i], id)
		}
	}
	more, again := join(disks...)
	if !slices.Equal(again, ids) {
		t.Errorf("numbers %v after a restart, were %v", again, ids)
	}
	stopAll(t, more)

	disk := vfs.NewMem()
	broken := errors.New("the disk is gone")
	n := build(vfs.NewInject(disk, vfs.OnOp(vfs.OpRename, "meta.properties", broken)))
	if err := n.Start(t.Context()); !errors.Is(err, broken) || n.ID() != kafka.NoNode {
		t.Errorf("node %d started on a disk that keeps nothing: %v", n.ID(), err)
	}
	more, ids = join(disk)
	if ids[0] != 1006 {
		t.Errorf("number %d, want 1006: 1005 was given", ids[0])
	}
	stopAll(t, more)
}

// TestNobodyGivesNumbers: where no controller is, the start ends and says what to write.
func TestNobodyGivesNumbers(t *testing.T) {
	text := "process.roles=broker\nlisteners=PLAINTEXT://127.0.0.1:0\nzookeeper.connect=192.0.2.1:2181\nhttp.listeners=http://127.0.0.1:0\nlog.dirs=/disk\n" +
		"initial.broker.registration.timeout.ms=1000\n"
	o := options(t, text, vfs.NewMem())
	refused := errors.New("refused")
	o.Dial = func(context.Context, string) (net.Conn, error) { return nil, refused }
	n, err := Build(o)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	err = n.Start(t.Context())
	if !errors.Is(err, refused) || !strings.Contains(err.Error(), "set broker.id") || !strings.Contains(err.Error(), "192.0.2.1:9093") {
		t.Errorf("%v", err)
	}
	if took := time.Since(began); took < time.Second || took > 20*time.Second {
		t.Errorf("it gave up after %v", took)
	}
}
