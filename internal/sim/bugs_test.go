package sim

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"moldau/internal/planted"
)

// bug is a planted one: proof that the net has no hole there. Either it lies between a node and its disk (wrap, alter), or it is a
// change of the source, which a build of its own has through -overlay: the product has no hook and no trace of it.
type bug struct {
	name string

	wrap  planted.Bug // between the node and its disk
	alter func(*Plan) // what the node is told and the checkers are not

	file     string // in internal
	old, new string // what stands there once, and what the bug makes of it

	finds []Promise // the checkers whose business it is
}

var records = planted.Has(".log").But("__cluster_metadata")

// bugs are the planted ones that must be caught.
var bugs = []bug{
	{name: "records are not synced", wrap: planted.SkipSync(records), finds: durability},
	{name: "the metadata log is not synced", wrap: planted.SkipSync(planted.Has("__cluster_metadata-0/")), finds: slices.Concat(durability, metadataLog)},
	{name: "names are not synced", wrap: planted.SkipSyncDir(planted.Any), finds: slices.Concat(durability, metadataLog)},
	{name: "a replaced file is not synced before its rename", wrap: planted.SkipSync(planted.Has(".tmp")), finds: slices.Concat(durability, metadataLog)},
	{name: "the journal is not synced", wrap: planted.SkipSync(planted.Has("moldau.journal")), finds: []Promise{withinBounds, ackedStay}},
	{name: "a failed write passes for a good one", wrap: planted.HideWriteErrors(), finds: slices.Concat(durability, metadataLog)},
	{name: "answers do not wait for the disk", alter: func(p *Plan) { p.Lazy = true }, finds: durability},

	{name: "the watermark counts what is not on disk", file: "replica/partition.go", old: "return log.SyncedEnd()", new: "return log.LogEnd()", finds: durability},
	{name: "acks=all waits for nobody", file: "replica/leader.go", old: "if o.Acks == kafka.AcksAll && p.highWatermark", new: "if o.Acks == kafka.AcksAll && p.set == nil && p.highWatermark",
		finds: durability},
	{name: "the watermark leaves followers out", file: "replica/watermark.go", old: "range c.followers {", new: "range c.followers[:0] {", finds: durability},
	{name: "the watermark moves with too few in sync", file: "replica/watermark.go", old: "if c.isr < c.minISR {", new: "if c.isr < 1 {", finds: durability},
	{name: "the watermark falls with a follower", file: "replica/watermark.go", old: "return max(c.current, end)", new: "return end", finds: durability},
	{name: "a follower's watermark is past its end", file: "replica/follower.go", old: "highWatermark := min(leaderHighWatermark, end)", new: "highWatermark := max(leaderHighWatermark, end)",
		finds: durability},
	{name: "a follower is cut to its watermark", file: "replica/follower.go", old: "to = min(to, a.log.LogEnd())\n", new: "to = min(p.HighWatermark(), a.log.LogEnd())\n", finds: durability},
	{name: "a follower does not find out where logs part", file: "replica/read.go", old: "if o.LastFetchedEpoch != kafka.NoEpoch {", new: "if o.LastFetchedEpoch < kafka.NoEpoch {", finds: durability},
	{name: "the watermark leaves out who may be in sync already", file: "replica/isr.go", old: "	if p.wish == nil {\n		return t.isr\n", new: "	if p.wish == nil || len(p.wish.ISR) > 0 {\n		return t.isr\n",
		finds: durability},
	{name: "consumers read past the watermark", file: "replica/read.go", old: "	if o.Replica == kafka.ConsumerReplica {\n		upTo = r.HighWatermark", new: "	if o.Replica == kafka.ConsumerReplica && o.MaxBytes < 0 {\n		upTo = r.HighWatermark",
		finds: durability},
	{name: "the latest offset is not committed", file: "replica/read.go", old: "		upTo = highWatermark\n", new: "		upTo = max(upTo, highWatermark)\n", finds: []Promise{linear}},
	{name: "a new leader tells an end before it knows it", file: "replica/read.go", old: "if client && a.start > highWatermark {", new: "if client && a.start < 0 {", finds: []Promise{linear}},
	{name: "followers join the in-sync set too early", file: "replica/isr.go", old: "if f.end >= p.highWatermark.Load() && f.end >= a.start {", new: "if f.end >= 0 {", finds: durability},
	{name: "DeleteRecords tells where the log started before", file: "replica/leader.go", old: "		low = to\n", new: "		_ = to\n", finds: []Promise{withinBounds}},
	{name: "records are of epoch 0", file: "replica/leader.go", old: "LeaderEpoch: a.epoch, Now", new: "LeaderEpoch: a.epoch * 0, Now", finds: slices.Concat([]Promise{oneLeader, sound}, durability)},

	{name: "a batch that comes again is not known", file: "commitlog/producers.go", old: "return sent, true", new: "return sent, false", finds: []Promise{onceInOrder}},
	{name: "recovery begins with no producers", file: "commitlog/snapshot.go", old: "				l.producers = ps\n", new: "				l.producers = producers{}\n				_ = ps\n", finds: []Promise{onceInOrder}},
	{name: "sequences have gaps, and none is a duplicate", file: "commitlog/producers.go", old: "for _, sent := range p.sent[:p.known] {", new: "for _, sent := range p.sent[:0] {", finds: []Promise{onceInOrder}},
	{name: "recovery does not verify what it reads", file: "commitlog/recover.go", old: "			err = b.VerifyCRC()\n		}\n		if err == nil && (b.Base", new: "			err = nil\n		}\n		if err == nil && (b.Base",
		finds: slices.Concat([]Promise{sound}, durability)},
	{name: "retention takes everything", file: "commitlog/retain.go", old: "release = excess >= v.size", new: "release = v.size > 0", finds: []Promise{withinBounds, ackedStay}},
	{name: "compaction goes past what the next start knows", file: "commitlog/compactable.go", old: "min(l.recoveryPoint, l.stored)", new: "l.recoveryPoint", finds: durability},
	{name: "compaction takes the newest record of a key", file: "commitlog/compact_filter.go", old: "return key != nil && !(tombstone && expired) && !c.keys.superseded(key, offset)", new: "return key != nil && c.keys.superseded(key, offset)",
		finds: []Promise{ackedStay, sameReplicas}},
	{name: "a deletion of records is not journalled", file: "storage/log.go", old: "if err == nil && l.DurableLogStart() < to {", new: "if err == nil && to < 0 {", finds: []Promise{withinBounds}},

	{name: "a partition whose follower began anew is forgotten", file: "fetcher/session.go", old: "now := l.followers[f.key]\n		return now != nil && now.in", new: "return f.in", finds: []Promise{inTime, sameReplicas}},
	{name: "followers tell of what is not on disk", file: "fetcher/loop.go", old: "	if waiter != nil {\n		l.named.remove(f)", new: "	if waiter != nil && l.f == nil {\n		l.named.remove(f)", finds: durability},

	{name: "a late wish for another in-sync set is granted", file: "controller/alter_partition.go", old: "case want.PartitionEpoch < p.PartitionEpoch:", new: "case want.PartitionEpoch < 0:", finds: durability},
	{name: "whoever is there is elected", file: "controller/partitions.go", old: "if t.election == electUnclean {", new: "if t.election >= 0 {", finds: durability},
	{name: "the in-sync set does not count in elections", file: "controller/partitions.go", old: "return (slices.Contains(isr, id) || len(isr) == 0 && slices.Contains(elr, id)) && t.acceptable(id)", new: "return t.acceptable(id)",
		finds: durability},
	{name: "a node does not tell that a directory has failed", file: "uplink/uplink.go", old: "range u.o.Offline() {", new: "range u.o.Offline()[:0] {", finds: []Promise{inTime}},
	{name: "producer ids are given out twice", file: "controller/producer_ids.go", old: "NextProducerID: first + producerIDBlock", new: "NextProducerID: max(first, producerIDBlock)", finds: []Promise{onceInOrder}},
	{name: "a topic is made over another of its name", file: "controller/topics.go", old: "if _, ok := s.image.Topics.ByName(t.Topic); ok {", new: "if _, ok := s.image.Topics.ByName(t.Topic); ok && t.NumPartitions != 1 {",
		finds: []Promise{linear, sound, sameImages}},
	{name: "an image leaves out what clients configured", file: "metadata/snapshot.go", old: "	i.Configs.records(emit)\n", new: "	if i.Offset%2 == 0 {\n		i.Configs.records(emit)\n	}\n", finds: []Promise{sameImages, withinBounds}},

	{name: "commits of an earlier generation are taken", file: "group/offsets.go", old: "case c.Generation != g.generation:", new: "case c.Generation > g.generation:", finds: []Promise{oneOwner}},
	{name: "coordinators answer before it is committed", file: "coordinator/promise.go", old: "	if p.commit == nil {\n		return nil", new: "	if p.commit != p.commit || p.given != nil {\n		return nil", finds: []Promise{oneOwner, ackedStay, oneTree}},

	{name: "an ephemeral node outlives its session", file: "znode/session.go", old: "		x.remove(path)\n", new: "		_ = path\n", finds: []Promise{sessionsLast, inTime}},
	{name: "a session ends although its client is heard", file: "znode/client.go", old: "func (c *Client) Heard() { c.heard.Store(int64(c.c.o.Runtime.Elapsed())) }", new: "func (c *Client) Heard() {}", finds: []Promise{sessionsLast}},
	{name: "a watch fires again", file: "znode/watch.go", old: "	delete(table, path)\n	clients :=", new: "	clients :=", finds: []Promise{watchesFire}},
	{name: "a write leaves a node as old as it was", file: "znode/shard.go", old: "		n.stat, n.data = e.stat, e.data\n", new: "		n.data = e.data\n", finds: []Promise{oneTree, watchesFire}},

	{name: "the link to the controller stays open", file: "uplink/link.go", old: "	l.conn, l.closed = nil, true\n	l.mu.Unlock()\n	if conn != nil {", new: "	l.conn, l.closed = nil, true\n	l.mu.Unlock()\n	if conn != nil && l.o.Dial == nil {", finds: []Promise{noLeaks, sound, inTime}},
}

var (
	// durability is what breaks where records that were acked are lost: which of these tells first is chance.
	durability = []Promise{ackedStay, sameBytes, sameReplicas, withinBounds, oneLeader, linear, onceInOrder, oneOwner}
	// metadataLog is what breaks where the metadata log forgets.
	metadataLog = []Promise{sameImages, sound, inTime}
)

// mostSeeds is within how many seeds each has to be found.
const mostSeeds = 50

// TestPlantedBugsStand: the source still is what they change.
func TestPlantedBugsStand(t *testing.T) {
	names := make(map[string]bool)
	for _, b := range bugs {
		if names[b.name] {
			t.Errorf("%s is there twice", b.name)
		}
		names[b.name] = true
		if b.file == "" {
			continue
		}
		if _, err := b.change().apply(); err != nil {
			t.Errorf("%s: %v", b.name, err)
		}
	}
	if len(bugs) < 30 {
		t.Errorf("%d bugs, want 30 at least", len(bugs))
	}
}

// TestPlantedBugsAreCaught: each is found by a checker whose business it is, in the median of several searches that begin at seeds
// mostSeeds apart. The tree without them passes the same seeds in TestSeeds. It takes an hour for each search on a quiet machine, and
// runs with MOLDAU_EFFORT=night, or for the bugs that -bug names.
func TestPlantedBugsAreCaught(t *testing.T) {
	if *bugNamed == "" && os.Getenv("MOLDAU_EFFORT") != "night" {
		t.Skip("takes an hour")
	}
	missed, looked := 0, 0
	for _, b := range bugs {
		if !strings.Contains(b.name, *bugNamed) {
			continue
		}
		looked++
		t.Run(b.name, func(t *testing.T) {
			binary, flags := os.Args[0], []string{"-planted", b.name}
			if b.file != "" {
				binary, flags = build(t, b), nil
			}
			var took []int
			for n := range *searches {
				took = append(took, search(t, b, binary, uint64(n*mostSeeds+1), flags))
			}
			median := slices.Sorted(slices.Values(took))[len(took)/2]
			if median > mostSeeds {
				missed++
			}
			// At once and without t, for who reads on while others are looked for.
			fmt.Fprintf(os.Stderr, "%s: median %d of %v seeds\n", b.name, median, took)
		})
	}
	if missed*20 > looked {
		t.Errorf("%d of %d were not found: more than one in twenty", missed, looked)
	}
}

// search returns how many seeds it takes to find a bug, from one on; more than mostSeeds if so many do not find it.
func search(t *testing.T, b bug, binary string, from uint64, flags []string) int {
	for n := range mostSeeds {
		seed := from + uint64(n)
		out := runApart(binary, seed, Options{}, flags...)
		for _, broken := range out.Broken {
			if slices.Contains(b.finds, broken.Promise) {
				t.Logf("found by seed %d after %d rounds: %v", seed, out.Rounds, broken)
				return n + 1
			}
		}
		if len(out.Broken) > 0 {
			t.Logf("seed %d tells something else: %v", seed, out.Broken[0])
		}
	}
	t.Logf("not found by %d seeds from %d on", mostSeeds, from)
	return mostSeeds + 1
}

// build makes a binary of this package's tests with a bug in it.
func build(t *testing.T, b bug) string {
	t.Helper()
	c := b.change()
	var err error
	if c.file, err = filepath.Abs(c.file); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(t.TempDir(), "sim.test")
	if err := compile(binary, []change{c}, "-vet=off"); err != nil {
		t.Fatal(err)
	}
	return binary
}

// change is what a bug changes in the source.
func (b bug) change() change { return change{filepath.Join("..", b.file), b.old, b.new} }

// plantedIn adds to a run what lies between a node and its disk.
func plantedIn(o Options, name string) Options {
	for _, b := range bugs {
		if b.name == name {
			o.Wrap, o.Alter = b.wrap, b.alter
		}
	}
	return o
}
