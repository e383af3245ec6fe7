package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"moldau/internal/zkconsumer"
)

// byZooKeeper lets a tool be told of ZooKeeper instead of brokers, as tools were before Apache Kafka 3.0: brokers are found
// there. What the tool does with them it does in the usual way.
func (c *clusterFlags) byZooKeeper(flags *pflag.FlagSet) {
	f := flags.Lookup("zookeeper")
	f.Value, f.Hidden = (*textFlag)(&c.zookeeper), false
	f.Usage = "where ZooKeeper is, as `host:port,.../chroot`, instead of --bootstrap-server"
}

// textFlag is a flag that takes any text.
type textFlag string

func (f *textFlag) String() string         { return string(*f) }
func (f *textFlag) Type() string           { return "string" }
func (f *textFlag) Set(value string) error { *f = textFlag(value); return nil }

// tree opens a session with the ZooKeeper that --zookeeper names. The caller closes it.
func (a *app) tree(ctx context.Context, connect string) (*zkconsumer.Tree, error) {
	a.waiting = a.progress(false, "waiting for ZooKeeper at "+connect, 0, countUnit)
	defer func() { a.waiting.done() }()
	tree, err := zkconsumer.Open(ctx, zkconsumer.Place{
		Connect: connect, SessionTimeout: 30 * time.Second, ConnectionTimeout: 10 * time.Second,
		Dial: (&net.Dialer{}).DialContext, Now: time.Now, Log: slog.New(slog.DiscardHandler),
	}, nil)
	return tree, explainZooKeeper(err)
}

// explainZooKeeper says what to check when ZooKeeper cannot be reached.
func explainZooKeeper(err error) error {
	var away *zkconsumer.UnreachableError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errInterrupted):
		return &failure{exitInterrupted, errInterrupted}
	case errors.As(err, &away):
		return &failure{exitUnreachable, fmt.Errorf("cannot reach ZooKeeper at %s: %s\nCheck that a node runs there and that zookeeper.listeners in its server.properties names that port", away.Connect, reason(away.Err))}
	}
	return err
}

// brokersOf asks ZooKeeper for the brokers' addresses.
func (a *app) brokersOf(ctx context.Context, connect string) ([]string, error) {
	tree, err := a.tree(ctx, connect)
	if err != nil {
		return nil, err
	}
	defer tree.Close()
	brokers, err := tree.Brokers()
	if err == nil && len(brokers) == 0 {
		err = noBrokers(connect)
	}
	return brokers, err
}

// inTree leaves those topics that ZooKeeper has, if the tool is told of it: it does not have the one that it is kept in.
func (a *app) inTree(ctx context.Context, c *clusterFlags, names []string) ([]string, error) {
	if c.zookeeper == "" {
		return names, nil
	}
	tree, err := a.tree(ctx, c.zookeeper)
	if err != nil {
		return nil, err
	}
	defer tree.Close()
	there, err := tree.Children("/brokers/topics")
	return slices.DeleteFunc(names, func(name string) bool { return !slices.Contains(there, name) }), err
}

func noBrokers(connect string) error {
	return &failure{exitUnreachable, fmt.Errorf("no broker is registered in ZooKeeper at %s", connect)}
}
