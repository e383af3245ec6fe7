package quorum

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

func openTestStore(t *testing.T, disk vfs.FS) *store {
	t.Helper()
	o := testOptions(disk, nil)
	o.SegmentBytes = 1000
	s, err := openStore(o, testVoters(), false)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestStoreAgainstModel: whatever a sequence of leaders stores, overwrites and reopens, raft reads back the entries of a plain
// list, and the log's offsets follow from them.
func TestStoreAgainstModel(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		disk := newDisk(t)
		s := openTestStore(t, disk)
		model := []*pb.Entry{{Index: new(uint64(1)), Term: new(uint64(0))}} // the snapshot 0-0
		term := uint64(1)
		for step := range 40 {
			switch rng.IntN(10) {
			case 0:
				if err := s.log.Close(); err != nil {
					t.Fatal(err)
				}
				s = openTestStore(t, disk)
			case 1, 2: // a new leader, which may have other entries after some index
				term++
				model = model[:1+rng.IntN(len(model))]
				fallthrough
			default:
				var entries []*pb.Entry
				for range 1 + rng.IntN(4) {
					e := &pb.Entry{Index: new(uint64(len(model) + 1)), Term: new(term), Type: pb.EntryNormal.Enum()}
					for range rng.IntN(3) { // none is raft's empty entry
						e.Data = dataBatch(values(fmt.Sprint(step), "record"), int64(step))
					}
					entries, model = append(entries, e), append(model, e)
				}
				if _, err := s.append(entries); err != nil {
					t.Fatalf("seed %d step %d: %v", seed, step, err)
				}
			}
			if err := matches(s, model, rng); err != nil {
				t.Fatalf("seed %d step %d: %v", seed, step, err)
			}
		}
		s.log.Abandon()
	}
}

func matches(s *store, model []*pb.Entry, rng *rand.Rand) error {
	first, _ := s.FirstIndex()
	last, _ := s.LastIndex()
	if first != 2 || last != uint64(len(model)) {
		return fmt.Errorf("indexes %d to %d, want 2 to %d", first, last, len(model))
	}
	end := kafka.Offset(0)
	for i, want := range model {
		if i > 0 {
			end++
			if len(want.GetData()) > 0 {
				end++ // two records
			}
		}
		p, err := s.position(uint64(i + 1))
		if term, errTerm := s.Term(uint64(i + 1)); err != nil || errTerm != nil || term != want.GetTerm() || p.end != end {
			return fmt.Errorf("entry %d has term %d and ends at %d (%v), want %d and %d", i+1, term, p.end, err, want.GetTerm(), end)
		}
	}
	if got := s.log.LogEnd(); got != end {
		return fmt.Errorf("log end %d, want %d", got, end)
	}
	if last == 1 {
		return nil
	}
	lo := 2 + rng.Uint64N(last-1)
	hi := lo + 1 + rng.Uint64N(last+1-lo)
	got, err := s.Entries(lo, hi, uint64(rng.IntN(600)))
	if err != nil || len(got) == 0 || uint64(len(got)) > hi-lo {
		return fmt.Errorf("entries [%d, %d): %d of them, %v", lo, hi, len(got), err)
	}
	for i, e := range got {
		want := model[lo-1+uint64(i)]
		data := want.GetData()
		if len(data) == 0 && len(e.GetData()) > 0 { // read from the log, where it is a batch
			p, _ := s.position(want.GetIndex() - 1)
			data = dataBatch([][]byte{noOpRecord()}, p.timestamp)
			batch.Batch(data).Assign(0, 0)
		}
		if e.GetIndex() != want.GetIndex() || e.GetTerm() != want.GetTerm() || e.GetType() != want.GetType() || !bytes.Equal(e.GetData(), data) {
			return fmt.Errorf("entry %d is %v, want %v", want.GetIndex(), e, want)
		}
	}
	return nil
}

// TestStoreOutOfRange: raft learns the difference between an entry that is gone and one that is not there yet.
func TestStoreOutOfRange(t *testing.T) {
	s := openTestStore(t, newDisk(t))
	defer s.log.Abandon()
	if _, err := s.Term(0); !errors.Is(err, raft.ErrCompacted) {
		t.Errorf("term of 0: %v", err)
	}
	if _, err := s.Term(2); !errors.Is(err, raft.ErrUnavailable) {
		t.Errorf("term of 2: %v", err)
	}
	if _, err := s.Entries(2, 3, 100); !errors.Is(err, raft.ErrUnavailable) {
		t.Errorf("entry 2: %v", err)
	}
	snap, err := s.Snapshot()
	if err != nil || snap.GetMetadata().GetIndex() != 1 || len(snap.GetMetadata().GetConfState().GetVoters()) != 2 ||
		string(snap.GetData()) != "00000000000000000000-0000000000" {
		t.Errorf("snapshot %v, %v", snap, err)
	}
}

// TestStoreRefusesForeignLogs: files that cannot be the metadata log of this node are told, and left alone.
func TestStoreRefusesForeignLogs(t *testing.T) {
	folder := "/meta/__cluster_metadata-0"
	for name, prepare := range map[string]func(disk *vfs.Mem) error{
		"log without its snapshot": func(disk *vfs.Mem) error {
			_, err := disk.Open(folder+"/00000000000000000100.log", vfs.Create)
			return err
		},
		"damaged snapshot": func(disk *vfs.Mem) error {
			_, err := disk.Open(folder+"/"+SnapshotID{EndOffset: 5, Epoch: 1}.file(), vfs.Create)
			return err
		},
		"other topic": func(disk *vfs.Mem) error {
			f, err := disk.Open(folder+"/partition.metadata", vfs.Create)
			if err != nil {
				return err
			}
			_, err = f.WriteAt([]byte("version: 0\ntopic_id: J8aAPcfLQt2bqs1JT_rMgQ\n"), 0)
			return err
		},
		"unknown quorum-state": func(disk *vfs.Mem) error {
			return writeJSON(disk, folder+"/"+stateFile, quorumState{DataVersion: 2})
		},
	} {
		t.Run(name, func(t *testing.T) {
			disk := newDisk(t)
			if err := disk.MkdirAll(folder); err != nil {
				t.Fatal(err)
			}
			if err := prepare(disk); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if s, err := openStore(testOptions(disk, nil), testVoters(), false); err == nil {
					s.log.Abandon()
					t.Fatal("opened")
				}
			}
		})
	}
}
