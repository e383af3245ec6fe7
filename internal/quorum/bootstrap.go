package quorum

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"moldau/internal/batch"
	"moldau/internal/vfs"
)

// bootstrapName, with the suffix of a snapshot, is the file in metadata.log.dir by which a tool that formats a node says how the
// metadata log is to begin (Kafka's BootstrapDirectory). It has the form of a snapshot that covers nothing and knows no voters.
const bootstrapName = "bootstrap"

// WriteBootstrap stores, durably, the records with which the metadata log of a node is to begin, in place of any that are there.
// metadataDir is metadata.log.dir.
func WriteBootstrap(fsys vfs.FS, metadataDir string, values [][]byte, nowMs int64) error {
	header := batch.SnapshotHeader{}
	w := snapshotWriter{timestamp: nowMs}
	_, err := w.write(fsys, filepath.Join(metadataDir, bootstrapName),
		[]controlRecord{{batch.ControlSnapshotHeader, header.AppendTo(nil)}},
		func(record func([]byte) error) error {
			for _, value := range values {
				if err := record(value); err != nil {
					return err
				}
			}
			return nil
		})
	return err
}

// ReadBootstrap returns the records with which the metadata log of a node is to begin; none if no tool has said.
func ReadBootstrap(fsys vfs.FS, metadataDir string) (values [][]byte, err error) {
	path := filepath.Join(metadataDir, bootstrapName+snapshotSuffix)
	if _, err := fsys.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for value, err := range snapshotRecords(fsys, path) {
		if err != nil {
			return nil, err
		}
		values = append(values, slices.Clone(value))
	}
	return values, nil
}
