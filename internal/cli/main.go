package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
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
	pipe           *os.File         // what stdout is, to see whether somebody reads it; nil: somebody does
	terminal       bool             // stdout is one: somebody reads along
	watched        bool             // stderr is one: progress has somebody to see it
	screen         io.Writer        // stderr, for progress alone
	waiting        *progress        // what is shown while a cluster is asked; gone with the first output
	signals        <-chan os.Signal // that end it: SIGINT, SIGTERM, SIGHUP
	echo           time.Duration    // so long after a signal another is the same one, sent twice
	env            []string         // "NAME=value", as os.Environ returns it
	again          func()           // makes this process what a node wants, which may execute it again; nil: it stays as it is
	build          func(c *config.Config, log nodeLog) (running, error)
}

// Main runs the command that os.Args names and returns the exit code of the process. It is called on the process's first thread, the
// only one that can execute another program without losing what the parent has asked the kernel for, such as a signal at its
// own death; the goroutine is unlocked from it.
func Main() int {
	ends := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as it is under nohup
		ends = append(ends, syscall.SIGHUP)
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, ends...)
	defer signal.Stop(signals)
	a := &app{
		program: calledAs(os.Args[0]),
		stdin:   os.Stdin, stdout: os.Stdout, pipe: os.Stdout, stderr: os.Stderr,
		terminal: isTerminal(os.Stdout), watched: isTerminal(os.Stderr),
		signals: signals, echo: 300 * time.Millisecond,
		env:   slices.DeleteFunc(os.Environ(), func(v string) bool { return v == startedAgain }),
		again: coarseTimers,
		build: buildNode,
	}
	return a.run(os.Args[1:])
}

func (a *app) run(args []string) int {
	a.screen = a.stderr
	a.stdout, a.stderr = printed{a.stdout, a}, printed{a.stderr, a}
	root := a.root()
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) { // not before a tool that has no use for it
		if err := a.completing(root); err != nil {
			return exitFailure
		}
	}
	if cmd, _, err := root.Find(args); err == nil && (cmd == root || cmd.Name() == "serve") && a.again != nil {
		a.again()
	}
	runtime.UnlockOSThread()
	root.SetArgs(append([]string{}, args...)) // nil would mean those of the process
	cmd, err := root.ExecuteContextC(context.Background())
	if err == nil {
		return exitOK
	}
	if cmd == root {
		if unknown := unknownCommand(root, args); unknown != nil {
			err = unknown
		}
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
	root.SetFlagErrorFunc(wrongFlag)
	root.AddCommand(
		serve, a.demoCommand(), a.storageCommand(),
		a.topicsCommand(), a.configsCommand(), a.deleteRecordsCommand(), a.getOffsetsCommand(),
		a.consoleProducerCommand(), a.consoleConsumerCommand(), a.tailCommand(), a.simpleConsumerShellCommand(),
		a.consumerGroupsCommand(), a.groupsCommand(),
		a.clusterCommand(), a.metadataQuorumCommand(), a.featuresCommand(), a.apiVersionsCommand(), a.clientMetricsCommand(),
		a.reassignCommand(), a.leaderElectionCommand(), a.preferredElectionCommand(), a.drainCommand(), a.logDirsCommand(),
		a.dumpLogCommand(), a.verifyLogCommand(),
		a.perfProducerCommand(), a.perfConsumerCommand(), a.e2eLatencyCommand(), a.verifiableProducerCommand(), a.verifiableConsumerCommand(),
		a.clientsCommand(), a.doctorCommand(), a.zookeeperShellCommand(), a.versionCommand(),
	)
	checkOwn(root)
	return root
}
