package quorum

import (
	"errors"
	"fmt"
	"math"

	pb "go.etcd.io/raft/v3/raftpb"

	"moldau/internal/batch"
)

// maxEntryBytes bounds one entry from outside. Ours are at most MaxBatchBytes; Apache Kafka's batches, which an observer may
// follow, go up to 8 MiB.
const maxEntryBytes = 8 << 20

// maxIndex is far above any real index and far below where adding to it overflows.
const maxIndex = 1 << 60

// campaignTransfer is the one context that raft's messages have here: the vote that a leader asked the candidate to hold.
const campaignTransfer = "CampaignTransfer"

// checkMessage refuses what no honest voter sends, and what raft or the store would fail on. Whether the sender may say so is
// for checkArrival.
func checkMessage(m *pb.Message) error {
	switch m.GetType() {
	case pb.MsgApp, pb.MsgAppResp, pb.MsgVote, pb.MsgVoteResp, pb.MsgPreVote, pb.MsgPreVoteResp,
		pb.MsgHeartbeat, pb.MsgHeartbeatResp, pb.MsgTimeoutNow, pb.MsgSnap:
	default:
		return errors.New("is not for others")
	}
	if m.GetTerm() == 0 || m.GetTerm() > math.MaxInt32 || m.GetLogTerm() > math.MaxInt32 {
		return fmt.Errorf("has term %d and log term %d", m.GetTerm(), m.GetLogTerm())
	}
	if m.GetIndex() > maxIndex || m.GetCommit() > maxIndex || m.GetRejectHint() > maxIndex {
		return errors.New("has an index that nobody reaches")
	}
	if c := string(m.GetContext()); c != "" && (c != campaignTransfer || m.GetType() != pb.MsgVote) {
		return errors.New("has a context")
	}
	if (m.GetSnapshot() != nil) != (m.GetType() == pb.MsgSnap) {
		return errors.New("has a snapshot, or has none")
	}
	if m.GetType() == pb.MsgSnap {
		if _, ok := parseSnapshotName(string(m.GetSnapshot().GetData()) + snapshotSuffix); !ok {
			return errors.New("names no snapshot")
		}
	}
	if len(m.GetEntries()) > 0 && m.GetType() != pb.MsgApp {
		return errors.New("has entries")
	}
	last := m.GetLogTerm()
	for _, e := range m.GetEntries() {
		if e.GetTerm() < max(last, 1) || e.GetTerm() > m.GetTerm() {
			return fmt.Errorf("has an entry of term %d after one of %d", e.GetTerm(), last)
		}
		last = e.GetTerm()
		if err := checkEntry(e); err != nil {
			return fmt.Errorf("entry %d: %w", e.GetIndex(), err)
		}
	}
	return nil
}

// checkEntry refuses an entry that could not be stored as a batch and read back.
func checkEntry(e *pb.Entry) error {
	switch e.GetType() {
	case pb.EntryNormal:
		if len(e.GetData()) == 0 {
			return nil
		}
		return checkBatch(e.GetData(), e.GetIndex())
	case pb.EntryConfChangeV2:
		change, voters, err := confChangeVoters(e.GetData())
		if err != nil {
			return err
		}
		if len(change.GetChanges()) != 1 {
			return fmt.Errorf("a voter change of %d steps", len(change.GetChanges()))
		}
		if len(voters) == 0 {
			return errors.New("a voter change that leaves nobody")
		}
		_, err = votersBatch(e.GetData())
		return err
	}
	return fmt.Errorf("has type %v", e.GetType())
}

func checkBatch(data []byte, index uint64) error {
	b, rest, err := batch.Next(data)
	if err != nil {
		return err
	}
	switch {
	case len(rest) > 0:
		return errors.New("is more than a batch")
	case len(b) > maxEntryBytes:
		return fmt.Errorf("has %d bytes", len(b))
	case b.Codec() != batch.None || b.Transactional() || b.ProducerID() >= 0:
		return errors.New("is not a batch of metadata")
	case b.Count() < 1 || b.LastOffsetDelta() != b.Count()-1:
		return fmt.Errorf("has %d records and a last offset delta of %d", b.Count(), b.LastOffsetDelta())
	}
	if err := b.VerifyCRC(); err != nil {
		return err
	}
	if err := b.Each(func(batch.Record) error { return nil }); err != nil || !b.Control() {
		return err
	}
	if err := checkIndex(b, index); err != nil {
		return err
	}
	return eachControl(b, func(kind batch.ControlType, value []byte) error {
		if kind != batch.ControlKRaftVoters {
			return nil
		}
		_, tags, err := parseVoters(value)
		for _, t := range tags {
			if t.ID == confChangeTag {
				return errors.New("is a voter change that does not say so")
			}
		}
		return err
	})
}
