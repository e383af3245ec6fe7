package quorum

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

func testSnapshot() snapshot {
	return snapshot{id: SnapshotID{EndOffset: 90, Epoch: 4}, index: 41, timestamp: 1700000000000, voters: votersAt{index: 41, voters: testVoters(), inLog: true}}
}

func emitAll(values [][]byte) func(func([]byte) error) error {
	return func(record func([]byte) error) error {
		for _, v := range values {
			if err := record(v); err != nil {
				return err
			}
		}
		return nil
	}
}

func readAll(fsys vfs.FS, dir string, id SnapshotID) (values [][]byte, err error) {
	for v, err := range snapshotRecords(fsys, filepath.Join(dir, id.file())) {
		if err != nil {
			return values, err
		}
		values = append(values, bytes.Clone(v))
	}
	return values, nil
}

func TestSnapshotFileComesBack(t *testing.T) {
	disk := vfs.NewMem()
	s := testSnapshot()
	var values [][]byte
	for i := range 5000 { // several batches
		values = append(values, []byte(strings.Repeat(fmt.Sprint(i), 40)))
	}
	size, err := writeSnapshotFile(disk, "/", s, emitAll(values))
	if err != nil {
		t.Fatal(err)
	}
	got, err := readSnapshotHeader(disk, "/"+s.id.file(), s.id)
	if err != nil {
		t.Fatal(err)
	}
	if got.id != s.id || got.index != s.index || got.timestamp != s.timestamp || got.sizeBytes != size ||
		!got.voters.inLog || got.voters.index != s.index || !slices.EqualFunc(got.voters.voters, s.voters.voters, SameVoter) {
		t.Errorf("header came back as %+v", got)
	}
	back, err := readAll(disk, "/", s.id)
	if err != nil || !slices.EqualFunc(back, values, bytes.Equal) {
		t.Errorf("%d records came back of %d, error %v", len(back), len(values), err)
	}
	again := vfs.NewMem()
	if _, err := writeSnapshotFile(again, "/", s, emitAll(values)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(content(t, disk, s.id.file()), content(t, again, s.id.file())) {
		t.Error("the same state made other bytes")
	}
}

func content(t testing.TB, fsys vfs.FS, name string) []byte {
	t.Helper()
	f, err := fsys.Open(filepath.Join("/", name), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(io.NewSectionReader(f, 0, size))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestDamagedSnapshots: no change of a snapshot file's bytes goes unnoticed, and none makes the reader panic.
func TestDamagedSnapshots(t *testing.T) {
	disk := vfs.NewMem()
	s := testSnapshot()
	if _, err := writeSnapshotFile(disk, "/", s, emitAll([][]byte{[]byte("one"), []byte("two")})); err != nil {
		t.Fatal(err)
	}
	good := content(t, disk, s.id.file())
	read := func(b []byte) error {
		f, err := disk.Open("/"+s.id.file(), vfs.Create|vfs.Truncate)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt(b, 0); err != nil {
			t.Fatal(err)
		}
		f.Close()
		_, errHeader := readSnapshotHeader(disk, "/"+s.id.file(), s.id)
		_, errRecords := readAll(disk, "/", s.id)
		return errors.Join(errHeader, errRecords)
	}
	if err := read(good); err != nil {
		t.Fatal(err)
	}
	for cut := range len(good) {
		if read(good[:cut]) == nil {
			t.Errorf("cut to %d bytes of %d: no error", cut, len(good))
		}
	}
	for at := range good {
		bad := bytes.Clone(good)
		bad[at] ^= 0x10
		err := read(bad)
		if err == nil && !outsideBatchCRC(good, at) {
			t.Errorf("byte %d changed: no error", at)
		}
	}
}

// outsideBatchCRC tells whether the byte belongs to a batch's base offset or epoch, which no CRC covers.
func outsideBatchCRC(file []byte, at int) bool {
	for start := 0; start < len(file); {
		size := int(file[start+8])<<24 | int(file[start+9])<<16 | int(file[start+10])<<8 | int(file[start+11])
		if in := at - start; in < size+12 {
			return in < 8 || in >= 12 && in < 16
		}
		start += size + 12
	}
	return false
}

// TestSnapshotRefusedByItsWriter: nothing is left when the one who writes the records fails.
func TestSnapshotRefusedByItsWriter(t *testing.T) {
	disk := vfs.NewMem()
	refused := errors.New("refused")
	_, err := writeSnapshotFile(disk, "/", testSnapshot(), func(record func([]byte) error) error {
		if err := record([]byte("one")); err != nil {
			return err
		}
		return refused
	})
	if !errors.Is(err, refused) {
		t.Fatalf("error %v", err)
	}
	if left, _ := disk.List("/"); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestSnapshotNames(t *testing.T) {
	id := SnapshotID{EndOffset: 1234, Epoch: 56}
	if got := id.file(); got != "00000000000000001234-0000000056.checkpoint" {
		t.Errorf("file name %q", got)
	}
	if got, ok := parseSnapshotName(id.file()); !ok || got != id {
		t.Errorf("parsed as %v, %v", got, ok)
	}
	for _, bad := range []string{"bootstrap.checkpoint", "00000000000000001234-0000000056", "00000000000000001234x0000000056.checkpoint",
		"-0000000000000001234-0000000056.checkpoint", "00000000000000001234-9999999999.checkpoint"} {
		if id, ok := parseSnapshotName(bad); ok {
			t.Errorf("%q parsed as %v", bad, id)
		}
	}
}

func TestStateFiles(t *testing.T) {
	disk := vfs.NewMem()
	if _, ok, err := readState(disk, "/"); ok || err != nil {
		t.Fatalf("no file: %v, %v", ok, err)
	}
	if index, err := readCommit(disk, "/"); index != 0 || err != nil {
		t.Fatalf("no file: %v, %v", index, err)
	}
	dir, err := kafka.ParseUUID("J8aAPcfLQt2bqs1JT_rMgQ")
	if err != nil {
		t.Fatal(err)
	}
	if err := writeState(disk, "/", 2, kafka.NoNode, &Voter{ID: 1, DirID: dir}); err != nil {
		t.Fatal(err)
	}
	// What FileQuorumStateStore of Apache Kafka writes for the same state.
	want := `{"leaderId":-1,"leaderEpoch":2,"votedId":1,"votedDirectoryId":"J8aAPcfLQt2bqs1JT_rMgQ","data_version":1}`
	if got := string(content(t, disk, stateFile)); got != want {
		t.Errorf("quorum-state is %s", got)
	}
	if err := writeCommit(disk, "/", 1<<60); err != nil {
		t.Fatal(err)
	}
	if index, err := readCommit(disk, "/"); index != 1<<60 || err != nil {
		t.Errorf("commit index %d, %v", index, err)
	}
	if left, _ := disk.List("/"); len(left) != 2 {
		t.Errorf("files: %v", left)
	}
}
