package cli

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"os"
	"slices"
	"time"

	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kgo"

	"moldau/internal/zkconsumer"
)

// checkWithZooKeeper is check for --zookeeper: ConsoleConsumer with the consumer of old.
func (f *consumeFlags) checkWithZooKeeper(flags *pflag.FlagSet) error {
	if _, err := exactlyOne(flags, "topic", "include", "blacklist"); err != nil {
		return err
	}
	for _, name := range []string{"bootstrap-server", "partition", "offset", "isolation-level"} {
		if flags.Changed(name) {
			return &failure{exitUsage, fmt.Errorf("--%s does not go with --zookeeper", name)}
		}
	}
	return nil
}

// consumeByZooKeeper reads as a member of a group that lives in ZooKeeper.
func (a *app) consumeByZooKeeper(ctx context.Context, c *clusterFlags, f consumeFlags) error {
	write, err := a.recordWriter(c, f)
	if err != nil {
		return err
	}
	s, made, err := a.oldConsumer(c, f)
	if err != nil {
		return err
	}
	ctx, release := a.interruptible(ctx)
	defer release()
	if err := a.prepareGroup(ctx, c, f, s); err != nil {
		return err
	}
	if made { // nobody goes on where a group of this one run was
		defer a.removeGroup(context.WithoutCancel(ctx), s)
	}
	consumer, err := zkconsumer.Start(ctx, s)
	if err != nil {
		return explainZooKeeper(err)
	}
	err = a.printOwned(ctx, consumer, f, s.IdleTimeout, write)
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	consumer.Close(last)
	return err
}

// oldConsumer puts the settings of a member together. made says that the group is one of its own.
func (a *app) oldConsumer(c *clusterFlags, f consumeFlags) (s zkconsumer.Settings, made bool, err error) {
	file, err := a.keyValues(c.configFile, nil)
	if err != nil {
		return s, false, err
	}
	words, err := a.keyValues("", c.properties)
	if err != nil {
		return s, false, err
	}
	values, group := make(map[string]string), ""
	for _, from := range []map[string]string{file, words, {"group.id": f.group}} {
		for key, value := range from {
			values[key] = value
		}
		if named := from["group.id"]; named != "" {
			if group != "" && group != named {
				return s, false, &failure{exitUsage, fmt.Errorf("two group ids, %s and %s: --group, --consumer-property and --consumer.config have to agree", group, named)}
			}
			group = named
		}
	}
	if group == "" {
		n, err := rand.Int(rand.Reader, big.NewInt(100_000))
		if err != nil {
			return s, false, err
		}
		group, made = fmt.Sprintf("console-consumer-%d", n), true
	}
	values["group.id"], values["zookeeper.connect"] = group, c.zookeeper
	reset, ok := values["auto.offset.reset"]
	switch {
	case !ok && f.fromBeginning:
		values["auto.offset.reset"] = "smallest"
	case f.fromBeginning && reset != "smallest" && reset != "earliest":
		return s, false, &failure{exitUsage, fmt.Errorf("--from-beginning and auto.offset.reset=%s exclude each other", reset)}
	}
	if s, err = zkconsumer.Parse(values); err != nil {
		return s, false, &failure{exitConfig, err}
	}
	for _, key := range s.NotHere {
		if !slices.ContainsFunc(clientKeys, func(k clientKey) bool { return k.name == key }) {
			fmt.Fprintf(a.stderr, "moldau: warning: %s has no effect here\n", key)
		}
	}
	// A topic is an expression, too, as in Kafka: so members of both agree on what is registered.
	pattern, expression := zkconsumer.WhiteList, f.topic+f.include
	if f.exclude != "" {
		pattern, expression = zkconsumer.BlackList, f.exclude
	}
	if s.Subscription, err = zkconsumer.Matching(pattern, expression); err != nil {
		return s, false, &failure{exitUsage, err}
	}
	if f.timeoutMs >= 0 {
		s.IdleTimeout = time.Duration(f.timeoutMs) * time.Millisecond
	}
	if s.Host, err = os.Hostname(); err != nil {
		return s, false, err
	}
	s.Now, s.Dial = time.Now, (&net.Dialer{}).DialContext
	s.Log = slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	return s, made, nil
}

// prepareGroup deletes what the group has stored, if that is asked for; else it refuses to begin anew where something is.
func (a *app) prepareGroup(ctx context.Context, c *clusterFlags, f consumeFlags, s zkconsumer.Settings) error {
	tree, err := a.tree(ctx, c.zookeeper)
	if err != nil {
		return err
	}
	defer tree.Close()
	brokers, err := tree.Children("/brokers/ids")
	if err != nil {
		return err
	}
	if len(brokers) == 0 {
		return noBrokers(c.zookeeper)
	}
	group := "/consumers/" + s.Group
	if f.deleteOffsets {
		return tree.DeleteAll(group)
	}
	if !s.FromSmallest {
		return nil
	}
	there, err := tree.Exists(group + "/offsets")
	if err == nil && there {
		err = fmt.Errorf("group %s has offsets in ZooKeeper and would go on from there: leave --from-beginning out, or add --delete-consumer-offsets", s.Group)
	}
	return err
}

func (a *app) removeGroup(ctx context.Context, s zkconsumer.Settings) {
	tree, err := a.tree(ctx, s.Connect)
	if err == nil {
		err = tree.DeleteAll("/consumers/" + s.Group)
		tree.Close()
	}
	if err != nil {
		fmt.Fprintf(a.stderr, "moldau: warning: group %s stays in ZooKeeper: %v\n", s.Group, err)
	}
}

// printOwned prints until it is enough. A signal is the usual end of a consumer, so it is no failure here.
func (a *app) printOwned(ctx context.Context, consumer *zkconsumer.Consumer, f consumeFlags, idle time.Duration, write func(io.Writer, *kgo.Record) error) error {
	count := 0
	defer func() { fmt.Fprintf(a.stderr, "Processed a total of %d messages\n", count) }()
	out := bufio.NewWriterSize(a.stdout, 64<<10)
	for f.maxMessages < 0 || count < f.maxMessages {
		limit := 1000
		if f.maxMessages >= 0 {
			limit = min(limit, f.maxMessages-count)
		}
		wait, cancel := ctx, context.CancelFunc(func() {})
		if idle >= 0 {
			wait, cancel = context.WithTimeout(ctx, idle)
		}
		n, err := consumer.Poll(wait, limit, func(r *kgo.Record) error {
			err := write(out, r)
			if err != nil && f.skip && !errors.Is(err, io.ErrShortWrite) {
				fmt.Fprintf(a.stderr, "moldau: left out: %v\n", err)
				return nil
			}
			return err
		})
		over := wait.Err() != nil
		cancel()
		count += n
		if flushed := out.Flush(); flushed != nil {
			return flushed
		}
		if over && n == 0 {
			return nil
		}
		if err != nil && !over {
			return err
		}
	}
	return nil
}
