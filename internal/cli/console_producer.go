package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// produceFlags are those of ConsoleProducer, and --partition and --partitioner, which Kafka lacks.
type produceFlags struct {
	topic, codec, acks, lineReader, readerConfig, partitioner string
	reader                                                    []string
	sync                                                      bool
	partition                                                 int32
}

// consoleProducerCommand is Kafka's kafka-console-producer.sh (ConsoleProducer).
func (a *app) consoleProducerCommand() *cobra.Command {
	var f produceFlags
	cmd, c := a.tool("console-producer", "Send each line of standard input as a record",
		"  echo hello | moldau console-producer --topic greetings\n"+
			"  moldau console-producer --topic orders --reader-property parse.key=true --reader-property key.separator=:\n"+
			"  moldau console-producer --topic orders --partition 2 < lines", map[string]string{
			"broker-list": "bootstrap-server", "producer.config": "command-config", "producer-property": "command-property", "property": "reader-property",
			"max-partition-memory-bytes": "batch-size",
		})
	flags := cmd.Flags()
	a.formerly(flags, "new-producer!", "old-producer!", "queue-size", "queue-enqueuetimeout-ms", "metadata-fetch-timeout-ms", "key-serializer", "value-serializer")
	flags.StringVar(&f.topic, "topic", "", "the `topic` to send to")
	flags.Int32Var(&f.partition, "partition", -1, "the `partition` that all records go to; without it the key decides")
	flags.StringVar(&f.partitioner, "partitioner", "default", "where records without a key go: `default` (batch by batch, as Java's producer) or round-robin (one by one)")
	flags.StringArrayVar(&f.reader, "reader-property", nil, "how lines are read, as `key=value`: parse.key, key.separator (a tab), parse.headers, headers.delimiter (a tab), "+
		"headers.separator (,), headers.key.separator (:), null.marker, ignore.error; may be repeated")
	flags.StringVar(&f.readerConfig, "reader-config", "", "a `file` of the same")
	flags.StringVar(&f.codec, "compression-codec", "", "the `codec`: none, gzip, snappy, lz4 or zstd; gzip if none is named")
	flags.Lookup("compression-codec").NoOptDefVal = "gzip"
	flags.StringVar(&f.acks, "request-required-acks", "", "who has to have a record before it is acknowledged: `0, 1 or -1`, which is all")
	flags.BoolVar(&f.sync, "sync", false, "wait for each record's acknowledgement before the next is sent")
	flags.StringVar(&f.lineReader, "line-reader", "", "only org.apache.kafka.tools.LineMessageReader is known")
	// Each of these is one property of a Java producer under a name of its own.
	for _, alias := range [][3]string{
		{"batch-size", "batch.size", "`bytes` of records for one partition that travel together"},
		{"message-send-max-retries", "retries", "how often a record is `retried`"},
		{"retry-backoff-ms", "retry.backoff.ms", "`milliseconds` before a retry"},
		{"timeout", "linger.ms", "`milliseconds` that a record waits for others"},
		{"request-timeout-ms", "request.timeout.ms", "`milliseconds` that an acknowledgement may take"},
		{"metadata-expiry-ms", "metadata.max.age.ms", "`milliseconds` after which metadata is asked for again"},
		{"max-block-ms", "max.block.ms", "taken for Kafka's sake"},
		{"max-memory-bytes", "buffer.memory", "taken for Kafka's sake"},
		{"socket-buffer-size", "send.buffer.bytes", "taken for Kafka's sake"},
	} {
		flags.Var(&propertyFlag{c: c, key: alias[1]}, alias[0], alias[2])
	}
	cmd.Args = usage(cobra.MaximumNArgs(1))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case f.topic == "":
			return &failure{exitUsage, errors.New("--topic is required")}
		case flags.Changed("partition") && f.partition < 0:
			return &failure{exitUsage, fmt.Errorf("--partition %d: partitions count from 0", f.partition)}
		case f.lineReader != "" && f.lineReader != "org.apache.kafka.tools.LineMessageReader":
			return &failure{exitUsage, fmt.Errorf("--line-reader %s: Java's classes cannot be loaded here", f.lineReader)}
		case len(args) == 1 && (f.codec != "gzip" || !flags.Changed("compression-codec")):
			return &failure{exitUsage, fmt.Errorf("%q is not a flag; records come from standard input", args[0])}
		case len(args) == 1:
			f.codec = args[0] // --compression-codec lz4: the value of that flag may stand apart or be missing
		}
		if f.codec != "" {
			c.properties = append(c.properties, "compression.type="+f.codec)
		}
		if f.acks != "" {
			c.properties = append(c.properties, "acks="+f.acks)
		}
		return a.produce(cmd.Context(), c, f)
	}
	return cmd
}

// propertyFlag is a flag that sets one property of a Java client.
type propertyFlag struct {
	c   *clusterFlags
	key string
}

func (p *propertyFlag) String() string { return "" }
func (p *propertyFlag) Type() string   { return "value" }
func (p *propertyFlag) Set(value string) error {
	if _, err := strconv.Atoi(value); err != nil {
		return errors.New("want a whole number")
	}
	p.c.properties = append([]string{p.key + "=" + value}, p.c.properties...)
	return nil
}

func (a *app) produce(ctx context.Context, c *clusterFlags, f produceFlags) error {
	props, err := a.keyValues(f.readerConfig, f.reader)
	if err != nil {
		return err
	}
	reader, err := newLineReader(a.stdin, props)
	if err != nil {
		return &failure{exitUsage, fmt.Errorf("--reader-property: %w", err)}
	}
	partitioner, err := pickPartition(f.partition, f.partitioner)
	if err != nil {
		return err
	}
	return a.on(ctx, c, func(ctx context.Context, cl *client) error {
		a.stream(cl)
		p := &consoleProducer{app: a, client: cl, flags: f, json: c.json()}
		return p.run(ctx, reader)
	}, kgo.DefaultProduceTopic(f.topic), kgo.RecordPartitioner(partitioner), kgo.AllowAutoTopicCreation())
}

type consoleProducer struct {
	app    *app
	client *client
	flags  produceFlags
	json   bool

	mu     sync.Mutex
	failed int
	first  error
}

// run sends what the reader has. Reading cannot be interrupted: a signal leaves the goroutine that reads behind, for the
// end of the process.
func (p *consoleProducer) run(ctx context.Context, reader *lineReader) error {
	type read struct {
		record *kgo.Record
		err    error
	}
	lines := make(chan read, 64)
	stop := make(chan struct{})
	defer close(stop)
	terminal, _ := p.app.stdin.(*os.File)
	prompt := terminal != nil && isTerminal(terminal)
	go func() {
		for {
			if prompt {
				fmt.Fprint(p.app.stderr, ">")
			}
			record, err := reader.next()
			select {
			case lines <- read{record, err}:
			case <-stop:
				return
			}
			if err != nil {
				return
			}
		}
	}()
	var end error
	for end == nil {
		select {
		case line := <-lines:
			if end = line.err; end == nil {
				p.send(ctx, line.record)
			}
		case <-ctx.Done():
			end = context.Cause(ctx)
		}
	}
	flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if err := p.client.Flush(flush); err != nil {
		return fmt.Errorf("records were not acknowledged within a minute: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed > 0 {
		err := p.first
		if errors.Is(err, kerr.UnknownTopicOrPartition) {
			err = fmt.Errorf("topic %s does not exist and is not created by itself; `moldau topics --create --topic %s` creates it: %w", p.flags.topic, p.flags.topic, err)
		}
		if errors.Is(err, kerr.UnknownTopicID) {
			err = deleted(p.flags.topic, "written", err)
		}
		return fmt.Errorf("%d records were not written: %w", p.failed, err)
	}
	if errors.Is(end, io.EOF) {
		return nil
	}
	return end
}

func (p *consoleProducer) send(ctx context.Context, record *kgo.Record) {
	done := func(r *kgo.Record, err error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		switch {
		case err != nil:
			if p.failed++; p.failed == 1 {
				p.first = p.told(err)
			}
		case p.json:
			line, _ := json.Marshal(struct { // numbers and a name always encode
				Topic     string `json:"topic"`
				Partition int32  `json:"partition"`
				Offset    int64  `json:"offset"`
			}{r.Topic, r.Partition, r.Offset})
			fmt.Fprintf(p.app.stdout, "%s\n", line)
		}
	}
	if !p.flags.sync {
		p.client.Produce(ctx, record, done)
		return
	}
	result := p.client.ProduceSync(ctx, record)[0]
	done(result.Record, result.Err)
}

// told names the partition that was asked for and does not exist.
func (p *consoleProducer) told(err error) error {
	if p.flags.partition >= 0 && !isBrokers(err) {
		return fmt.Errorf("partition %d of topic %s: %w", p.flags.partition, p.flags.topic, err)
	}
	return err
}

// isBrokers tells whether an error is a broker's answer.
func isBrokers(err error) bool {
	var known *kerr.Error
	return errors.As(err, &known)
}
