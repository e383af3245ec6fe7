package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"
)

// tailFlags are what of a topic is shown, and how.
type tailFlags struct {
	partitions              []int32
	key, grep, since, color string
	last, maxMessages       int64
	fromBeginning, colored  bool
	match                   *regexp.Regexp
	start                   kgo.Offset
}

// tailCommand follows a topic. Kafka has no such tool.
func (a *app) tailCommand() *cobra.Command {
	var f tailFlags
	cmd, c := a.tool("tail TOPIC", "Show the newest records of a topic and those that come",
		"  moldau tail orders\n  moldau tail orders --key customer-7 --since 1h\n  moldau tail orders --partition 2 --grep 'status\":\"5\\d\\d' -n 0", nil)
	flags := cmd.Flags()
	flags.Int64VarP(&f.last, "lines", "n", 10, "begin with so `many` of the newest records of each partition")
	flags.StringVar(&f.since, "since", "", "begin at a `time` instead: 90s, 15m, 2h ago, or 2026-01-31T12:00:00")
	flags.BoolVar(&f.fromBeginning, "from-beginning", false, "begin with the oldest record")
	flags.Int32SliceVarP(&f.partitions, "partition", "p", nil, "only these `partitions`")
	flags.StringVarP(&f.key, "key", "k", "", "only records with this `key`")
	flags.StringVarP(&f.grep, "grep", "g", "", "only records whose value matches this regular `expression`")
	flags.Int64Var(&f.maxMessages, "max-messages", 0, "stop after so `many` shown records")
	flags.StringVar(&f.color, "color", "auto", "colours: `auto`, always or never")
	cmd.Args = usage(cobra.ExactArgs(1))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.check(time.Now(), flags.Changed("lines")); err != nil {
			return &failure{exitUsage, err}
		}
		f.colored = f.color == "always" || f.color == "auto" && a.terminal
		return a.tail(cmd.Context(), c, f, args[0], flags.Changed("key"))
	}
	return cmd
}

func (f *tailFlags) check(now time.Time, lines bool) error {
	switch {
	case f.color != "auto" && f.color != "always" && f.color != "never":
		return fmt.Errorf("--color %s: want auto, always or never", f.color)
	case f.last < 0:
		return errors.New("--lines counts from 0")
	case f.maxMessages < 0:
		return errors.New("--max-messages: want 1 or more, or 0 for all that come")
	case f.fromBeginning && (f.since != "" || lines) || f.since != "" && lines:
		return errors.New("--lines, --since and --from-beginning exclude each other")
	}
	var err error
	if f.match, err = regexp.Compile(f.grep); err != nil {
		return fmt.Errorf("--grep: %w", err)
	}
	switch {
	case f.fromBeginning:
		f.start = kgo.NewOffset().AtStart()
	case f.since != "":
		at, err := parseDatetime(f.since)
		if back, errBack := time.ParseDuration(f.since); errBack == nil && back >= 0 {
			at, err = now.Add(-back), nil
		}
		if err != nil {
			return fmt.Errorf("--since %s: want 15m, 2h or 2026-01-31T12:00:00", f.since)
		}
		f.start = kgo.NewOffset().AfterMilli(at.UnixMilli())
	default:
		f.start = kgo.NewOffset().AtEnd().Relative(-f.last)
	}
	return nil
}

func (a *app) tail(ctx context.Context, c *clusterFlags, f tailFlags, topic string, byKey bool) error {
	opts := []kgo.Opt{kgo.ConsumeStartOffset(f.start), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())}
	if len(f.partitions) > 0 {
		wanted := make(map[int32]kgo.Offset)
		for _, p := range f.partitions {
			wanted[p] = f.start
		}
		opts = append(opts, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: wanted}))
	} else {
		opts = append(opts, kgo.ConsumeTopics(topic))
	}
	return a.on(ctx, c, func(ctx context.Context, cl *client) error {
		for _, p := range append([]int32{0}, f.partitions...) {
			if err := cl.partitionExists(ctx, topic, p); err != nil {
				return err
			}
		}
		a.stream(cl)
		ctx, release := a.whileRead(ctx)
		defer release()
		out := bufio.NewWriter(a.stdout)
		for shown := int64(0); ; {
			fetches := cl.PollFetches(ctx)
			if ctx.Err() != nil {
				return nil // the way to end it
			}
			if all := fetches.Errors(); len(all) > 0 {
				return unread(all[0])
			}
			for _, r := range fetches.Records() {
				if byKey && !bytes.Equal(r.Key, []byte(f.key)) || !f.match.Match(r.Value) {
					continue
				}
				if err := f.print(out, r, c.json()); err != nil {
					return err
				}
				if shown++; shown == f.maxMessages {
					return out.Flush()
				}
			}
			if err := out.Flush(); err != nil {
				return err
			}
		}
	}, opts...)
}

// print shows one record on one line: time, partition and offset, key, value. What could steer a terminal is escaped.
func (f *tailFlags) print(w io.Writer, r *kgo.Record, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		return enc.Encode(newRecordJSON(r))
	}
	paint := func(code int, text string) string {
		if !f.colored {
			return text
		}
		return "\x1b[" + strconv.Itoa(code) + "m" + text + "\x1b[0m"
	}
	value := paint(2, "null")
	if r.Value != nil {
		value = oneLine(string(r.Value))
		if f.colored && f.grep != "" {
			value = f.match.ReplaceAllStringFunc(value, func(s string) string { return paint(31, s) })
		}
	}
	words := []string{paint(2, r.Timestamp.Format("15:04:05.000")), paint(36, fmt.Sprintf("%d:%d", r.Partition, r.Offset))}
	if r.Key != nil {
		words = append(words, paint(33, oneLine(string(r.Key))))
	}
	for _, h := range r.Headers {
		words = append(words, paint(35, oneLine(h.Key+"="+string(h.Value))))
	}
	_, err := fmt.Fprintln(w, strings.Join(append(words, value), " "))
	return err
}
