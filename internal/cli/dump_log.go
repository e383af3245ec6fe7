package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"moldau/internal/batch"
)

// dumpFlags are those of DumpLogSegments that have a meaning for files of records.
type dumpFlags struct {
	files                                             string
	print, deep, verifyOnly, sanityOnly, skipMetadata bool
	maxBytes                                          int64
	maxMessage                                        int
	decoderFlags
}

// dumpLogCommand is Kafka's kafka-dump-log.sh (DumpLogSegments). It reads files and needs no node.
func (a *app) dumpLogCommand() *cobra.Command {
	f := dumpFlags{}
	cmd := &cobra.Command{
		Use:   "dump-log",
		Short: "Print what is in the files of a partition",
		Example: "  moldau dump-log --files data/orders-0/00000000000000000000.log --print-data-log\n" +
			"  moldau dump-log --cluster-metadata-decoder --files data/__cluster_metadata-0/00000000000000000000.log\n" +
			"  moldau dump-log --verify-index-only --files data/orders-0/00000000000000000000.index",
		Args:    usage(cobra.NoArgs),
		Version: toolVersion(),
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.files, "files", "", "the `files`, by comma: .log, .index, .timeindex, .snapshot, .txnindex, .checkpoint")
	flags.BoolVar(&f.print, "print-data-log", false, "print keys and values")
	flags.BoolVar(&f.deep, "deep-iteration", false, "print every record, not only batches; --print-data-log does so too")
	flags.BoolVar(&f.verifyOnly, "verify-index-only", false, "compare indexes with their log and print only what is wrong")
	flags.BoolVar(&f.sanityOnly, "index-sanity-check", false, "check indexes as a broker does when it starts")
	flags.BoolVar(&f.skipMetadata, "skip-record-metadata", false, "print of records only keys and values")
	flags.Int64Var(&f.maxBytes, "max-bytes", 1<<63-1, "stop after so many `bytes` of a log")
	output := flags.String("output", "text", "how results look: `text or json`, which is an object a line")
	flags.IntVar(&f.maxMessage, "max-message-size", 5<<20, "how many `bytes` a batch may have that an index points at")
	flags.Lookup("max-bytes").DefValue = "0"
	f.add(flags)
	cmd.RunE = func(*cobra.Command, []string) error {
		if f.files == "" {
			return &failure{exitUsage, errors.New("--files is required")}
		}
		if *output != "text" && *output != "json" {
			return &failure{exitUsage, fmt.Errorf("--output %s: want text or json", *output)}
		}
		decode, asked, err := f.chosen()
		if err != nil {
			return &failure{exitUsage, err}
		}
		f.print = f.print || asked
		out := bufio.NewWriterSize(a.stdout, 64<<10)
		d := &dump{dumpFlags: f, decode: decode, out: out, json: *output == "json"}
		if !a.terminal { // else one sees how far it is
			d.shown = a.progress(d.json, "dumped", logBytes(f.files), byteUnit)
			defer d.shown.done()
		}
		for file := range strings.SplitSeq(f.files, ",") {
			err = errors.Join(err, d.file(strings.TrimSpace(file)))
		}
		return errors.Join(err, out.Flush(), d.report())
	}
	return cmd
}

// dump prints files and collects what is wrong with them.
type dump struct {
	dumpFlags
	decode dumpDecoder
	out    io.Writer
	json   bool
	path   string    // of the file that is shown
	shown  *progress // counts the bytes of logs
	faults []string
}

// logBytes is how large the logs among files are, by comma. One that is not there counts nothing.
func logBytes(files string) (total int64) {
	for file := range strings.SplitSeq(files, ",") {
		file = strings.TrimSpace(file)
		if info, err := os.Stat(file); err == nil && strings.HasSuffix(file, ".log") {
			total += info.Size()
		}
	}
	return total
}

func (d *dump) file(path string) error {
	d.path = path
	d.say("Dumping %s\n", path)
	do := map[string]func(string) error{
		".log": d.log, ".checkpoint": d.log, ".index": d.index, ".timeindex": d.timeIndex, ".snapshot": d.snapshot, ".txnindex": d.txnIndex,
	}[filepath.Ext(path)]
	if do == nil {
		return &failure{exitUsage, fmt.Errorf("%s: not a file that can be shown: want .log, .index, .timeindex, .snapshot, .txnindex or .checkpoint", path)}
	}
	if err := do(path); err != nil {
		return &failure{exitData, fmt.Errorf("%s: %w", path, bare(err, path))}
	}
	return nil
}

// fault remembers what is wrong, for after the files.
func (d *dump) fault(format string, args ...any) {
	d.faults = append(d.faults, fmt.Sprintf(format, args...))
}

func (d *dump) report() error {
	if len(d.faults) == 0 {
		return nil
	}
	return &failure{exitData, errors.New(strings.Join(d.faults, "\n"))}
}

// batches calls do with every whole batch of a log, and returns how many bytes are none. from is where to begin.
func batches(path string, from, limit int64, do func(b batch.Batch, position int64) error) (rest int64, err error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	size := min(info.Size(), limit)
	in := bufio.NewReaderSize(io.NewSectionReader(file, from, size-from), 256<<10)
	position := from
	for {
		head, err := in.Peek(batch.PeekSize)
		if errors.Is(err, io.EOF) {
			return size - position, nil
		}
		if err != nil {
			return 0, err
		}
		length, _, magic, err := batch.PeekHeader(head)
		switch {
		case err != nil:
			return size - position, nil
		case magic < 2:
			return 0, fmt.Errorf("position %d: a message of format %d, which is not shown", position, magic)
		case position+int64(length) > size:
			return size - position, nil
		}
		buf := make([]byte, length)
		if _, err := io.ReadFull(in, buf); err != nil {
			return 0, err
		}
		b, _, err := batch.Next(buf)
		if err != nil {
			return size - position, nil
		}
		if err := do(b, position); err != nil {
			return 0, err
		}
		position += int64(length)
	}
}

func (d *dump) log(path string) error {
	name := filepath.Base(path)
	var base, epoch int64
	if _, err := fmt.Sscanf(name, "%d.log", &base); err == nil {
		d.say("Log starting offset: %d\n", base)
	} else if _, err := fmt.Sscanf(name, "%d-%d.checkpoint", &base, &epoch); err == nil {
		d.say("Snapshot end offset: %d, epoch: %d\n", base, epoch)
	}
	last := int64(-1)
	rest, err := batches(path, 0, d.maxBytes, func(b batch.Batch, position int64) error {
		if d.json {
			d.batchJSON(b, position)
		} else {
			d.batch(b, position)
		}
		d.shown.add(int64(b.Size()))
		if !d.deep && !d.print {
			return nil
		}
		return b.Each(func(r batch.Record) error {
			if last >= 0 && int64(r.Offset) != last+1 {
				d.fault("Non-consecutive offsets in %s: %d is followed by %d", path, last, r.Offset)
			}
			last = int64(r.Offset)
			if d.json {
				return d.recordJSON(b, r)
			}
			return d.record(b, r)
		})
	})
	if rest > 0 && err == nil && d.maxBytes == 1<<63-1 {
		d.say("Found %d invalid bytes at the end of %s\n", rest, name)
		if d.json {
			d.thing("end", object{{"invalidBytes", rest}})
		}
	}
	return err
}

func (d *dump) batch(b batch.Batch, position int64) {
	horizon := "OptionalLong.empty"
	if b.DeleteHorizonSet() {
		horizon = fmt.Sprintf("OptionalLong[%d]", b.BaseTimestamp())
	}
	fmt.Fprintf(d.out, "baseOffset: %d lastOffset: %d count: %d baseSequence: %d lastSequence: %d producerId: %d producerEpoch: %d "+
		"partitionLeaderEpoch: %d isTransactional: %t isControl: %t deleteHorizonMs: %s position: %d %s: %d size: %d magic: %d compresscodec: %s crc: %d isvalid: %t\n",
		b.BaseOffset(), b.LastOffset(), b.Count(), b.BaseSequence(), b.LastSequence(), b.ProducerID(), b.ProducerEpoch(),
		b.LeaderEpoch(), b.Transactional(), b.Control(), horizon, position, timestampType(b), b.MaxTimestamp(), b.Size(), b.Magic(), b.Codec(), b.CRC(), b.VerifyCRC() == nil)
}

func timestampType(b batch.Batch) string {
	if b.LogAppendTime() {
		return "LogAppendTime"
	}
	return "CreateTime"
}

func (d *dump) record(b batch.Batch, r batch.Record) error {
	prefix := "| "
	if !d.skipMetadata {
		timestamp, sequence := stamped(b, r)
		keys := make([]string, len(r.Headers))
		for i, h := range r.Headers {
			keys[i] = h.Key
		}
		fmt.Fprintf(d.out, "| offset: %d %s: %d keySize: %d valueSize: %d sequence: %d headerKeys: [%s]",
			r.Offset, timestampType(b), timestamp, sizeOf(r.Key), sizeOf(r.Value), sequence, strings.Join(keys, ","))
		prefix = " "
		if b.Control() {
			text, err := controlShown(r)
			if err != nil {
				return err
			}
			fmt.Fprintf(d.out, " %s", text)
		}
	}
	if d.print && !b.Control() {
		key, value := d.decode(r)
		for _, part := range []struct {
			name string
			text *string
		}{{"key", key}, {"payload", value}} {
			if part.text != nil {
				fmt.Fprintf(d.out, "%s%s: %s", prefix, part.name, *part.text)
				prefix = " "
			}
		}
	}
	fmt.Fprintln(d.out)
	return nil
}

// stamped is a record's time and sequence, for which its batch has the rest.
func stamped(b batch.Batch, r batch.Record) (timestamp int64, sequence int32) {
	timestamp = r.Timestamp
	if b.LogAppendTime() {
		timestamp = b.MaxTimestamp()
	}
	sequence = b.BaseSequence()
	if sequence >= 0 {
		sequence = int32((int64(sequence) + int64(r.Offset-b.BaseOffset())) & 0x7fffffff)
	}
	return timestamp, sequence
}

// sizeOf is the length of bytes, -1 of null.
func sizeOf(b []byte) int64 {
	if b == nil {
		return -1
	}
	return int64(len(b))
}

// controlShown is what a control record says.
func controlShown(r batch.Record) (string, error) {
	kind, _, err := batch.ParseControl(r)
	if err != nil {
		return "", err
	}
	if kind != batch.ControlAbort && kind != batch.ControlCommit {
		text, known, err := controlText(kind, r.Value)
		if !known {
			text = fmt.Sprintf("controlType: %s(%d)", kind, kind)
		}
		return text, err
	}
	var marker batch.EndTxnMarker
	if err := marker.ReadFrom(r.Value); err != nil {
		return "", err
	}
	return fmt.Sprintf("endTxnMarker: %s coordinatorEpoch: %d", kind, marker.CoordinatorEpoch), nil
}
