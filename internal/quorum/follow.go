package quorum

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	pb "go.etcd.io/raft/v3/raftpb"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/peer"
)

// An observer reads the committed log with Kafka's own Fetch and FetchSnapshot, and hands raft what it read as if the leader
// had sent it: there is one way in which entries are stored and committed. It asks from its last committed entry on, where no
// log differs from the leader's.

// metadataTopicID is the fixed id of the metadata topic (Uuid.METADATA_TOPIC_ID).
var metadataTopicID = kafka.TopicID{15: 1}

// fetchWait is how long the leader may hold a Fetch that finds nothing.
const fetchWait = 500 * time.Millisecond

// followLocked decides whether this node has to fetch.
func (q *Quorum) followLocked() {
	follows := !q.votesLocked() || q.leaderless >= leaderlessTicks
	if follows != q.follows {
		q.follows = follows
		signal(q.followWake)
	}
}

func (q *Quorum) mustFollow() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.follows
}

// follower is the state of the follow goroutine.
type follower struct {
	conn       *peer.Conn
	at         string // the address that conn leads to, or that is tried next
	asked      int    // how many of the addresses have been tried
	known      int    // how many there were
	failed     int    // how many attempts have failed since one succeeded, or since all had failed
	named      Voter  // the leader as somebody else has named it, if at is its address
	redirected bool   // that one has not answered as the leader yet
	silent     complaint
}

// follow is the goroutine that fetches while this node has no vote, or has one and hears of no leader.
func (q *Quorum) follow(ctx context.Context) {
	var f follower
	defer f.hangUp()
	delay := time.Duration(q.o.RetryBackoffMs) * time.Millisecond
	for retry := delay; ctx.Err() == nil; {
		if !q.mustFollow() {
			f.hangUp()
			select {
			case <-ctx.Done():
			case <-q.followWake:
			}
			continue
		}
		err := q.followOnce(ctx, &f)
		if err == nil {
			retry, f.failed = delay, 0
			continue
		}
		if ctx.Err() != nil {
			return
		}
		if f.silent.due(q.o.Now()) {
			q.o.Logger.Warn("cannot follow the metadata quorum; trying on", "address", f.at, "err", err)
		}
		f.hangUp()
		f.at, f.named = "", Voter{}
		q.handIn(ctx, arrival{forget: true})
		q.lookAround(ctx)
		if !pause(ctx, retry) {
			return
		}
		// One that knows of no leader says nothing about the next one.
		if f.failed++; f.failed >= f.known {
			retry, f.failed = min(2*retry, maxRetryDelay), 0
		}
	}
}

// lookAround has a voter that hears of no leader ask at the addresses of the configuration which voters listen there. Those that
// listen elsewhere than the voter set says could not find each other otherwise, if too many of them do: as when all nodes of a cluster
// are given other ports.
func (q *Quorum) lookAround(ctx context.Context) {
	for _, address := range q.o.Bootstrap {
		q.mu.Lock()
		votes := q.votesLocked()
		q.mu.Unlock()
		if !votes || q.self.listensAt(address) || ctx.Err() != nil {
			continue
		}
		info, err := q.ask(ctx, address)
		if err != nil || info.clusterID != q.o.ClusterID {
			continue
		}
		q.mu.Lock()
		known, named := find(q.members.newest().voters, info.node)
		q.mu.Unlock()
		if named && !SameVoter(known, info.node) {
			q.handIn(ctx, arrival{from: info.node})
		}
	}
}

func (f *follower) hangUp() {
	if f.conn != nil {
		f.conn.Close()
		f.conn = nil
	}
}

// candidates are the addresses where somebody may know the leader.
func (q *Quorum) candidates() (addresses []string) {
	q.mu.Lock()
	var voters []Voter
	for _, v := range q.members.newest().voters {
		now, _ := q.nameLocked(raftID(v.DirID))
		voters = append(voters, now)
	}
	q.mu.Unlock()
	for _, v := range voters {
		if a, ok := q.address(v); ok && v.DirID != q.self.DirID {
			addresses = append(addresses, a)
		}
	}
	for _, a := range q.o.Bootstrap {
		if !slices.Contains(addresses, a) && !q.self.listensAt(a) {
			addresses = append(addresses, a)
		}
	}
	return addresses
}

// followOnce sends one Fetch and acts on the answer.
func (q *Quorum) followOnce(ctx context.Context, f *follower) error {
	if f.at == "" {
		addresses := q.candidates()
		if len(addresses) == 0 {
			return errors.New("no controller is known; set controller.quorum.bootstrap.servers")
		}
		f.at, f.known = addresses[f.asked%len(addresses)], len(addresses)
		f.asked++
	}
	if f.conn == nil {
		dialCtx, cancel := context.WithTimeout(ctx, time.Duration(q.o.RequestTimeoutMs)*time.Millisecond)
		conn, err := q.dial(dialCtx, f.at)
		cancel()
		if err != nil {
			return err
		}
		f.conn = conn
	}
	req, commit, err := q.fetchRequest()
	if err != nil {
		return err
	}
	fetchCtx, cancel := context.WithTimeout(ctx, time.Duration(q.o.FetchTimeoutMs)*time.Millisecond+fetchWait)
	defer cancel()
	answer, err := f.conn.Do(fetchCtx, req)
	if err != nil {
		return err
	}
	resp, ok := answer.(*kmsg.FetchResponse)
	if !ok {
		return fmt.Errorf("a Fetch was answered with a %T", answer)
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return fmt.Errorf("fetch of %s: %w", TopicName, err)
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return fmt.Errorf("fetch of %s: the answer has no partition", TopicName)
	}
	p := &resp.Topics[0].Partitions[0]
	leader, known := q.leaderIn(resp, p)
	if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
		return q.redirect(f, leader, known, err)
	}
	if !known || p.CurrentLeader.LeaderEpoch < 1 {
		return fmt.Errorf("fetch of %s: the answer names no leader", TopicName)
	}
	f.redirected = false
	if f.named.ID == leader.ID && len(f.named.Endpoints) > 0 {
		leader.Endpoints = f.named.Endpoints // a voter set that is known here may have it listen where it did before
	}
	q.mu.Lock()
	epoch := q.epoch
	q.mu.Unlock()
	if p.CurrentLeader.LeaderEpoch < epoch {
		// It stood for election when it still had a vote. What it promised then holds, so raft takes nothing older.
		return fmt.Errorf("node %d leads epoch %d, and this node has seen epoch %d: it can follow after the next election", leader.ID, p.CurrentLeader.LeaderEpoch, epoch)
	}
	return q.takeFetched(ctx, f, p, leader, commit)
}

// fetchRequest asks for what follows the last committed entry, whose index it returns.
func (q *Quorum) fetchRequest() (*kmsg.FetchRequest, uint64, error) {
	q.mu.Lock()
	commit, highWatermark, epoch := q.commit, q.highWatermark, q.epoch
	if q.leader.ID == kafka.NoNode {
		epoch = kafka.NoEpoch
	}
	q.mu.Unlock()
	last, err := q.store.position(commit)
	if err != nil {
		return nil, 0, fmt.Errorf("the last committed entry: %w", err)
	}
	req := kmsg.NewPtrFetchRequest()
	req.Version = 18
	req.ClusterID = &q.o.ClusterID
	req.ReplicaID, req.ReplicaState.ID = q.self.ID, q.self.ID // in one of them, as the version has it
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = int32(fetchWait.Milliseconds()), 1, q.o.FetchMaxBytes
	p := kmsg.NewFetchRequestTopicPartition()
	p.CurrentLeaderEpoch, p.FetchOffset, p.LastFetchedEpoch = epoch, last.end, last.epoch
	p.PartitionMaxBytes, p.ReplicaDirectoryID, p.HighWatermark = q.o.FetchMaxBytes, q.self.DirID, highWatermark
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.TopicID = TopicName, metadataTopicID
	topic.Partitions = append(topic.Partitions, p)
	req.Topics = append(req.Topics, topic)
	return req, commit, nil
}

// leaderIn is the leader that an answer names. A voter set that is not known here yet may have it, so it may have a directory
// id that is made up: raft needs a name for it.
func (q *Quorum) leaderIn(resp *kmsg.FetchResponse, p *kmsg.FetchResponseTopicPartition) (Voter, bool) {
	id := p.CurrentLeader.LeaderID
	if id < 0 {
		return Voter{}, false
	}
	q.mu.Lock()
	voters := q.members.newest().voters
	q.mu.Unlock()
	leader := Voter{ID: id, DirID: kafka.DirID{0: 0xff}}
	binary.BigEndian.PutUint32(leader.DirID[12:], uint32(id))
	for _, v := range voters {
		if v.ID == id {
			leader = v
		}
	}
	for _, b := range resp.Brokers {
		if b.NodeID == id && b.Port > 0 && b.Port <= 65535 {
			name := ""
			if len(q.self.Endpoints) > 0 {
				name = q.self.Endpoints[0].Name
			}
			leader.Endpoints = []Endpoint{{Name: name, Host: b.Host, Port: uint16(b.Port)}}
		}
	}
	return leader, true
}

// redirect goes to the leader that somebody else has named.
func (q *Quorum) redirect(f *follower, leader Voter, known bool, err error) error {
	address, ok := q.address(leader)
	if !known || !ok || address == f.at || f.redirected {
		f.redirected = false // two that name each other are asked again after a pause
		return fmt.Errorf("fetch of %s: %w", TopicName, err)
	}
	f.hangUp()
	f.at, f.named, f.redirected = address, leader, true
	return nil
}

// takeFetched hands raft what a Fetch brought.
func (q *Quorum) takeFetched(ctx context.Context, f *follower, p *kmsg.FetchResponseTopicPartition, leader Voter, commit uint64) error {
	m := &pb.Message{Type: pb.MsgHeartbeat.Enum(), From: new(raftID(leader.DirID)), To: new(raftID(q.self.DirID)), Term: new(uint64(p.CurrentLeader.LeaderEpoch))}
	a := arrival{message: m, from: leader, fetched: true}
	switch id := (SnapshotID{EndOffset: p.SnapshotID.EndOffset, Epoch: p.SnapshotID.Epoch}); {
	case id.EndOffset >= 0 && id.Epoch >= 0:
		if !q.beginDownload() {
			return errors.New("another snapshot is on its way")
		}
		s, err := q.download(ctx, f.conn, id, p.CurrentLeader.LeaderEpoch)
		q.endDownload()
		if err != nil {
			return fmt.Errorf("fetch metadata snapshot %v: %w", id, err)
		}
		m.Type, m.Snapshot, a.snapshot = pb.MsgSnap.Enum(), &pb.Snapshot{Data: []byte(id.String())}, s
	case p.DivergingEpoch.EndOffset >= 0:
		return fmt.Errorf("the leader's metadata log parts from this one at offset %d of epoch %d, below what was committed here: %w",
			p.DivergingEpoch.EndOffset, p.DivergingEpoch.Epoch, kerr.InconsistentClusterID)
	case len(p.RecordBatches) > 0:
		if err := q.fillAppend(m, p, commit); err != nil {
			return fmt.Errorf("fetch of %s: %w", TopicName, err)
		}
	default:
		m.Commit = new(commit)
		return q.handIn(ctx, a)
	}
	if err := q.handIn(ctx, a); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.commit <= commit && q.err == nil {
		return fmt.Errorf("what node %d sent after entry %d was not taken", leader.ID, commit)
	}
	return nil
}

// fillAppend makes the message with which the leader would have sent the batches of an answer.
func (q *Quorum) fillAppend(m *pb.Message, p *kmsg.FetchResponseTopicPartition, commit uint64) error {
	previous, err := q.store.position(commit)
	if err != nil {
		return err
	}
	m.Type, m.Index, m.LogTerm = pb.MsgApp.Enum(), new(commit), new(uint64(previous.epoch))
	end := previous.end
	for rest := p.RecordBatches; len(rest) > 0; {
		var b batch.Batch
		if b, rest, err = batch.Next(rest); errors.Is(err, batch.ErrShort) && len(m.Entries) > 0 {
			break // the answer was cut
		} else if err != nil {
			return err
		}
		if b.BaseOffset() != end {
			return fmt.Errorf("a batch at offset %d follows offset %d", b.BaseOffset(), end)
		}
		if err := b.VerifyCRC(); err != nil {
			return err
		}
		end = b.NextOffset()
		e, err := readEntry(b, commit+uint64(len(m.Entries))+1)
		if err != nil {
			return err
		}
		m.Entries = append(m.Entries, e)
		if end <= p.HighWatermark {
			m.Commit = e.Index
		}
	}
	return checkMessage(m)
}

// handIn gives the loop something and waits until it has been acted on.
func (q *Quorum) handIn(ctx context.Context, a arrival) error {
	done := make(chan struct{}, 1)
	a.done = done
	if err := q.enqueue(a); err != nil {
		return err
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// fetchChunk asks for a piece of a snapshot file.
func (q *Quorum) fetchChunk(ctx context.Context, conn *peer.Conn, id SnapshotID, epoch kafka.Epoch, position int64) (SnapshotChunk, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(q.o.RequestTimeoutMs)*time.Millisecond)
	defer cancel()
	req := kmsg.NewPtrFetchSnapshotRequest()
	req.Version = 1
	req.ClusterID, req.ReplicaID, req.MaxBytes = &q.o.ClusterID, q.self.ID, q.o.ChunkMaxBytes
	p := kmsg.NewFetchSnapshotRequestTopicPartition()
	p.CurrentLeaderEpoch, p.Position, p.ReplicaDirectoryID = epoch, position, q.self.DirID
	p.SnapshotID.EndOffset, p.SnapshotID.Epoch = id.EndOffset, id.Epoch
	topic := kmsg.NewFetchSnapshotRequestTopic()
	topic.Topic = TopicName
	topic.Partitions = append(topic.Partitions, p)
	req.Topics = append(req.Topics, topic)
	answer, err := conn.Do(ctx, req)
	if err != nil {
		return SnapshotChunk{}, err
	}
	resp, ok := answer.(*kmsg.FetchSnapshotResponse)
	if !ok {
		return SnapshotChunk{}, fmt.Errorf("a FetchSnapshot was answered with a %T", answer)
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return SnapshotChunk{}, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return SnapshotChunk{}, errors.New("the answer has no partition")
	}
	found := &resp.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(found.ErrorCode); err != nil {
		return SnapshotChunk{}, err
	}
	if found.Position != position {
		return SnapshotChunk{}, fmt.Errorf("the answer is about byte %d, not %d", found.Position, position)
	}
	return SnapshotChunk{Size: found.Size, Bytes: found.Bytes}, nil
}

// hostPort joins an endpoint's host and port.
func (e Endpoint) hostPort() string { return net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port))) }
