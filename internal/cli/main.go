package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"moldau/internal/config"
)

// app is one invocation of the binary and its surroundings.
type app struct {
	program        string // what to type to run this binary again
	stdin          io.Reader
	stdout, stderr io.Writer
	terminal       bool             // stdout is one: somebody reads along
	watched        bool             // stderr is one: progress has somebody to see it
	signals        <-chan os.Signal // SIGINT and SIGTERM
	echo           time.Duration    // so long after a signal another is the same one, sent twice
	env            []string         // "NAME=value", as os.Environ returns it
	build          func(c *config.Config, log nodeLog) (running, error)
}

// Main runs the command that os.Args names and returns the exit code of the process.
func Main() int {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)
	a := &app{program: calledAs(os.Args[0]), stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, terminal: isTerminal(os.Stdout), watched: isTerminal(os.Stderr), signals: signals, echo: 300 * time.Millisecond, env: os.Environ(), build: buildNode}
	return a.run(os.Args[1:])
}

func (a *app) run(args []string) int {
	root := a.root()
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) { // not before a tool that has no use for it
		if err := a.completing(root); err != nil {
			return exitFailure
		}
	}
	root.SetArgs(append([]string{}, args...)) // nil would mean those of the process
	cmd, err := root.ExecuteContextC(context.Background())
	if err == nil {
		return exitOK
	}
	fmt.Fprintln(a.stderr, "moldau: "+err.Error())
	var f *failure
	if code := exitCode(err); code != exitUsage || !errors.As(err, &f) {
		return code
	}
	fmt.Fprintf(a.stderr, "Try '%s --help'.\n", cmd.CommandPath())
	return exitUsage
}

func (a *app) root() *cobra.Command {
	serve := a.serveCommand()
	root := &cobra.Command{
		Use:   "moldau",
		Short: "A broker for Apache Kafka's clients, in one binary",
		Long: `A broker for Apache Kafka's clients, in one binary.

Without a command moldau starts a node on this machine: Kafka on 127.0.0.1:9092, records in ./data.`,
		Example:       "  moldau\n  moldau serve config/server.properties --override log.dirs=/var/lib/moldau",
		Args:          usage(cobra.NoArgs),
		RunE:          serve.RunE,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.Flags().AddFlagSet(serve.Flags())
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &failure{exitUsage, err} })
	root.AddCommand(serve, a.demoCommand(), a.storageCommand(), a.topicsCommand(), a.consoleProducerCommand(), a.consoleConsumerCommand(), a.getOffsetsCommand(), a.configsCommand(),
		a.deleteRecordsCommand(), a.logDirsCommand(), a.clusterCommand(), a.metadataQuorumCommand(), a.apiVersionsCommand(), a.dumpLogCommand(), a.verifyLogCommand(), a.consumerGroupsCommand(),
		a.perfProducerCommand(), a.perfConsumerCommand(), a.groupsCommand(), a.featuresCommand(), a.clientMetricsCommand(), a.e2eLatencyCommand(), a.verifiableProducerCommand(), a.verifiableConsumerCommand(), a.zookeeperShellCommand(), a.simpleConsumerShellCommand(), a.reassignCommand(), a.leaderElectionCommand(), a.preferredElectionCommand(), a.drainCommand(), a.tailCommand(), a.clientsCommand(), a.doctorCommand(), a.versionCommand())
	return root
}

// usage makes a mistake in the arguments an exitUsage.
func usage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return &failure{exitUsage, err}
		}
		return nil
	}
}

// isTerminal tells whether a person probably reads f.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
