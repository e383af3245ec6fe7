package cli

import (
	"context"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"moldau/internal/config"
)

// completionTimeout is how long a shell is kept waiting for a cluster. Nothing is suggested when it is over.
// Tests of what is suggested wait longer.
var completionTimeout = time.Second

// suggestions are the words that may stand behind a flag, and what the shell does with one.
type suggestions func(cmd *cobra.Command) ([]string, cobra.ShellCompDirective)

// completing makes commands suggest names of the cluster, keys and words to a shell: a flag of a name means the same
// whichever tool has it. What has no suggestions of its own gets none, or files where it wants one.
func (a *app) completing(root *cobra.Command) error {
	for _, cmd := range root.Commands() {
		var failed error
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			suggest := a.suggestions(f.Name)
			if suggest == nil || failed != nil {
				return
			}
			failed = cmd.RegisterFlagCompletionFunc(f.Name, func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
				return begunWith(begun, suggest, cmd)
			})
		})
		if failed != nil {
			return failed
		}
		if cmd.Name() == "tail" {
			cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
				if len(args) > 0 {
					return nil, cobra.ShellCompDirectiveNoFileComp
				}
				return begunWith(begun, a.topicNames, cmd)
			}
		}
	}
	return nil
}

// begunWith leaves those words that go on with what was typed.
func begunWith(begun string, suggest suggestions, cmd *cobra.Command) ([]string, cobra.ShellCompDirective) {
	words, then := suggest(cmd)
	return slices.DeleteFunc(words, func(w string) bool { return !strings.HasPrefix(w, begun) }), then
}

// suggestions returns those for a flag's name; nil leaves it to the shell, which offers files.
func (a *app) suggestions(flag string) suggestions {
	switch flag {
	case "topic":
		return a.topicNames
	case "group":
		return a.groupNames
	case "broker", "broker-logger", "id":
		return a.brokerIDs
	case "config", "add-config":
		return settings("=", cobra.ShellCompDirectiveNoSpace|cobra.ShellCompDirectiveNoFileComp)
	case "delete-config":
		return settings("", cobra.ShellCompDirectiveNoFileComp)
	case "files", "payload-file", "offset-json-file", "from-file", "add-config-file", "command-config", "formatter-config", "reader-config", "config-file":
		return nil
	}
	words := map[string][]string{
		"output": {"text", "json"}, "compression-codec": {"none", "gzip", "snappy", "lz4", "zstd"}, "request-required-acks": {"-1", "0", "1", "all"},
		"isolation-level": {"read_uncommitted", "read_committed"}, "partitioner": {"default", "round-robin"}, "color": {"auto", "always", "never"},
		"offset": {"earliest", "latest"}, "time": offsetTimes(), "log-format": {"text", "json"}, "key-distribution": {"none", "range", "random"},
		"state": {"Stable", "Empty", "PreparingRebalance", "CompletingRebalance", "Dead"}, "type": {"classic", "consumer"}, "group-type": {"classic", "consumer", "share", "streams"},
		"formatter": {"org.apache.kafka.tools.consumer.DefaultMessageFormatter", "org.apache.kafka.tools.consumer.LoggingMessageFormatter",
			"org.apache.kafka.tools.consumer.NoOpMessageFormatter", "org.apache.kafka.tools.consumer.OffsetsMessageFormatter",
			"org.apache.kafka.tools.consumer.GroupMetadataMessageFormatter", "org.apache.kafka.tools.consumer.TransactionLogMessageFormatter"},
		"formatter-property": {"print.timestamp=true", "print.partition=true", "print.offset=true", "print.epoch=true", "print.headers=true",
			"print.key=true", "print.value=false", "key.separator=", "line.separator=", "null.literal="},
		"reader-property": {"parse.key=true", "parse.headers=true", "key.separator=", "null.marker=", "ignore.error=true"},
	}[flag]
	if flag == "entity-type" {
		for _, kind := range configKinds {
			words = append(words, kind.entityType)
		}
	}
	return func(*cobra.Command) ([]string, cobra.ShellCompDirective) {
		return slices.Clone(words), cobra.ShellCompDirectiveNoFileComp
	}
}

// asked asks the cluster that the command line names. A broker that is away, slow or refuses makes no suggestions, and no
// noise on a line that somebody is typing.
func (a *app) asked(cmd *cobra.Command, ask func(ctx context.Context, cl *client) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	c := &clusterFlags{}
	c.bootstrap, _ = cmd.Flags().GetString("bootstrap-server")
	c.zookeeper, _ = cmd.Flags().GetString("zookeeper")
	c.configFile, _ = cmd.Flags().GetString("command-config")
	c.properties, _ = cmd.Flags().GetStringArray("command-property")
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	cl, err := (&app{stderr: io.Discard}).connect(ctx, c)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer cl.Close()
	words, _ := ask(ctx, cl)
	return words, cobra.ShellCompDirectiveNoFileComp
}

func (a *app) topicNames(cmd *cobra.Command) ([]string, cobra.ShellCompDirective) {
	return a.asked(cmd, func(ctx context.Context, cl *client) ([]string, error) {
		return cl.topicsMatching(ctx, "", false, false)
	})
}

func (a *app) groupNames(cmd *cobra.Command) ([]string, cobra.ShellCompDirective) {
	return a.asked(cmd, func(ctx context.Context, cl *client) ([]string, error) {
		listed, err := cl.admin.ListGroups(ctx)
		return listed.Groups(), err
	})
}

func (a *app) brokerIDs(cmd *cobra.Command) ([]string, cobra.ShellCompDirective) {
	return a.asked(cmd, func(ctx context.Context, cl *client) ([]string, error) {
		brokers, err := cl.admin.ListBrokers(ctx)
		var words []string
		for _, id := range brokers.NodeIDs() {
			words = append(words, strconv.Itoa(int(id)))
		}
		return words, err
	})
}

// settings suggests the keys of what the command line is about: of brokers those that can change while one runs.
func settings(end string, then cobra.ShellCompDirective) suggestions {
	return func(cmd *cobra.Command) ([]string, cobra.ShellCompDirective) {
		types, _ := cmd.Flags().GetStringArray("entity-type")
		scope := config.TopicScope
		if slices.Contains(types, "brokers") || cmd.Flags().Changed("broker") || cmd.Flags().Changed("broker-defaults") {
			scope = config.BrokerScope
		}
		var words []string
		for _, row := range config.Rows(scope) {
			if scope == config.TopicScope || row.Dynamic != config.ReadOnly {
				words = append(words, row.Name+end)
			}
		}
		return words, then
	}
}
