package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"moldau/internal/config"
	"moldau/internal/kafka"
	"moldau/internal/node"
)

// running is a node as serve drives it. *node.Node is one.
type running interface {
	Start(ctx context.Context) error
	Stop(ctx context.Context) error
	Failed() <-chan struct{}
	Err() error
	Addresses() []node.Address
}

// numbered is a node that may learn its number only when it starts.
type numbered interface{ ID() kafka.NodeID }

func buildNode(c *config.Config, log nodeLog) (running, error) {
	return node.Build(node.Options{Config: c, Logger: log.Logger, LogLevel: log.level, ProcessMetrics: true})
}

func (a *app) serveCommand() *cobra.Command {
	var overrides []string
	var format string
	cmd := &cobra.Command{
		Use:   "serve [FILE]",
		Short: "Run a node with Kafka's server.properties, or without a file on loopback",
		Example: "  moldau serve\n  moldau serve config/server.properties\n" +
			"  moldau serve config/server.properties --override node.id=2 --override log.dirs=/data/2\n" +
			"  KAFKA_NODE_ID=2 MOLDAU_LOG_DIRS=/data/2 moldau serve",
		Args: usage(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("log-format") {
				overrides = append(overrides, "log.format="+format)
			}
			return a.serve(cmd.Context(), args, overrides)
		},
	}
	cmd.Flags().StringArrayVar(&overrides, "override", nil, "set one key of the configuration, as `key=value`; may be repeated")
	cmd.Flags().StringVar(&format, "log-format", "text", "how log lines look: `text or json`")
	return cmd
}

func (a *app) serve(ctx context.Context, files, overrides []string) error {
	loaded, warnings, err := a.readConfig(files, overrides)
	if err != nil {
		return err
	}
	cfg := loaded.Node()
	log := newLog(a.stdout, cfg.Log)
	logger := log.Logger
	for _, w := range warnings {
		logger.Warn(w.String(), "component", "config")
	}
	n, err := a.build(loaded, log)
	if err != nil {
		return &failure{exitConfig, err}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if started, err := a.start(ctx, n, logger); err != nil || !started {
		return cured(err, cfg)
	}
	if a.terminal && cfg.Log.Format == "text" {
		if one, ok := n.(numbered); ok {
			cfg.ID = one.ID()
		}
		fmt.Fprint(a.stdout, screen(cfg, n.Addresses(), a.program))
	}
	return a.attend(ctx, n, logger)
}

// readConfig reads the file, if there is one, and the environment, and checks everything.
func (a *app) readConfig(files, overrides []string) (*config.Config, []config.Warning, error) {
	src := config.Source{Env: a.env, Overrides: overrides, Here: isThisMachine}
	if len(files) > 0 {
		text, err := os.ReadFile(files[0])
		if err != nil {
			return nil, nil, &failure{exitConfig, fmt.Errorf("cannot read the configuration: %w", err)}
		}
		src.File, src.Text = files[0], text
	}
	loaded, warnings, err := config.Load(src)
	if err != nil {
		return nil, warnings, fmt.Errorf("the configuration is wrong:\n%w", err)
	}
	return loaded, warnings, nil
}

// isThisMachine tells whether a host in zookeeper.connect is the machine that this process runs on: it has the machine's name,
// or an address of one of its interfaces.
func isThisMachine(host string) bool {
	if name, err := os.Hostname(); err == nil && strings.EqualFold(name, host) {
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	found, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		return false
	}
	interfaces, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	return slices.ContainsFunc(interfaces, func(own net.Addr) bool {
		ip, _, err := net.ParseCIDR(own.String())
		return err == nil && slices.Contains(found, ip.String())
	})
}

// start starts the node. A signal meanwhile gives the start up, which is what was asked for and no failure.
func (a *app) start(ctx context.Context, n running, logger *slog.Logger) (started bool, err error) {
	signal.Ignore(syscall.SIGPIPE) // who reads the log through a pipe may go; the node stays
	starting, giveUp := context.WithCancel(ctx)
	defer giveUp()
	done := make(chan error, 1)
	go func() { done <- n.Start(starting) }()
	select {
	case err := <-done:
		return err == nil, err
	case s := <-a.signals:
		logger.Info("giving up the start; once more stops at once", "signal", s.String())
	}
	giveUp()
	return false, a.unlessHurried(func() error {
		if err := <-done; err != nil {
			return nil // the node has taken itself down
		}
		return n.Stop(ctx)
	})
}

// errHurry ends the process while the node still runs. Whoever asks twice does not want to wait; the next start recovers,
// as after a crash.
var errHurry = errors.New("stopped at once, without a clean shutdown; the next start will recover")

// attend waits for a signal or the node's failure, and stops it.
func (a *app) attend(ctx context.Context, n running, logger *slog.Logger) error {
	var failure error
	select {
	case s := <-a.signals:
		logger.Info("stopping; once more stops at once", "signal", s.String())
	case <-n.Failed():
		failure = n.Err()
		logger.Error("the node cannot go on", "error", failure)
	}
	err := a.unlessHurried(func() error { return n.Stop(ctx) })
	if errors.Is(err, errHurry) {
		return err
	}
	return errors.Join(failure, err)
}

// unlessHurried waits for what ends a node, unless a signal asks once more.
func (a *app) unlessHurried(end func() error) error {
	ended := make(chan error, 1)
	go func() { ended <- end() }()
	// A shell, or a program such as timeout, sends a signal to the process and then to its whole group: for a moment
	// another is an echo of the first, and nobody asking twice.
	select {
	case err := <-ended:
		return err
	case <-time.After(a.echo):
	}
	if a.echo > 0 && len(a.signals) > 0 {
		<-a.signals
	}
	select {
	case err := <-ended:
		return err
	case <-a.signals:
		return errHurry
	}
}
