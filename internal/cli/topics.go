package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// topicFlags are those of TopicCommand.
type topicFlags struct {
	list, create, del, alter, describe                             bool
	topic, topicID, assignment                                     string
	config                                                         []string
	partitions, replication                                        int
	underReplicated, unavailable, underMinISR, atMinISR, overrides bool
	ifExists, ifNotExists, excludeInternal, verbose, offsets       bool
	deleteConfig                                                   []string
	partitionsPerResponse                                          int32
}

// topicsCommand is Kafka's kafka-topics.sh (TopicCommand).
func (a *app) topicsCommand() *cobra.Command {
	var f topicFlags
	cmd, c := a.tool("topics", "Create, list, describe, change and delete topics",
		"  moldau topics --create --topic orders --partitions 3 --config retention.ms=3600000\n"+
			"  moldau topics --describe --topic orders\n  moldau topics --list --output json", nil)
	flags := cmd.Flags()
	flags.BoolVar(&f.list, "list", false, "list all topics")
	flags.BoolVar(&f.create, "create", false, "create a topic")
	flags.BoolVar(&f.del, "delete", false, "delete a topic")
	flags.BoolVar(&f.alter, "alter", false, "give a topic more partitions ('configs' is for settings)")
	flags.BoolVar(&f.describe, "describe", false, "tell all about topics")
	flags.StringVar(&f.topic, "topic", "", "the `topic`; a regular expression except with --create")
	flags.StringVar(&f.topicID, "topic-id", "", "the `id` of the topic to describe")
	flags.StringArrayVar(&f.config, "config", nil, "a setting of the new topic, as `key=value`; may be repeated")
	flags.StringArrayVar(&f.deleteConfig, "delete-config", nil, "has had no effect since 4.0")
	flags.IntVar(&f.partitions, "partitions", 0, "how many `partitions` the topic gets; the cluster's num.partitions unless given")
	flags.IntVar(&f.replication, "replication-factor", 0, "`copies` of each partition; the cluster's default.replication.factor unless given")
	flags.StringVar(&f.assignment, "replica-assignment", "", "the brokers of each partition, as `b1:b2,b1:b3,...`")
	flags.BoolVar(&f.underReplicated, "under-replicated-partitions", false, "describe only partitions that lack a copy")
	flags.BoolVar(&f.unavailable, "unavailable-partitions", false, "describe only partitions without a leader")
	flags.BoolVar(&f.underMinISR, "under-min-isr-partitions", false, "describe only partitions with fewer in-sync copies than min.insync.replicas")
	flags.BoolVar(&f.atMinISR, "at-min-isr-partitions", false, "describe only partitions with exactly min.insync.replicas copies in sync")
	flags.BoolVar(&f.overrides, "topics-with-overrides", false, "describe only topics with settings of their own")
	flags.BoolVar(&f.ifExists, "if-exists", false, "a topic that does not exist is no error")
	flags.BoolVar(&f.ifNotExists, "if-not-exists", false, "a topic that exists already is no error")
	flags.BoolVar(&f.excludeInternal, "exclude-internal", false, "leave internal topics out")
	flags.BoolVar(&f.verbose, "verbose", false, "describe leader epochs, too")
	flags.BoolVar(&f.offsets, "offsets", false, "describe leader epochs, and how far each leader's log goes, too")
	flags.Int32Var(&f.partitionsPerResponse, "partition-size-limit-per-response", 2000, "how many `partitions` to ask for at once")
	flags.Bool("disable-rack-aware", false, "taken for Kafka's sake")
	flags.Lookup("disable-rack-aware").Hidden = true
	a.formerly(flags, "force!")
	c.byZooKeeper(flags)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		action, err := exactlyOne(flags, "list", "describe", "create", "alter", "delete")
		configs := []string{"create"}
		if c.zookeeper != "" { // as the tools of that time could
			configs = append(configs, "alter")
		}
		if err == nil {
			err = onlyWith(flags, action, map[string][]string{
				"config": configs, "partitions": {"create", "alter"}, "replication-factor": {"create"}, "replica-assignment": {"create", "alter"},
				"under-replicated-partitions": {"describe"}, "unavailable-partitions": {"describe"}, "under-min-isr-partitions": {"describe"},
				"at-min-isr-partitions": {"describe"}, "topics-with-overrides": {"describe"}, "topic-id": {"describe"}, "verbose": {"describe"}, "offsets": {"describe"},
				"if-exists": {"alter", "delete", "describe"}, "if-not-exists": {"create"}, "exclude-internal": {"list", "describe"},
			})
		}
		switch {
		case err != nil:
		case f.topic == "" && action != "list" && action != "describe":
			err = &failure{exitUsage, fmt.Errorf("--%s needs --topic", action)}
		case f.ifExists && f.describe && f.topic == "" && f.topicID == "":
			err = &failure{exitUsage, errors.New("--describe --if-exists needs --topic or --topic-id")}
		case f.alter && c.zookeeper != "" && len(f.config)+len(f.deleteConfig) > 0:
		case f.alter && f.partitions == 0 && !flags.Changed("partitions"):
			err = &failure{exitUsage, errors.New("--alter needs --partitions; `moldau configs` changes settings")}
		case flags.Changed("partitions") && (f.partitions < 1 || f.partitions > math.MaxInt32):
			err = &failure{exitUsage, errors.New("--partitions has to be greater than 0")}
		case flags.Changed("replication-factor") && (f.replication < 1 || f.replication > math.MaxInt16):
			err = &failure{exitUsage, fmt.Errorf("--replication-factor has to be between 1 and %d", math.MaxInt16)}
		case f.create && f.assignment != "" && (f.partitions > 0 || f.replication > 0):
			err = &failure{exitUsage, errors.New("--replica-assignment says how many partitions and copies there are: leave --partitions and --replication-factor out")}
		}
		if err != nil {
			return err
		}
		if len(f.deleteConfig) > 0 && c.zookeeper == "" {
			fmt.Fprintln(a.stderr, "moldau: warning: --delete-config has no effect; `moldau configs --alter --delete-config` removes settings")
		}
		do := map[string]func(context.Context, *client, *clusterFlags, topicFlags) error{
			"list": a.listTopics, "describe": a.describeTopics, "create": a.createTopic, "alter": a.alterTopics, "delete": a.deleteTopics,
		}[action]
		return a.on(cmd.Context(), c, func(ctx context.Context, cl *client) error { return do(ctx, cl, c, f) })
	}
	return cmd
}

// topicsMatching lists the topics that a tool's --topic means, sorted. Nothing is an error if there has to be one.
func (cl *client) topicsMatching(ctx context.Context, expression string, excludeInternal, mustExist bool) ([]string, error) {
	all, err := cl.admin.ListTopicsWithInternal(ctx)
	if err != nil {
		return nil, err
	}
	var match func(string) bool
	if expression != "" {
		if match, err = includeList(expression); err != nil {
			return nil, &failure{exitUsage, fmt.Errorf("--topic: %w", err)}
		}
	}
	var names []string
	for _, t := range all.Sorted() {
		if (match == nil || match(t.Topic)) && (!t.IsInternal || !excludeInternal) {
			names = append(names, t.Topic)
		}
	}
	if len(names) == 0 && expression != "" && mustExist {
		return nil, noSuchTopic(expression, kerr.UnknownTopicOrPartition)
	}
	return names, nil
}

func (a *app) listTopics(ctx context.Context, cl *client, c *clusterFlags, f topicFlags) error {
	names, err := cl.topicsMatching(ctx, f.topic, f.excludeInternal, false)
	if err == nil {
		names, err = a.inTree(ctx, c, names)
	}
	if err != nil {
		return err
	}
	return a.result(c, append([]string{}, names...), func(w io.Writer) { fmt.Fprintln(w, strings.Join(names, "\n")) })
}

func (a *app) createTopic(ctx context.Context, cl *client, c *clusterFlags, f topicFlags) error {
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = f.topic, -1, -1
	if f.partitions > 0 {
		topic.NumPartitions = int32(f.partitions)
	}
	if f.replication > 0 {
		topic.ReplicationFactor = int16(f.replication)
	}
	assignment, err := parseAssignment(f.assignment)
	if err != nil {
		return err
	}
	for p, replicas := range assignment {
		one := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		one.Partition, one.Replicas = int32(p), replicas
		topic.ReplicaAssignment = append(topic.ReplicaAssignment, one)
	}
	for _, pair := range f.config {
		key, value, found := strings.Cut(pair, "=")
		if !found {
			return &failure{exitUsage, fmt.Errorf("--config %s: want key=value", pair)}
		}
		config := kmsg.NewCreateTopicsRequestTopicConfig()
		config.Name, config.Value = strings.TrimSpace(key), kmsg.StringPtr(strings.TrimSpace(value))
		topic.Configs = append(topic.Configs, config)
	}
	if strings.ContainsAny(f.topic, "._") && !c.json() {
		fmt.Fprintln(a.stdout, "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could collide. To avoid issues it is best to use either, but not both.")
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 30_000
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	for _, t := range resp.Topics {
		err := kerr.ErrorForCode(t.ErrorCode)
		if errors.Is(err, kerr.TopicAlreadyExists) && f.ifNotExists {
			return nil
		}
		if err != nil {
			return refused("create topic "+t.Topic, err, text(t.ErrorMessage))
		}
		created := struct {
			Topic             string `json:"topic"`
			ID                string `json:"topicId"`
			Partitions        int32  `json:"partitionCount"`
			ReplicationFactor int16  `json:"replicationFactor"`
		}{t.Topic, id(t.TopicID), t.NumPartitions, t.ReplicationFactor}
		err = a.result(c, created, func(w io.Writer) {
			if c.zookeeper != "" {
				fmt.Fprintf(w, "Created topic %q.\n", t.Topic)
			} else {
				fmt.Fprintf(w, "Created topic %s.\n", t.Topic)
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *app) alterTopics(ctx context.Context, cl *client, c *clusterFlags, f topicFlags) error {
	names, err := cl.topicsMatching(ctx, f.topic, false, !f.ifExists)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return a.outcomes(c, []topicOutcome{})
	}
	if len(f.config)+len(f.deleteConfig) > 0 {
		if err := a.alterTopicConfigs(ctx, cl, c, f, names); err != nil || f.partitions == 0 {
			return err
		}
	}
	assignment, err := parseAssignment(f.assignment)
	if err != nil {
		return err
	}
	described, err := cl.admin.ListTopicsWithInternal(ctx, names...)
	if err != nil {
		return err
	}
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.TimeoutMillis = 30_000
	for _, name := range names {
		topic := kmsg.NewCreatePartitionsRequestTopic()
		topic.Topic, topic.Count = name, int32(f.partitions)
		for p := len(described[name].Partitions); p < len(assignment); p++ {
			one := kmsg.NewCreatePartitionsRequestTopicAssignment()
			one.Replicas = assignment[p]
			topic.Assignment = append(topic.Assignment, one)
		}
		req.Topics = append(req.Topics, topic)
	}
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	done := []topicOutcome{}
	for _, t := range resp.Topics {
		done = append(done, outcomeOf(t.Topic, refused("add partitions to "+t.Topic, kerr.ErrorForCode(t.ErrorCode), text(t.ErrorMessage))))
	}
	return a.outcomesAsBefore(c, done, "WARNING: If partitions are increased for a topic that has a key, the partition logic or ordering of the messages will be affected\n"+
		"Adding partitions succeeded!\n")
}

// topicOutcome is what became of one topic, for programs: a person is told of failures only, as Kafka does.
type topicOutcome struct {
	Topic string `json:"topic"`
	Error string `json:"error,omitempty"`
	err   error
}

func outcomeOf(topic string, err error) topicOutcome {
	o := topicOutcome{Topic: topic, err: err}
	if err != nil {
		o.Error = err.Error()
	}
	return o
}

func (a *app) outcomes(c *clusterFlags, done []topicOutcome) error {
	err := a.result(c, done, func(io.Writer) {})
	for _, o := range done {
		err = errors.Join(err, o.err)
	}
	return err
}

// outcomesAsBefore also says of each topic what tools said that were told of ZooKeeper; %s is the topic.
func (a *app) outcomesAsBefore(c *clusterFlags, done []topicOutcome, sentence string) error {
	if c.zookeeper != "" && !c.json() {
		for _, o := range done {
			if o.err == nil {
				fmt.Fprint(a.stdout, strings.ReplaceAll(sentence, "%s", o.Topic))
			}
		}
	}
	return a.outcomes(c, done)
}

// alterTopicConfigs is what --alter did with --config and --delete-config when tools were told of ZooKeeper.
func (a *app) alterTopicConfigs(ctx context.Context, cl *client, c *clusterFlags, f topicFlags, names []string) error {
	fmt.Fprintln(a.stderr, "moldau: warning: settings are better changed with `moldau configs`")
	set := make(map[string]string)
	for _, config := range f.config {
		key, value, ok := strings.Cut(config, "=")
		if !ok {
			return &failure{exitUsage, fmt.Errorf("--config %s: want key=value", config)}
		}
		set[strings.TrimSpace(key)] = strings.TrimSpace(value)
	}
	var done []topicOutcome
	for _, name := range names {
		err := cl.alterConfig(ctx, configEntity{"topic", kmsg.ConfigResourceTypeTopic, name, true}, configChanges(set, f.deleteConfig))
		done = append(done, outcomeOf(name, err))
	}
	return a.outcomesAsBefore(c, done, "Updated config for topic \"%s\".\n")
}

func (a *app) deleteTopics(ctx context.Context, cl *client, c *clusterFlags, f topicFlags) error {
	names, err := cl.topicsMatching(ctx, f.topic, false, !f.ifExists)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return a.outcomes(c, []topicOutcome{})
	}
	deleted, err := cl.admin.DeleteTopics(ctx, names...)
	if err != nil {
		return err
	}
	done := []topicOutcome{}
	for _, t := range deleted.Sorted() {
		done = append(done, outcomeOf(t.Topic, refused("delete topic "+t.Topic, t.Err, t.ErrMessage)))
	}
	return a.outcomesAsBefore(c, done, "Topic %s is marked for deletion.\nNote: This will have no impact if delete.topic.enable is not set to true.\n")
}

// parseAssignment reads --replica-assignment: partitions by comma, their brokers by colon.
func parseAssignment(list string) ([][]int32, error) {
	if list == "" {
		return nil, nil
	}
	var assignment [][]int32
	for partition := range strings.SplitSeq(list, ",") {
		var replicas []int32
		for broker := range strings.SplitSeq(partition, ":") {
			n, err := strconv.ParseInt(strings.TrimSpace(broker), 10, 32)
			if err != nil {
				return nil, &failure{exitUsage, fmt.Errorf("--replica-assignment %s: %q is not a broker's id", list, broker)}
			}
			if slices.Contains(replicas, int32(n)) {
				return nil, &failure{exitUsage, fmt.Errorf("--replica-assignment %s: partition %d names broker %d twice", list, len(assignment), n)}
			}
			replicas = append(replicas, int32(n))
		}
		if len(assignment) > 0 && len(replicas) != len(assignment[0]) {
			return nil, &failure{exitUsage, fmt.Errorf("--replica-assignment %s: partition %d has another number of brokers than partition 0", list, len(assignment))}
		}
		assignment = append(assignment, replicas)
	}
	return assignment, nil
}
