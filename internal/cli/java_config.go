package cli

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"moldau/internal/zkconsumer"
)

// javaConfig is the configuration of a Java client, as far as a tool has use for it.
type javaConfig struct {
	opts           []kgo.Opt
	bootstrap      string
	dialTimeout    time.Duration
	requestTimeout time.Duration
	values         map[string]string // of every key that was set
}

// javaConfig reads the file and the single properties of a tool; the latter win. A key that means nothing here is warned
// about on standard error, since a typing error there would otherwise go unnoticed.
func (a *app) javaConfig(c *clusterFlags) (javaConfig, error) {
	config := javaConfig{dialTimeout: 10 * time.Second, requestTimeout: 10 * time.Second, values: make(map[string]string)}
	origin := make(map[string]string)
	set := func(from, file string, words []string) error {
		values, err := a.keyValues(file, words)
		for key, value := range values {
			config.values[key], origin[key] = value, from
		}
		return err
	}
	if err := set(c.configFile, c.configFile, nil); err != nil {
		return config, err
	}
	if err := set("command line", "", c.properties); err != nil {
		return config, err
	}
	for _, key := range sortedKeys(config.values) {
		known, err := config.apply(key, config.values[key])
		if err != nil {
			return config, &failure{exitConfig, fmt.Errorf("%s: %s=%s: %w", origin[key], key, config.values[key], err)}
		}
		if !known {
			fmt.Fprintf(a.stderr, "moldau: warning: %s: %s has no effect here\n", origin[key], key)
		}
	}
	return config, config.producer()
}

// apply takes one key over. Keys of the producer alone are looked at by producer, as they depend on each other.
func (j *javaConfig) apply(key, value string) (known bool, err error) {
	add := func(o kgo.Opt) { j.opts = append(j.opts, o) }
	millis := func(f func(time.Duration)) error {
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < 0 {
			return fmt.Errorf("want milliseconds")
		}
		f(time.Duration(n) * time.Millisecond)
		return nil
	}
	number := func(f func(int32)) error {
		n, err := strconv.ParseInt(value, 10, 32)
		if err != nil {
			return fmt.Errorf("want a whole number")
		}
		f(int32(n))
		return nil
	}
	switch key {
	case "bootstrap.servers":
		j.bootstrap = value
	case "client.id":
		add(kgo.ClientID(value))
	case "request.timeout.ms":
		err = millis(func(d time.Duration) {
			j.requestTimeout = d
			add(kgo.RequestTimeoutOverhead(max(d, time.Millisecond)))
		})
	case "default.api.timeout.ms":
		err = millis(func(d time.Duration) { add(kgo.RetryTimeout(d)) })
	case "socket.connection.setup.timeout.ms":
		err = millis(func(d time.Duration) { j.dialTimeout = d })
	case "connections.max.idle.ms":
		err = millis(func(d time.Duration) { add(kgo.ConnIdleTimeout(d)) })
	case "metadata.max.age.ms":
		err = millis(func(d time.Duration) { add(kgo.MetadataMaxAge(d)) })
	case "retry.backoff.ms":
		err = millis(func(d time.Duration) { add(kgo.RetryBackoffFn(func(int) time.Duration { return d })) })
	case "client.rack":
		add(kgo.Rack(value))
	case "fetch.min.bytes":
		err = number(func(n int32) { add(kgo.FetchMinBytes(n)) })
	case "fetch.max.bytes":
		err = number(func(n int32) { add(kgo.FetchMaxBytes(n)) })
	case "max.partition.fetch.bytes":
		err = number(func(n int32) { add(kgo.FetchMaxPartitionBytes(n)) })
	case "fetch.max.wait.ms":
		err = millis(func(d time.Duration) { add(kgo.FetchMaxWait(max(d, 10*time.Millisecond))) })
	case "check.crcs":
		if value == "false" {
			add(kgo.DisableFetchCRCValidation())
		}
	case "isolation.level":
		switch value {
		case "read_committed":
			add(kgo.FetchIsolationLevel(kgo.ReadCommitted()))
		case "read_uncommitted":
		default:
			err = fmt.Errorf("want read_committed or read_uncommitted")
		}
	case "security.protocol":
		if value != "PLAINTEXT" {
			err = fmt.Errorf("only PLAINTEXT is served by this version")
		}
	default: // groupOpts or producer takes it up, or other clients do, or the consumer of --zookeeper
		return slices.ContainsFunc(clientKeys, func(k clientKey) bool { return k.name == key }) ||
			slices.ContainsFunc(zkconsumer.Keys(), func(k zkconsumer.Key) bool { return k.Name == key }), nil
	}
	return true, err
}

// has returns a key's value, if it was set.
func (j *javaConfig) has(key string) (string, bool) {
	value, ok := j.values[key]
	return value, ok
}

// number is a key as a whole number, or fallback.
func (j *javaConfig) number(key string, fallback int) (int, error) {
	text, ok := j.values[key]
	if !ok {
		return fallback, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, &failure{exitConfig, fmt.Errorf("%s=%s: want a whole number", key, text)}
	}
	return n, nil
}

// producer takes over what a producer is set up with. Keys that were not set are Java's defaults as far as they can be
// seen from outside.
func (j *javaConfig) producer() error {
	bad := func(key, want string) error {
		return &failure{exitConfig, fmt.Errorf("%s=%s: want %s", key, j.values[key], want)}
	}
	acks, idempotent := "all", true
	if v, ok := j.has("acks"); ok {
		acks = v
	}
	switch acks {
	case "0":
		j.opts, idempotent = append(j.opts, kgo.RequiredAcks(kgo.NoAck())), false
	case "1":
		j.opts, idempotent = append(j.opts, kgo.RequiredAcks(kgo.LeaderAck())), false
	case "all", "-1":
		j.opts = append(j.opts, kgo.RequiredAcks(kgo.AllISRAcks()))
	default:
		return bad("acks", "0, 1, -1 or all")
	}
	if v, ok := j.has("enable.idempotence"); ok {
		switch {
		case v != "true" && v != "false":
			return bad("enable.idempotence", "true or false")
		case v == "true" && !idempotent:
			return bad("acks", "all beside enable.idempotence=true")
		}
		idempotent = v == "true"
	}
	inFlight, err := j.number("max.in.flight.requests.per.connection", 5)
	if err != nil {
		return err
	}
	if !idempotent {
		j.opts = append(j.opts, kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(max(1, inFlight)))
	}
	if v, ok := j.has("compression.type"); ok {
		codec, err := compression(v)
		if err != nil {
			return bad("compression.type", "none, gzip, snappy, lz4 or zstd")
		}
		if level, err := j.number("compression."+v+".level", 0); err != nil {
			return err
		} else if level != 0 {
			codec = codec.WithLevel(level)
		}
		j.opts = append(j.opts, kgo.ProducerBatchCompression(codec))
	} else {
		j.opts = append(j.opts, kgo.ProducerBatchCompression(kgo.NoCompression()))
	}
	for key, opt := range map[string]func(n int) kgo.Opt{
		"linger.ms":           func(n int) kgo.Opt { return kgo.ProducerLinger(time.Duration(n) * time.Millisecond) },
		"batch.size":          func(n int) kgo.Opt { return kgo.ProducerBatchMaxBytes(int32(max(n, 512))) },
		"delivery.timeout.ms": func(n int) kgo.Opt { return kgo.RecordDeliveryTimeout(time.Duration(n) * time.Millisecond) },
		"retries":             func(n int) kgo.Opt { return kgo.RecordRetries(n) },
	} {
		if _, ok := j.has(key); !ok {
			continue
		}
		n, err := j.number(key, 0)
		if err != nil {
			return err
		}
		j.opts = append(j.opts, opt(n))
	}
	return nil
}

// compression is the codec of a name of Kafka's.
func compression(name string) (kgo.CompressionCodec, error) {
	switch name {
	case "none":
		return kgo.NoCompression(), nil
	case "gzip":
		return kgo.GzipCompression(), nil
	case "snappy":
		return kgo.SnappyCompression(), nil
	case "lz4":
		return kgo.Lz4Compression(), nil
	case "zstd":
		return kgo.ZstdCompression(), nil
	}
	return kgo.CompressionCodec{}, fmt.Errorf("%q is not a codec: want none, gzip, snappy, lz4 or zstd", name)
}
