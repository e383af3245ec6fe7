package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// defaultBootstrap is where a node without a configuration listens.
const defaultBootstrap = "127.0.0.1:9092"

// clusterFlags are those of every tool that talks to a cluster.
type clusterFlags struct {
	bootstrap  string
	configFile string   // Java's properties of a client
	properties []string // the same, as key=value
	output     string   // text or json
	zookeeper  string   // where brokers are found, for tools that take it

	controllers bool // bootstrap names controllers, not brokers
}

// json says that a program reads along.
func (c *clusterFlags) json() bool { return c.output == "json" }

// tool makes the command of one of Kafka's tools with the flags that they share. old maps spellings of flags that Kafka
// has or had to those that help shows.
func (a *app) tool(use, short, example string, old map[string]string) (*cobra.Command, *clusterFlags) {
	c := &clusterFlags{}
	cmd := &cobra.Command{
		Use:     use,
		Short:   short,
		Example: example,
		Args:    usage(cobra.NoArgs),
		Version: toolVersion(),
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if c.output != "text" && c.output != "json" {
				return &failure{exitUsage, fmt.Errorf("--output %s: want text or json", c.output)}
			}
			if c.bootstrap == "" && cmd.Flags().Changed("bootstrap-server") { // the default would be another cluster than the one that was meant
				return &failure{exitUsage, errors.New(`--bootstrap-server "": want host:port`)}
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&c.bootstrap, "bootstrap-server", "", "where the cluster is, as `host:port,...`; "+defaultBootstrap+" unless said otherwise")
	flags.StringVar(&c.configFile, "command-config", "", "a `file` of a Java client's properties")
	flags.StringArrayVar(&c.properties, "command-property", nil, "one property of a Java client, as `key=value`; may be repeated")
	flags.StringVar(&c.output, "output", "text", "how results look: `text or json`")
	refuse(flags, "zookeeper", "tools have asked brokers since Apache Kafka 3.0; use --bootstrap-server with a broker's host:port")
	flags.Bool("new-consumer", true, "taken for the sake of old scripts: there is no other one")
	flags.Lookup("new-consumer").Hidden = true
	flags.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if now, ok := old[name]; ok {
			name = now
		}
		return pflag.NormalizedName(name)
	})
	return cmd, c
}

// refusedFlag is a flag that Kafka has or had and that cannot be obeyed here. It is not in the help, and says why.
type refusedFlag struct{ why string }

func (r refusedFlag) String() string   { return "" }
func (r refusedFlag) Type() string     { return "value" }
func (r refusedFlag) Set(string) error { return errors.New(r.why) }

// refuse knows a flag only to say why it has no effect here.
func refuse(flags *pflag.FlagSet, name, why string) {
	flags.VarPF(refusedFlag{why}, name, "", why).Hidden = true
}

// formerFlag is a flag that Kafka had once. It is not in the help, does nothing, and says so when it is given.
type formerFlag struct {
	stderr io.Writer
	name   string
}

func (f formerFlag) String() string { return "" }
func (f formerFlag) Type() string   { return "value" }
func (f formerFlag) Set(string) error {
	fmt.Fprintf(f.stderr, "moldau: warning: --%s has no effect: it is of an older Kafka\n", f.name)
	return nil
}

// formerly takes flags of older releases, with a value or, where names end in "!", without.
func (a *app) formerly(flags *pflag.FlagSet, names ...string) {
	for _, name := range names {
		name, alone := strings.CutSuffix(name, "!")
		flag := flags.VarPF(formerFlag{a.stderr, name}, name, "", "")
		flag.Hidden = true
		if alone {
			flag.NoOptDefVal = "true"
		}
	}
}

// onlyBrokers refuses the way past the brokers, on which a client of this binary finds nobody that answers Metadata.
func onlyBrokers(flags *pflag.FlagSet) {
	refuse(flags, "bootstrap-controller", "ask a broker instead: --bootstrap-server with its host:port; brokers pass on what a controller has to answer")
}

// toolVersion is what --version prints behind the name of a tool.
func toolVersion() string {
	return fmt.Sprintf("%s (Apache Kafka %s protocol)", version(), kafkaVersion)
}

// client is a connection to a cluster, and what happened on the way there.
type client struct {
	*kgo.Client
	admin  *kadm.Client
	dialed *dialed
	config javaConfig
}

// on runs do with a client and takes the client down again. SIGINT and SIGTERM end the context that do is given. A person sees that
// the cluster is waited for, until there is output or do calls stream.
func (a *app) on(ctx context.Context, c *clusterFlags, do func(ctx context.Context, cl *client) error, opts ...kgo.Opt) error {
	ctx, release := a.interruptible(ctx)
	defer release()
	a.waiting = a.progress(c.json(), "waiting for "+cmp.Or(c.bootstrap, c.zookeeper, "the cluster"), 0, countUnit)
	defer func() { a.waiting.done() }()
	cl, err := a.connect(ctx, c, opts...)
	if err != nil {
		return err
	}
	defer cl.Close()
	err = do(ctx, cl)
	if err == nil {
		return nil
	}
	if errors.Is(err, errInterrupted) || ctx.Err() != nil && errors.Is(context.Cause(ctx), errInterrupted) {
		return &failure{exitInterrupted, errInterrupted}
	}
	return cl.dialed.explain(err)
}

// stream says of work that it may take any time: nobody waits for an answer any more, and what fails on the way to the cluster is
// told as it happens.
func (a *app) stream(cl *client) {
	a.waiting.done()
	cl.dialed.tell(a.stderr)
}

// connect makes a client and sees to it that a broker answers.
func (a *app) connect(ctx context.Context, c *clusterFlags, opts ...kgo.Opt) (*client, error) {
	config, err := a.javaConfig(c)
	if err != nil {
		return nil, err
	}
	seeds, err := a.seeds(ctx, c, config)
	if err != nil {
		return nil, err
	}
	d := &dialed{seeds: seeds, timeout: config.dialTimeout}
	all := append([]kgo.Opt{
		kgo.SeedBrokers(seeds...), kgo.Dialer(d.dial), kgo.ClientID("moldau"), kgo.RetryTimeout(30 * time.Second),
		kgo.DisableClientMetrics(),
	}, config.opts...)
	cl, err := kgo.NewClient(append(all, opts...)...)
	if err != nil {
		return nil, &failure{exitUsage, err}
	}
	ping, cancel := context.WithTimeout(ctx, config.requestTimeout)
	defer cancel()
	if err := c.ping(ping, cl); err != nil {
		cl.Close()
		if cause := context.Cause(ctx); cause != nil {
			return nil, &failure{exitInterrupted, cause}
		}
		return nil, d.explain(err)
	}
	admin := kadm.NewClient(cl)
	admin.SetTimeoutMillis(30_000)
	return &client{Client: cl, admin: admin, dialed: d, config: config}, nil
}

// seeds are the addresses to begin with.
func (a *app) seeds(ctx context.Context, c *clusterFlags, config javaConfig) ([]string, error) {
	switch {
	case c.zookeeper == "":
		return bootstrapAddresses(c.bootstrap, config.bootstrap)
	case c.bootstrap != "":
		return nil, &failure{exitUsage, errors.New("--bootstrap-server and --zookeeper exclude each other")}
	}
	return a.brokersOf(ctx, c.zookeeper)
}

// ping sees to it that a broker answers, or a controller, which knows nothing of what clients ask brokers first.
func (c *clusterFlags) ping(ctx context.Context, cl *kgo.Client) error {
	if !c.controllers {
		return cl.Ping(ctx)
	}
	var errs []error
	for _, seed := range cl.SeedBrokers() {
		_, err := seed.Request(ctx, kmsg.NewPtrApiVersionsRequest())
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// bootstrapAddresses picks the addresses to begin with and completes them: flag, then property, then the default.
func bootstrapAddresses(choices ...string) ([]string, error) {
	list := defaultBootstrap
	for _, choice := range choices {
		if choice != "" {
			list = choice
			break
		}
	}
	var seeds []string
	for address := range strings.SplitSeq(list, ",") {
		address = strings.TrimSpace(address)
		if _, bare, found := strings.Cut(address, "://"); found {
			address = bare // PLAINTEXT://host:port, as a broker's listeners are written
		}
		if address == "" {
			continue
		}
		i := strings.LastIndexByte(address, ':')
		if i < 0 || strings.HasSuffix(address, "]") {
			i = len(address)
			address += ":9092"
		}
		host, port := address[:i], address[i+1:]
		if number, err := strconv.ParseUint(port, 10, 16); err != nil || number == 0 {
			return nil, &failure{exitUsage, fmt.Errorf("--bootstrap-server %s: %q is no port, want 1 to 65535", list, port)}
		}
		if host == "" || strings.ContainsAny(host, " \t") {
			return nil, &failure{exitUsage, fmt.Errorf("--bootstrap-server %s: %q has no host; want host:port, and commas between several", list, address)}
		}
		seeds = append(seeds, address)
	}
	if len(seeds) == 0 {
		return nil, &failure{exitUsage, fmt.Errorf("--bootstrap-server %q: want host:port", list)}
	}
	return seeds, nil
}

var errInterrupted = errors.New("interrupted")

// interruptible is ctx until a signal comes. release waits for the goroutine that looks out for it.
func (a *app) interruptible(parent context.Context) (ctx context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(parent)
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-a.signals:
			cancel(errInterrupted)
		case <-quit:
		}
	}()
	return ctx, func() {
		close(quit)
		<-done
		cancel(nil)
	}
}

// result prints what a tool found: v as JSON if that was asked for, else what text writes.
func (a *app) result(c *clusterFlags, v any, text func(w io.Writer)) error {
	if !c.json() {
		text(a.stdout)
		return nil
	}
	enc := json.NewEncoder(a.stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// refused is a broker's error with the sentence that the broker put beside it, if there is one.
func refused(what string, err error, message string) error {
	if err == nil {
		return nil
	}
	var known *kerr.Error
	if message == "" || !errors.As(err, &known) {
		return fmt.Errorf("%s: %w", what, err)
	}
	return fmt.Errorf("%s: %s (%w)", what, strings.TrimSuffix(message, "."), &coded{known})
}

// coded is a broker's error told by its name alone.
type coded struct{ err *kerr.Error }

func (c *coded) Error() string { return c.err.Message }
func (c *coded) Unwrap() error { return c.err }

// exactlyOne makes sure that one of several flags is there and returns it.
func exactlyOne(flags *pflag.FlagSet, names ...string) (string, error) {
	found := ""
	for _, name := range names {
		if !flags.Changed(name) {
			continue
		}
		if found != "" {
			return "", &failure{exitUsage, fmt.Errorf("--%s and --%s exclude each other", found, name)}
		}
		found = name
	}
	if found == "" {
		return "", &failure{exitUsage, fmt.Errorf("want exactly one of --%s", strings.Join(names, ", --"))}
	}
	return found, nil
}

// onlyWith refuses flags that have no meaning beside an action.
func onlyWith(flags *pflag.FlagSet, action string, allowed map[string][]string) error {
	for _, name := range sortedKeys(allowed) {
		if !flags.Changed(name) {
			continue
		}
		ok := false
		for _, with := range allowed[name] {
			ok = ok || with == action
		}
		if !ok {
			return &failure{exitUsage, fmt.Errorf("--%s goes with --%s, not with --%s", name, strings.Join(allowed[name], " or --"), action)}
		}
	}
	return nil
}
