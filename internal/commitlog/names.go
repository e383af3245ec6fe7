package commitlog

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

// Suffixes of the files of a log (Kafka's LogFileUtils, UnifiedLog).
const (
	logSuffix       = ".log"
	indexSuffix     = ".index"
	timeIndexSuffix = ".timeindex"
	txnIndexSuffix  = ".txnindex"
	snapshotSuffix  = ".snapshot"

	deletedSuffix = ".deleted" // out of the log, to be removed after file.delete.delay.ms
	cleanedSuffix = ".cleaned" // compaction was writing it
	swapSuffix    = ".swap"    // compaction was putting it in place of older segments
	tmpSuffix     = ".tmp"     // a checkpoint was being written
)

const (
	epochsName            = "leader-epoch-checkpoint"
	partitionMetadataName = "partition.metadata"

	// Suffixes of folders that are no log any more, or not yet.
	deleteDirSuffix = "-delete"
	strayDirSuffix  = "-stray"
	futureDirSuffix = "-future"

	maxNameBytes = 255
)

// fileName is an offset in 20 digits and a suffix.
func fileName(offset kafka.Offset, suffix string) string {
	return fmt.Sprintf("%020d%s", offset, suffix)
}

// parseName cuts a file name into the offset and everything after its digits.
func parseName(name string) (offset kafka.Offset, suffix string, ok bool) {
	dot := strings.IndexByte(name, '.')
	if dot != 20 {
		return 0, "", false
	}
	offset, err := strconv.ParseInt(name[:dot], 10, 64)
	return offset, name[dot:], err == nil && offset >= 0
}

// ParseDir returns the partition whose folder has this name: "orders-0" is partition 0 of topic orders. Folders that
// wait for deletion, strays and those of a move between directories are errors.
func ParseDir(name string) (kafka.TopicPartition, error) {
	none := kafka.TopicPartition{}
	for _, suffix := range []string{deleteDirSuffix, strayDirSuffix, futureDirSuffix} {
		if strings.HasSuffix(name, suffix) && strings.Contains(name, ".") {
			return none, fmt.Errorf("folder %q is marked %s, it is no live log", name, suffix)
		}
	}
	dash := strings.LastIndexByte(name, '-')
	if dash <= 0 {
		return none, fmt.Errorf("folder %q is not named topic-partition", name)
	}
	number := name[dash+1:]
	partition, err := strconv.ParseInt(number, 10, 32)
	if err != nil || partition < 0 || strconv.FormatInt(partition, 10) != number {
		return none, fmt.Errorf("folder %q is not named topic-partition", name)
	}
	return kafka.TopicPartition{Topic: name[:dash], Partition: int32(partition)}, nil
}

// DeleteDirName returns the name of a deleted log's folder until it is gone: topic-partition.<32 hex digits>-delete. The
// topic is cut where a file name would get too long. IsDeleteDir recognises it.
func DeleteDirName(tp kafka.TopicPartition, unique kafka.UUID) string {
	return markedDirName(tp, unique, deleteDirSuffix)
}

// StrayDirName is DeleteDirName for a log that the cluster's metadata does not know: it is kept for a person to look at.
func StrayDirName(tp kafka.TopicPartition, unique kafka.UUID) string {
	return markedDirName(tp, unique, strayDirSuffix)
}

// FutureDirName returns the name of a folder in which a log is being copied from another directory. INVALID_TOPIC_EXCEPTION:
// the topic's name is too long for it (KAFKA-4893).
func FutureDirName(tp kafka.TopicPartition, unique kafka.UUID) (string, error) {
	name := tp.String() + "." + hex.EncodeToString(unique[:]) + futureDirSuffix
	if len(name) > maxNameBytes {
		return "", fmt.Errorf("the folder of %s while it moves would be named %s, which is too long: %w", tp, name, kerr.InvalidTopicException)
	}
	return name, nil
}

// ParseFutureDir returns the partition that is copied to the folder of this name; ok is false if it is no such folder.
func ParseFutureDir(name string) (tp kafka.TopicPartition, ok bool) {
	name, ok = strings.CutSuffix(name, futureDirSuffix)
	dot := strings.LastIndexByte(name, '.')
	if !ok || dot < 0 {
		return tp, false
	}
	tp, err := ParseDir(name[:dot])
	return tp, err == nil
}

func markedDirName(tp kafka.TopicPartition, unique kafka.UUID, suffix string) string {
	end := "." + hex.EncodeToString(unique[:]) + suffix
	name := tp.String()
	return name[:min(len(name), maxNameBytes-len(end))] + end
}

// IsDeleteDir tells whether a folder is that of a deleted log.
func IsDeleteDir(name string) bool {
	return strings.HasSuffix(name, deleteDirSuffix) && strings.Contains(name, ".")
}

// IsStrayDir tells whether a folder was put aside as unknown.
func IsStrayDir(name string) bool {
	return strings.HasSuffix(name, strayDirSuffix) && strings.Contains(name, ".")
}

// HoldsNothing tells whether no record was ever on the disk in a folder with these entries.
func HoldsNothing(entries []vfs.Entry) bool {
	return !slices.ContainsFunc(entries, func(e vfs.Entry) bool {
		return strings.HasSuffix(e.Name, logSuffix) && (e.Size > 0 || e.Name != fileName(0, logSuffix))
	})
}

// ReadPartitionMetadata returns the topic id in a log's partition.metadata. Errors: fs.ErrNotExist if there is no such file,
// ErrMetadata, and those of the disk.
func ReadPartitionMetadata(fsys vfs.FS, dir string) (kafka.TopicID, error) {
	path := filepath.Join(dir, partitionMetadataName)
	content, err := vfs.ReadFile(fsys, path)
	if err != nil {
		return kafka.TopicID{}, err
	}
	fields := make(map[string]string)
	for line := range strings.Lines(string(content)) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[key] = strings.TrimSpace(value)
		}
	}
	switch version := fields["version"]; {
	case version == "":
		return kafka.TopicID{}, fmt.Errorf("%w: %s has no version", ErrMetadata, path)
	case version != "0":
		return kafka.TopicID{}, fmt.Errorf("%w: %s: version %q, want 0", ErrMetadata, path, version)
	}
	id, err := kafka.ParseUUID(fields["topic_id"])
	if err == nil && id.IsZero() {
		err = errors.New("the topic id is zero")
	}
	if err != nil {
		return kafka.TopicID{}, fmt.Errorf("%w: %s: %w", ErrMetadata, path, err)
	}
	return id, nil
}

// WritePartitionMetadata stores the topic id of the log in dir, durably.
func WritePartitionMetadata(fsys vfs.FS, dir string, id kafka.TopicID) error {
	return vfs.WriteFileAtomic(fsys, filepath.Join(dir, partitionMetadataName), partitionMetadata(id))
}

// NewPartitionMetadata stores the topic id in a folder that was made just now. It is not durable: see Options.NewFolder.
func NewPartitionMetadata(fsys vfs.FS, dir string, id kafka.TopicID) error {
	f, err := fsys.Open(filepath.Join(dir, partitionMetadataName), vfs.Create|vfs.Truncate)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(partitionMetadata(id), 0)
	return errors.Join(err, f.Close())
}

func partitionMetadata(id kafka.TopicID) []byte {
	return fmt.Appendf(nil, "version: 0\ntopic_id: %s", id)
}

// ErrMetadata says that a partition.metadata cannot be understood: damaged, or from a crash soon after it was made.
var ErrMetadata = errors.New("partition.metadata cannot be understood")

func notExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }
