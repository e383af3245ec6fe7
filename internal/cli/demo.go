package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"moldau/internal/config"
	"moldau/internal/node"
)

// maxDemoNodes bounds a demo: more nodes in one process show nothing new.
const maxDemoNodes = 9

type demo struct {
	nodes int
	port  int
	dir   string
}

func (a *app) demoCommand() *cobra.Command {
	var d demo
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run a cluster of several nodes on this machine, to try things out",
		Long: `Run a cluster of several nodes on this machine, to try things out.

All nodes are in this one process. Every hundredth port from --port on is a broker's, the one after it its controller's.
Without --dir the records are gone when the demo ends.`,
		Example: "  moldau demo --nodes 3\n  moldau demo --nodes 5 --port 19092 --dir ./demo",
		Args:    usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if d.nodes < 1 || d.nodes > maxDemoNodes {
				return &failure{exitUsage, fmt.Errorf("--nodes %d: want from 1 to %d", d.nodes, maxDemoNodes)}
			}
			if d.port < 1 || d.port+100*d.nodes > 65535 {
				return &failure{exitUsage, fmt.Errorf("--port %d: there is no room for %d nodes, a hundred ports apart, below 65536", d.port, d.nodes)}
			}
			if more := d.lives(); more > d.nodes {
				return &failure{exitUsage, fmt.Errorf("%s has the records of %d nodes, and a part of a cluster may wait for the rest: add --nodes %d", d.dir, more, more)}
			}
			return a.demo(cmd.Context(), d)
		},
	}
	cmd.Flags().IntVar(&d.nodes, "nodes", 3, "how many nodes")
	cmd.Flags().IntVar(&d.port, "port", 9092, "of the first broker")
	cmd.Flags().StringVar(&d.dir, "dir", "", "`folder` for the records, one folder below it for each node; kept")
	return cmd
}

// lives is how many nodes an earlier demo has left in --dir.
func (d demo) lives() int {
	for n := maxDemoNodes; n > 0 && d.dir != ""; n-- {
		if _, err := os.Stat(filepath.Join(d.dir, strconv.Itoa(n), metaProperties)); err == nil {
			return n
		}
	}
	return 0
}

func (a *app) demo(ctx context.Context, d demo) (err error) {
	again := fmt.Sprintf("moldau demo --nodes %d", d.nodes)
	if d.dir != "" {
		again += " --dir " + d.dir
	}
	if d.dir == "" {
		if d.dir, err = os.MkdirTemp("", "moldau-demo-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(d.dir)) }()
	}
	log := newLog(a.stdout, config.Logging{Format: "text", Level: "warn"})
	all := &ensemble{failed: make(chan struct{}), over: make(chan struct{}), level: log.level}
	for id := 1; id <= d.nodes; id++ {
		loaded, _, err := config.Load(config.Source{File: fmt.Sprintf("node %d of the demo", id), Text: []byte(d.properties(id))})
		if err != nil {
			return err
		}
		// One of them tells of the process that is all of them.
		n, err := node.Build(node.Options{Config: loaded, Logger: log.With("node", id), LogLevel: log.level, ProcessMetrics: id == 1})
		if err != nil {
			return &failure{exitConfig, err}
		}
		all.nodes = append(all.nodes, n)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	started, err := a.start(ctx, all, log.Logger)
	if err != nil || !started {
		if listening(err) != nil {
			err = fmt.Errorf("%w\nTo use other ports:\n    %s --port %d", err, again, awayFrom(int32(d.port)))
		}
		return err
	}
	fmt.Fprint(a.stdout, d.screen(all.nodes, a.program))
	return a.attend(ctx, all, log.Logger)
}

func (d demo) address(id, offset int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(d.port+100*(id-1)+offset))
}

// properties is the configuration of one node: what a node on a machine of its own would have, and copies of everything.
func (d demo) properties(id int) string {
	var controllers []string
	for other := 1; other <= d.nodes; other++ {
		controllers = append(controllers, d.address(other, 1))
	}
	copies := min(d.nodes, 3)
	return strings.Join([]string{
		"node.id=" + strconv.Itoa(id),
		"listeners=PLAINTEXT://" + d.address(id, 0) + ",CONTROLLER://" + d.address(id, 1),
		"controller.quorum.bootstrap.servers=" + strings.Join(controllers, ","),
		"http.listeners=http://" + d.address(id, 2),
		"log.dirs=" + filepath.Join(d.dir, strconv.Itoa(id)),
		fmt.Sprintf("default.replication.factor=%d", copies),
		fmt.Sprintf("offsets.topic.replication.factor=%d", copies),
		"controlled.shutdown.enable=false", // all stop together
		fmt.Sprintf("min.insync.replicas=%d", (copies+1)/2),
	}, "\n") + "\n"
}

func (d demo) screen(nodes []*node.Node, program string) string {
	var b strings.Builder
	var brokers []string
	fmt.Fprintf(&b, "\nmoldau %s, a cluster of %d nodes, is ready.\n\n", version(), len(nodes))
	for i := range nodes {
		brokers = append(brokers, d.address(i+1, 0))
		fmt.Fprintf(&b, "  node %d      kafka %s, http://%s/metrics\n", i+1, d.address(i+1, 0), d.address(i+1, 2))
	}
	fmt.Fprintf(&b, "  data        %s\n", d.dir)
	fmt.Fprintf(&b, `
In another terminal:
  %[2]s topics --bootstrap-server %[1]s --create --topic greetings --partitions 3
  %[2]s topics --bootstrap-server %[1]s --describe --topic greetings
  echo hello | %[2]s console-producer --bootstrap-server %[1]s --topic greetings

Ctrl-C stops all nodes.

`, strings.Join(brokers, ","), program)
	return b.String()
}

// ensemble is several nodes that start, fail and stop as one.
type ensemble struct {
	nodes  []*node.Node
	failed chan struct{} // closed when one cannot go on
	over   chan struct{} // closed by Stop
	level  *slog.LevelVar
	first  sync.Once
	err    error // why; written before failed is closed
}

// Start starts all nodes at once: none is ready before the others are there.
func (c *ensemble) Start(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := c.each(func(n *node.Node) error {
		err := n.Start(ctx)
		if err != nil {
			cancel() // the others would wait for it
		}
		return err
	})
	for i, err := range errs {
		if err == nil {
			continue
		}
		if !errors.Is(err, context.Canceled) || i == len(errs)-1 {
			for j, n := range c.nodes {
				if errs[j] == nil {
					_ = n.Stop(ctx)
				}
			}
			return fmt.Errorf("node %d: %w", i+1, err)
		}
	}
	for i, n := range c.nodes {
		go func() {
			select {
			case <-n.Failed():
			case <-c.over:
				return
			}
			c.first.Do(func() {
				c.err = fmt.Errorf("node %d: %w", i+1, n.Err())
				close(c.failed)
			})
		}()
	}
	return nil
}

// Stop stops all nodes. Nobody is left to hand leaderships to, and that they miss each other meanwhile is no news.
func (c *ensemble) Stop(ctx context.Context) error {
	close(c.over)
	c.level.Set(slog.LevelError)
	return errors.Join(c.each(func(n *node.Node) error { return n.Stop(ctx) })...)
}

func (c *ensemble) Failed() <-chan struct{} { return c.failed }
func (c *ensemble) Err() error              { return c.err }

func (c *ensemble) Addresses() []node.Address {
	var all []node.Address
	for _, n := range c.nodes {
		all = append(all, n.Addresses()...)
	}
	return all
}

func (c *ensemble) each(do func(*node.Node) error) []error {
	errs := make([]error, len(c.nodes))
	var wg sync.WaitGroup
	for i, n := range c.nodes {
		wg.Go(func() { errs[i] = do(n) })
	}
	wg.Wait()
	return errs
}

var _ running = (*ensemble)(nil)
