package quorum

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

const (
	stateFile  = "quorum-state"
	commitFile = "quorum-commit"
	voterFile  = "quorum-voter"
	tmpSuffix  = ".tmp"
)

// quorumState is the content of quorum-state: Apache Kafka's QuorumStateData, version 1. Version 0 has further fields, which
// we do not need, and no directory id.
type quorumState struct {
	LeaderID    kafka.NodeID `json:"leaderId"`
	LeaderEpoch kafka.Epoch  `json:"leaderEpoch"`
	VotedID     kafka.NodeID `json:"votedId"`
	VotedDirID  string       `json:"votedDirectoryId"`
	DataVersion int16        `json:"data_version"`
}

// quorumCommit is the content of quorum-commit.
type quorumCommit struct {
	CommitIndex uint64 `json:"commitIndex"`
	DataVersion int16  `json:"data_version"`
}

// quorumVoter is the content of quorum-voter.
type quorumVoter struct {
	DirectoryID string `json:"directoryId"`
	DataVersion int16  `json:"data_version"`
}

// VoterDirID returns the directory id under which a node takes part in the metadata quorum, if that is not the one of
// metadata.log.dir any more: a voter that lost its memory has a new one, while what else lies in the directory is as it was.
func VoterDirID(fsys vfs.FS, metadataDir string) (id kafka.DirID, ok bool, err error) {
	path := filepath.Join(metadataDir, folderName(), voterFile)
	var v quorumVoter
	if ok, err = readJSON(fsys, path, &v); err != nil || !ok {
		return kafka.DirID{}, false, err
	}
	if v.DataVersion != 0 {
		return kafka.DirID{}, false, fmt.Errorf("%s has data_version %d; this version reads 0", path, v.DataVersion)
	}
	if id, err = kafka.ParseUUID(v.DirectoryID); err != nil {
		return kafka.DirID{}, false, fmt.Errorf("%s: %w", path, err)
	}
	return id, true, nil
}

func writeVoterDirID(fsys vfs.FS, metadataDir string, id kafka.DirID) error {
	return writeJSON(fsys, filepath.Join(metadataDir, folderName(), voterFile), quorumVoter{DirectoryID: id.String()})
}

func folderName() string { return kafka.TopicPartition{Topic: TopicName}.String() }

// readState returns false when there is no quorum-state.
func readState(fsys vfs.FS, dir string) (quorumState, bool, error) {
	var s quorumState
	ok, err := readJSON(fsys, filepath.Join(dir, stateFile), &s)
	if err == nil && ok && (s.DataVersion < 0 || s.DataVersion > 1) {
		err = fmt.Errorf("%s has data_version %d; this version reads 0 and 1", filepath.Join(dir, stateFile), s.DataVersion)
	}
	return s, ok, err
}

// writeState makes term and vote durable. leader is told for people and for Apache Kafka; nothing here reads it back.
func writeState(fsys vfs.FS, dir string, epoch kafka.Epoch, leader kafka.NodeID, vote *Voter) error {
	s := quorumState{LeaderID: leader, LeaderEpoch: epoch, VotedID: kafka.NoNode, VotedDirID: kafka.DirID{}.String(), DataVersion: 1}
	if vote != nil {
		s.VotedID, s.VotedDirID = vote.ID, vote.DirID.String()
	}
	return writeJSON(fsys, filepath.Join(dir, stateFile), s)
}

// readCommit returns 0 when there is no quorum-commit.
func readCommit(fsys vfs.FS, dir string) (uint64, error) {
	var c quorumCommit
	_, err := readJSON(fsys, filepath.Join(dir, commitFile), &c)
	if err == nil && c.DataVersion != 0 {
		err = fmt.Errorf("%s has data_version %d; this version reads 0", filepath.Join(dir, commitFile), c.DataVersion)
	}
	return c.CommitIndex, err
}

// writeCommit makes a commit index durable.
func writeCommit(fsys vfs.FS, dir string, index uint64) error {
	return writeJSON(fsys, filepath.Join(dir, commitFile), quorumCommit{CommitIndex: index})
}

func readJSON(fsys vfs.FS, path string, into any) (ok bool, err error) {
	f, err := fsys.Open(path, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Size()
	if err != nil {
		return false, err
	}
	const maxBytes = 1 << 20
	if size > maxBytes {
		return false, fmt.Errorf("%s has %d bytes, which it cannot have", path, size)
	}
	text, err := io.ReadAll(io.NewSectionReader(f, 0, size))
	if err != nil {
		return false, err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return false, fmt.Errorf("%s: %w", path, err)
	}
	return true, nil
}

// writeJSON replaces the file in one durable step.
func writeJSON(fsys vfs.FS, path string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	f, err := fsys.Open(path+tmpSuffix, vfs.Create|vfs.Truncate)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(text, 0)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return publish(fsys, path+tmpSuffix, path)
}

// publish gives a synced file its final name, durably.
func publish(fsys vfs.FS, from, to string) error {
	if err := fsys.Rename(from, to); err != nil {
		return err
	}
	return fsys.SyncDir(filepath.Dir(to))
}
