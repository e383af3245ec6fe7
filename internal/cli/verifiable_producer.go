package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"
)

// verifiableProduceFlags are those of VerifiableProducer.
type verifiableProduceFlags struct {
	topic, acks, prefix               string
	maxMessages, createTimeMs, keys   int64
	throughput                        float64
	keysGiven, prefixGiven, timeGiven bool
}

// verifiableProducerCommand is Kafka's kafka-verifiable-producer.sh (VerifiableProducer).
func (a *app) verifiableProducerCommand() *cobra.Command {
	var f verifiableProduceFlags
	cmd, c := a.tool("verifiable-producer", "Send the numbers from 0 and print as JSON which of them were acknowledged",
		"  moldau verifiable-producer --topic checked --max-messages 100", map[string]string{"producer.config": "command-config", "broker-list": "bootstrap-server"})
	flags := cmd.Flags()
	flags.StringVar(&f.topic, "topic", "", "the `topic` to send to")
	flags.Int64Var(&f.maxMessages, "max-messages", -1, "how `many`; -1: until a signal comes")
	flags.Float64Var(&f.throughput, "throughput", -1, "records per `second`; -1: no limit")
	flags.StringVar(&f.acks, "acks", "-1", "who has to have a record before it is acknowledged: `0, 1 or -1`, which is all")
	flags.Int64Var(&f.createTimeMs, "message-create-time", -1, "the first record's time, in `ms` since 1970; each has one more")
	flags.StringVar(&f.prefix, "value-prefix", "", "put this `number` and a point before each value")
	flags.Int64Var(&f.keys, "repeating-keys", 0, "give records keys: the numbers below this `number`, again and again")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		f.keysGiven, f.prefixGiven, f.timeGiven = flags.Changed("repeating-keys"), flags.Changed("value-prefix"), f.createTimeMs >= 0
		switch {
		case f.topic == "":
			return &failure{exitUsage, errors.New("--topic is required")}
		case f.keysGiven && f.keys <= 0:
			return &failure{exitUsage, errors.New("--repeating-keys has to be above 0")}
		}
		c.properties = append(c.properties, "acks="+f.acks)
		return a.on(cmd.Context(), c, func(ctx context.Context, cl *client) error { return a.produceVerifiably(ctx, cl, f) },
			kgo.DefaultProduceTopic(f.topic), kgo.AllowAutoTopicCreation())
	}
	return cmd
}

// record is the one of number i.
func (f *verifiableProduceFlags) record(i int64) *kgo.Record {
	r := &kgo.Record{Value: strconv.AppendInt(nil, i, 10)}
	if f.prefixGiven {
		r.Value = []byte(f.prefix + "." + string(r.Value))
	}
	if f.keysGiven {
		r.Key = strconv.AppendInt(nil, i%f.keys, 10)
	}
	if f.timeGiven {
		r.Timestamp = time.UnixMilli(f.createTimeMs + i)
	}
	return r
}

// produceVerifiably sends until there are enough or a signal comes, which is no failure here.
func (a *app) produceVerifiably(ctx context.Context, cl *client, f verifiableProduceFlags) error {
	a.stream(cl)
	e := &events{w: a.stdout}
	e.tell("startup_complete")
	start := time.Now()
	sent := int64(0)
	var acked atomic.Int64
	last := context.WithoutCancel(ctx) // what was sent is told of in any case
	for ; (f.maxMessages < 0 || sent < f.maxMessages) && ctx.Err() == nil && e.failure() == nil; sent++ {
		cl.Produce(last, f.record(sent), func(r *kgo.Record, err error) {
			if err != nil {
				e.tell("producer_send_error", member{"exception", fmt.Sprintf("%T", err)}, member{"message", err.Error()}, member{"topic", f.topic},
					member{"key", orNil(r.Key)}, member{"value", orNil(r.Value)})
				return
			}
			acked.Add(1)
			e.tell("producer_send_success", member{"key", orNil(r.Key)}, member{"value", orNil(r.Value)}, member{"offset", r.Offset},
				member{"topic", r.Topic}, member{"partition", int64(r.Partition)})
		})
		if f.throughput > 0 {
			if ahead := time.Duration(float64(sent+1)/f.throughput*float64(time.Second)) - time.Since(start); ahead > time.Millisecond {
				select {
				case <-time.After(ahead):
				case <-ctx.Done():
				}
			}
		}
	}
	flush, cancel := context.WithTimeout(last, time.Minute)
	defer cancel()
	err := cl.Flush(flush)
	e.tell("shutdown_complete")
	rate := float64(acked.Load()) / max(time.Since(start).Seconds(), 0.001)
	e.tell("tool_data", member{"sent", sent}, member{"acked", acked.Load()}, member{"target_throughput", int64(f.throughput)}, member{"avg_throughput", rate})
	return errors.Join(err, e.failure())
}
