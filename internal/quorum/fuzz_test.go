package quorum

import (
	"testing"

	"moldau/internal/vfs"
)

// FuzzSnapshotFile: no bytes make the reader of snapshots panic, or believe a length that is not there.
func FuzzSnapshotFile(f *testing.F) {
	disk := vfs.NewMem()
	s := testSnapshot()
	if _, err := writeSnapshotFile(disk, "/", s, emitAll(values("one", "two"))); err != nil {
		f.Fatal(err)
	}
	good := content(f, disk, s.id.file())
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := disk.Open("/"+s.id.file(), vfs.Create|vfs.Truncate)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteAt(b, 0); err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		_, _ = readSnapshotHeader(disk, "/"+s.id.file(), s.id)
		values, _ := readAll(disk, "/", s.id)
		size := 0
		for _, v := range values {
			size += len(v)
		}
		if size > len(b) {
			t.Errorf("%d bytes of records out of a file of %d", size, len(b))
		}
	})
}

// FuzzState: no content of the small files makes their readers panic.
func FuzzState(f *testing.F) {
	f.Add([]byte(`{"leaderId":-1,"leaderEpoch":2,"votedId":1,"votedDirectoryId":"J8aAPcfLQt2bqs1JT_rMgQ","data_version":1}`))
	f.Add([]byte(`{"clusterId":"","leaderId":1,"leaderEpoch":2,"votedId":-1,"appliedOffset":0,"currentVoters":[],"data_version":0}`))
	f.Add([]byte(`{"commitIndex":7,"data_version":0}`))
	disk := vfs.NewMem()
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, name := range []string{stateFile, commitFile} {
			file, err := disk.Open("/"+name, vfs.Create|vfs.Truncate)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := file.WriteAt(b, 0); err != nil {
				t.Fatal(err)
			}
			if err := file.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if s, ok, err := readState(disk, "/"); err == nil && ok {
			if _, err := votedFor(s, testOptions(disk, nil)); err == nil && s.DataVersion > 1 {
				t.Errorf("took data_version %d", s.DataVersion)
			}
		}
		_, _ = readCommit(disk, "/")
	})
}
