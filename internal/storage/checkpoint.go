package storage

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"

	"moldau/internal/kafka"
)

// The three text files that Apache Kafka keeps per directory, in the order in which the journal numbers them.
const (
	recoveryPointFile = "recovery-point-offset-checkpoint"
	highWatermarkFile = "replication-offset-checkpoint"
	logStartFile      = "log-start-offset-checkpoint"
)

func checkpointFiles() [3]string {
	return [3]string{recoveryPointFile, highWatermarkFile, logStartFile}
}

// checkpoint is the content of one such file. Mirrors CheckpointFile and OffsetCheckpointFile: a version line, a count
// line, then "topic partition offset" per line.
type checkpoint map[kafka.TopicPartition]int64

// text returns the file's bytes, lines sorted by topic and partition.
func (c checkpoint) text() []byte {
	tps := make([]kafka.TopicPartition, 0, len(c))
	for tp := range c {
		tps = append(tps, tp)
	}
	slices.SortFunc(tps, compareTP)
	b := make([]byte, 0, 16+32*len(tps))
	b = append(b, "0\n"...)
	b = strconv.AppendInt(b, int64(len(tps)), 10)
	b = append(b, '\n')
	for _, tp := range tps {
		b = append(b, tp.Topic...)
		b = append(b, ' ')
		b = strconv.AppendInt(b, int64(tp.Partition), 10)
		b = append(b, ' ')
		b = strconv.AppendInt(b, c[tp], 10)
		b = append(b, '\n')
	}
	return b
}

// parseCheckpoint reads the file's bytes. An error means that nothing in the file can be trusted.
func parseCheckpoint(text []byte) (checkpoint, error) {
	version, rest, _ := bytes.Cut(text, []byte("\n"))
	if string(version) != "0" {
		return nil, fmt.Errorf("line 1: version is %q, want 0", version)
	}
	countText, rest, _ := bytes.Cut(rest, []byte("\n"))
	count, err := strconv.Atoi(string(countText))
	if err != nil || count < 0 {
		return nil, fmt.Errorf("line 2: %q is not a count", countText)
	}
	c := checkpoint{}
	line := 2
	for len(rest) > 0 {
		var entry []byte
		entry, rest, _ = bytes.Cut(rest, []byte("\n"))
		line++
		fields := strings.Fields(string(entry))
		if len(fields) != 3 {
			return nil, fmt.Errorf("line %d: %q is not \"topic partition offset\"", line, entry)
		}
		partition, err := strconv.ParseInt(fields[1], 10, 32)
		if err != nil || partition < 0 {
			return nil, fmt.Errorf("line %d: %q is not a partition", line, fields[1])
		}
		offset, err := strconv.ParseInt(fields[2], 10, 64)
		if err != nil || offset < 0 {
			return nil, fmt.Errorf("line %d: %q is not an offset", line, fields[2])
		}
		c[kafka.TopicPartition{Topic: fields[0], Partition: int32(partition)}] = offset
	}
	if len(c) != count {
		return nil, fmt.Errorf("%d partitions, but line 2 says %d", len(c), count)
	}
	return c, nil
}

// fingerprint tells one content of a checkpoint file from another; a missing file counts as empty.
func fingerprint(content []byte) uint64 {
	return uint64(len(content))<<32 | uint64(crc32.Checksum(content, crc32.MakeTable(crc32.Castagnoli)))
}

func compareTP(a, b kafka.TopicPartition) int {
	if c := strings.Compare(a.Topic, b.Topic); c != 0 {
		return c
	}
	return int(a.Partition) - int(b.Partition)
}
