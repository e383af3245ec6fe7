package cli

import (
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// groupOffset is where a group goes on in one partition.
type groupOffset struct {
	Group     string `json:"group"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"newOffset"`
}

// resetOffsets moves offsets of groups that have no members. Nothing is written unless --execute says so.
func (a *app) resetOffsets(ctx context.Context, cl *client, c *clusterFlags, f groupFlags) error {
	names, err := cl.selected(ctx, f)
	if err != nil || len(names) == 0 {
		return err
	}
	if !f.execute && !f.dryRun {
		fmt.Fprintln(a.stderr, "moldau: nothing is changed without --execute; --dry-run says that this is meant")
	}
	var fromFile []groupOffset
	if f.fromFile != "" {
		if fromFile, err = readResetFile(f.fromFile, names); err != nil {
			return &failure{exitUsage, ofFile("from-file", f.fromFile, err)}
		}
	}
	var failed error
	all := []groupOffset{}
	a.waiting = a.progress(c.json(), "groups", int64(len(names)), countUnit)
	for _, group := range names {
		offsets, err := a.resetOne(ctx, cl, f, group, fromFile)
		a.waiting.add(1)
		if err == nil && f.execute && len(offsets) > 0 {
			commit := make(kadm.Offsets)
			for _, o := range offsets {
				commit.AddOffset(o.Topic, o.Partition, o.Offset, -1)
			}
			err = cl.admin.CommitAllOffsets(ctx, group, commit)
		}
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("group %s: %w", group, err))
			continue
		}
		all = append(all, offsets...)
	}
	if len(all) == 0 && failed != nil {
		return failed
	}
	return errors.Join(a.result(c, all, func(w io.Writer) {
		if f.export {
			for _, o := range all {
				if len(names) > 1 {
					fmt.Fprintf(w, "%s,", o.Group)
				}
				fmt.Fprintf(w, "%s,%d,%d\n", o.Topic, o.Partition, o.Offset)
			}
			return
		}
		rows := [][]string{{"GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"}}
		for _, o := range all {
			rows = append(rows, []string{o.Group, o.Topic, strconv.Itoa(int(o.Partition)), strconv.FormatInt(o.Offset, 10)})
		}
		printColumns(w, rows, []int{15, 15, 10, 0}, "")
	}), failed)
}

// resetOne computes the new offsets of one group, sorted, within what each partition has.
func (a *app) resetOne(ctx context.Context, cl *client, f groupFlags, group string, fromFile []groupOffset) ([]groupOffset, error) {
	g, err := cl.describeGroup(ctx, group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) { // one that does not exist yet may be given offsets
		return nil, err
	}
	if err == nil && g.State != "Empty" && g.State != "Dead" {
		return nil, fmt.Errorf("offsets can only be reset while the group has no members, but its state is %s: stop its consumers first", g.State)
	}
	fetched, err := cl.admin.FetchOffsets(ctx, group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return nil, err
	}
	committed := fetched.Offsets()
	partitions := make(map[string][]int32)
	switch {
	case f.fromFile != "":
		var words []string
		for _, o := range fromFile {
			if o.Group == group {
				words = append(words, fmt.Sprintf("%s:%d", o.Topic, o.Partition))
			}
		}
		if partitions, err = cl.partitionsOf(ctx, words); err != nil {
			return nil, fmt.Errorf("--from-file %s: %w", f.fromFile, err)
		}
	case f.allTopics:
		for _, o := range committed.Sorted() {
			partitions[o.Topic] = append(partitions[o.Topic], o.Partition)
		}
	default:
		if partitions, err = cl.partitionsOf(ctx, f.topics); err != nil {
			return nil, err
		}
	}
	starts, err := cl.listOffsets(ctx, partitions, timeEarliest)
	if err != nil {
		return nil, err
	}
	ends, err := cl.listOffsets(ctx, partitions, timeLatest)
	if err != nil {
		return nil, err
	}
	wanted, err := f.target(ctx, cl, group, partitions, committed, fromFile, a.stderr)
	if err != nil {
		return nil, err
	}
	var offsets []groupOffset
	for i, end := range ends {
		if err := cmp.Or(end.err, starts[i].err); err != nil {
			return nil, fmt.Errorf("%s-%d: %w", end.Topic, end.Partition, err)
		}
		at, err := wanted(end.Topic, end.Partition, starts[i].Offset, end.Offset)
		if err != nil {
			return nil, fmt.Errorf("%s-%d: %w", end.Topic, end.Partition, err)
		}
		if in := min(max(at, starts[i].Offset), end.Offset); in != at {
			fmt.Fprintf(a.stderr, "moldau: warning: %s-%d has offsets %d to %d; %d becomes %d\n", end.Topic, end.Partition, starts[i].Offset, end.Offset, at, in)
			at = in
		}
		offsets = append(offsets, groupOffset{group, end.Topic, end.Partition, at})
	}
	return offsets, nil
}

// target is the function of the scenario: where a partition goes that begins and ends where it is told.
func (f groupFlags) target(ctx context.Context, cl *client, group string, partitions map[string][]int32, committed kadm.Offsets, fromFile []groupOffset, warnings io.Writer) (func(topic string, p int32, start, end int64) (int64, error), error) {
	switch f.scenario {
	case "to-earliest":
		return func(_ string, _ int32, start, _ int64) (int64, error) { return start, nil }, nil
	case "to-latest":
		return func(_ string, _ int32, _, end int64) (int64, error) { return end, nil }, nil
	case "to-offset":
		return func(string, int32, int64, int64) (int64, error) { return f.toOffset, nil }, nil
	case "to-current":
		return func(topic string, p int32, _, end int64) (int64, error) {
			if o, ok := committed.Lookup(topic, p); ok && o.At >= 0 {
				return o.At, nil
			}
			return end, nil
		}, nil
	case "shift-by":
		return func(topic string, p int32, _, _ int64) (int64, error) {
			o, ok := committed.Lookup(topic, p)
			if !ok || o.At < 0 {
				return 0, errors.New("the group has no offset there that could be shifted")
			}
			return o.At + f.shiftBy, nil
		}, nil
	case "from-file":
		return func(topic string, p int32, _, _ int64) (int64, error) {
			i := slices.IndexFunc(fromFile, func(o groupOffset) bool { return o.Group == group && o.Topic == topic && o.Partition == p })
			return fromFile[i].Offset, nil
		}, nil
	}
	var at time.Time
	var err error
	if f.scenario == "to-datetime" {
		at, err = parseDatetime(f.toDatetime)
	} else {
		var back time.Duration
		back, err = parseISODuration(f.byDuration)
		at = time.Now().Add(-back)
	}
	if err != nil {
		return nil, &failure{exitUsage, fmt.Errorf("--%s: %w", f.scenario, err)}
	}
	found, err := cl.listOffsets(ctx, partitions, at.UnixMilli())
	if err != nil {
		return nil, err
	}
	return func(topic string, p int32, _, end int64) (int64, error) {
		for _, o := range found {
			if o.Topic == topic && o.Partition == p && o.Offset >= 0 {
				return o.Offset, nil
			}
		}
		fmt.Fprintf(warnings, "moldau: warning: %s-%d has no record that young; its end is taken\n", topic, p)
		return end, nil
	}, nil
}

// parseDatetime reads 2026-01-31T12:00:00.000, with +01:00, +0100 or Z behind it or not.
func parseDatetime(text string) (time.Time, error) {
	for _, layout := range []string{"2006-01-02T15:04:05.999", "2006-01-02T15:04:05.999Z07:00", "2006-01-02T15:04:05.999Z0700"} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q: want YYYY-MM-DDThh:mm:ss.sss", text)
}

// parseISODuration reads PnDTnHnMnS. Each part may be missing, not all of them.
func parseISODuration(text string) (time.Duration, error) {
	m := regexp.MustCompile(`^P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?$`).FindStringSubmatch(strings.ToUpper(text))
	if m == nil || strings.Join(m[1:], "") == "" {
		return 0, fmt.Errorf("%q: want PnDTnHnMnS, for example P7D or PT1H30M", text)
	}
	var sum float64
	for i, unit := range []time.Duration{24 * time.Hour, time.Hour, time.Minute, time.Second} {
		if m[i+1] != "" {
			n, err := strconv.ParseFloat(m[i+1], 64)
			if err != nil {
				return 0, err
			}
			sum += n * float64(unit)
		}
	}
	if sum > float64(1<<63-1)/2 {
		return 0, fmt.Errorf("%q is too long", text)
	}
	return time.Duration(sum), nil
}

// readResetFile reads topic,partition,offset lines, or group,topic,partition,offset where there are several groups. A line
// that is none is told by its number, with what it should be.
func readResetFile(path string, groups []string) ([]groupOffset, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	want := "topic,partition,offset"
	if len(groups) > 1 {
		want = "group," + want
	}
	in := csv.NewReader(file)
	in.FieldsPerRecord, in.TrimLeadingSpace = -1, true
	var offsets []groupOffset
	seen := make(map[groupOffset]int) // the line that names a group and partition
	for {
		words, err := in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		var fault *csv.ParseError
		if errors.As(err, &fault) {
			return nil, fmt.Errorf("line %d: %w: want %s", fault.Line, fault.Err, want)
		}
		if err != nil {
			return nil, err
		}
		line, _ := in.FieldPos(0)
		bad := func(format string, args ...any) error {
			return fmt.Errorf("line %d: %q: %s", line, strings.Join(words, ","), fmt.Sprintf(format, args...))
		}
		one := words
		if len(one) == 3 && len(groups) == 1 {
			one = append([]string{groups[0]}, one...)
		}
		if len(one) != 4 {
			return nil, bad("want %s, as --reset-offsets --export writes it", want)
		}
		p, err := strconv.ParseInt(strings.TrimSpace(one[2]), 10, 32)
		if err != nil || p < 0 {
			return nil, bad("%q is no partition: want a number from 0", one[2])
		}
		at, err := strconv.ParseInt(strings.TrimSpace(one[3]), 10, 64)
		if err != nil || at < 0 {
			return nil, bad("%q is no offset: want a number from 0", one[3])
		}
		if !slices.Contains(groups, one[0]) {
			return nil, bad("group %q is not one of --group: leave the line out or add the group", one[0])
		}
		key := groupOffset{Group: one[0], Topic: one[1], Partition: int32(p)}
		if first := seen[key]; first > 0 {
			return nil, bad("line %d names the same partition: leave one of them out", first)
		}
		seen[key] = line
		key.Offset = at
		offsets = append(offsets, key)
	}
	if len(offsets) == 0 {
		return nil, fmt.Errorf("it has no offsets: want lines of %s", want)
	}
	return offsets, nil
}
