package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// Plan is what a run has: each seed draws its own few features and faults, because a fault that is always there hides
// what happens without it (swarm testing; Groce and others, 2012).
type Plan struct {
	Nodes    int  // 1 to 7
	Voters   int  // of them, the first ones; the others are brokers alone, which observe
	Replicas int  // of each partition
	MinISR   int  // min.insync.replicas of topics
	Lazy     bool // log.flush.before.ack=false
	Dirs     int  // log.dirs
	Rounds   int  // one fault each

	Idempotent    bool // one of the producers is
	Recreate      bool // a topic that is deleted and made again
	Race          bool // clients that make and delete one topic at the same time
	DeleteRecords bool
	Compact       bool  // a compacted topic
	RetainBytes   int64 // retention.bytes of topics, 0 for none
	Snapshots     bool  // the metadata log is cut into small segments, snapshots and deletions of both
	Large         bool  // records of up to 3 kB, so that a batch is on several pages
	Group         bool  // members of a group commit offsets, one of them a static one
	Move          bool  // partitions move from node to node, leaders back to where they are preferred
	Configure     bool  // settings of topics change
	Idle          bool  // a topic that nobody writes to
	Late          bool  // requests arrive that are of the past
	Cooperative   bool  // members of the group give up only what others are to have (KIP-429)
	Voting        bool  // every node is a controller, and voters of the metadata quorum come and go
	AutoJoin      bool  // controller.quorum.auto.join.enable: who has lost its vote asks for one by itself
	TopicIDs      bool  // partition.metadata is one of the side files that are harmed
	ZooKeeper     bool  // clients of the ZooKeeper tree
	Lull          int   // the round before which all heals for a while, and must work; 0 for none
	Faults        []Fault
}

// Draw makes a plan.
func Draw(rng *rand.Rand) Plan {
	one := func(in int) bool { return rng.IntN(in) == 0 }
	p := Plan{Nodes: []int{1, 1, 1, 2, 3, 3, 3, 3, 4, 5, 7}[rng.IntN(11)], Dirs: 1, Rounds: 90 + rng.IntN(60)}
	p.Voters, p.Replicas = min(p.Nodes, []int{1, 3, 3, 5}[rng.IntN(4)]), min(p.Nodes, 3)
	if p.Voters%2 == 0 {
		p.Voters--
	}
	p.MinISR = 1 + rng.IntN(min(p.Replicas, 2))
	p.Idempotent, p.Recreate, p.Race, p.DeleteRecords = !one(3), one(4), one(3), one(4)
	p.Large, p.Snapshots, p.Group, p.Compact = one(4), one(4), one(2), one(4)
	p.Configure = one(4)
	if one(4) {
		p.RetainBytes = 8192 << rng.IntN(3)
	}
	if p.Nodes == 1 {
		p.Lazy = one(6)
		if one(4) {
			p.Dirs = 2 + rng.IntN(2)
		}
	} else {
		p.Move = one(3)
	}
	for f := range firstLater {
		if f.fits(p) && one(3) {
			p.Faults = append(p.Faults, f)
		}
	}
	if !p.deadly() {
		p.Faults = append(p.Faults, Kill+Fault(rng.IntN(2)))
	}
	return p
}

// add draws what came later, from a source of its own: the seeds that do without it do what they did before.
func (p *Plan) add(rng *rand.Rand) {
	one := func(in int) bool { return rng.IntN(in) == 0 }
	idle, late := rng.IntN(3) > 0, one(2)
	p.Idle = idle && p.Nodes > 1
	p.Late = late && (p.Group || p.Nodes > 1)
	cooperative, voting, autoJoin, topicIDs := one(2), one(4), one(3), one(2)
	p.Cooperative = p.Group && cooperative
	p.Voting = p.Nodes > 1 && voting
	p.AutoJoin = !p.Voting && p.Voters > 1 && autoJoin
	p.TopicIDs = p.has(SideFile) && topicIDs
	for f := firstLater; f < faultKinds; f++ {
		if drawn := one(2); drawn && f.fits(*p) {
			p.Faults = append(p.Faults, f)
		}
	}
}

// PlanOf is the plan that a seed draws.
func PlanOf(seed uint64) Plan {
	p := Draw(rand.New(rand.NewPCG(seed, 2)))
	p.add(rand.New(rand.NewPCG(seed, 3)))
	p.ZooKeeper = !p.Lazy && rand.New(rand.NewPCG(seed, 4)).IntN(3) == 0
	p.addLast(rand.New(rand.NewPCG(seed, 5)))
	return p
}

// addLast draws what came last. Where an operator moves partitions they may be out of sync at any time, and there is no lull.
func (p *Plan) addLast(rng *rand.Rand) {
	lull, round, full := rng.IntN(2) == 0, p.Rounds/4+rng.IntN(p.Rounds/2), rng.IntN(4) == 0
	if lull && p.Replicas > 2 && !p.Move {
		p.Lull = round
	}
	if dirs := 2 + rng.IntN(4); p.Lull > 0 && dirs < 4 {
		p.Dirs = dirs
	}
	if full && p.Nodes > 1 {
		p.Faults = append(p.Faults, FullDisk)
	}
}

// deadly tells whether nodes die.
func (p Plan) deadly() bool {
	return slices.Contains(p.Faults, Kill) || slices.Contains(p.Faults, PowerLoss)
}

// has tells whether a kind of fault is in the plan.
func (p Plan) has(f Fault) bool { return slices.Contains(p.Faults, f) }

// controls tells whether the node at a place can have a vote.
func (p Plan) controls(place int) bool { return p.Voting || place < p.Voters }

// elects tells whether the voter set changes.
func (p Plan) elects() bool { return p.Voting || p.has(LostVote) }

// wipes tells whether all disks of one node may be empty: what is acked is on two nodes at least.
func (p Plan) wipes() bool { return p.Replicas == 3 && p.MinISR == 2 }

// hostName is the machine of the node with an id, which is its place plus one.
func hostName(place int) string { return fmt.Sprintf("n%d", place+1) }

// brokers are the addresses that clients know.
func (p Plan) brokers() []string {
	var all []string
	for place := range p.Nodes {
		all = append(all, hostName(place)+":9092")
	}
	return all
}

// properties is the configuration of one node. The controllers listen at these ports now.
func (p Plan) properties(place int, controllers []int) string {
	host := hostName(place)
	s := fmt.Sprintf(`node.id=%[2]d
controller.listener.names=CONTROLLER
http.listeners=
zookeeper.listeners=%[4]s
log.index.interval.bytes=256
log.retention.ms=-1
log.retention.check.interval.ms=500
log.cleaner.backoff.ms=300
producer.id.expiration.ms=2000000000
log.message.timestamp.after.max.ms=1000000000
log.dirs=%[3]s
`, host, place+1, strings.Join(p.dirs(), ","), p.zookeeper(host))
	if p.controls(place) {
		s += fmt.Sprintf("process.roles=broker,controller\nlisteners=PLAINTEXT://%[1]s:9092,CONTROLLER://%[1]s:%[2]d\n", host, controllers[place])
	} else {
		s += fmt.Sprintf("process.roles=broker\nlisteners=PLAINTEXT://%s:9092\n", host)
	}
	var voters, bootstrap []string
	for other := range p.Voters {
		address := fmt.Sprintf("%s:%d", hostName(other), controllers[other])
		voters, bootstrap = append(voters, fmt.Sprintf("%d@%s", other+1, address)), append(bootstrap, address)
	}
	if p.Voting {
		s += "controller.quorum.bootstrap.servers=" + strings.Join(bootstrap, ",") + "\n"
	} else {
		s += "controller.quorum.voters=" + strings.Join(voters, ",") + "\n"
	}
	if p.AutoJoin {
		s += "controller.quorum.auto.join.enable=true\n"
	}
	if p.Nodes > 1 {
		s += "replica.lag.time.max.ms=2000\nbroker.session.timeout.ms=3000\nbroker.heartbeat.interval.ms=500\n"
		s += "initial.broker.registration.timeout.ms=3600000\n" // the others may be down for as long as the seed likes
	}
	if p.Snapshots {
		s += "internal.metadata.log.segment.bytes=2000\nmetadata.log.max.record.bytes.between.snapshots=1000\nmetadata.max.retention.bytes=5000\n"
	}
	if p.Group {
		s += "group.initial.rebalance.delay.ms=200\noffsets.topic.num.partitions=2\n"
	}
	if p.Group || p.ZooKeeper {
		s += fmt.Sprintf("offsets.topic.replication.factor=%d\n", p.Replicas)
	}
	if (p.Group || p.ZooKeeper) && (p.has(Wipe) || p.has(LostVote)) { // what is committed is on two disks at least, too
		s += "min.insync.replicas=2\n"
	}
	if p.Lazy {
		s += "log.flush.before.ack=false\n"
	}
	return s
}

// zookeeper is where a host serves clients of the ZooKeeper tree.
func (p Plan) zookeeper(host string) string {
	if p.ZooKeeper {
		return host + ":2181"
	}
	return ""
}

// topic is the configuration of the topics that clients use.
func (p Plan) topic() map[string]string {
	c := map[string]string{"internal.segment.bytes": "4096", "file.delete.delay.ms": "100"} // segments roll within a run
	if p.MinISR > 1 {
		c["min.insync.replicas"] = fmt.Sprint(p.MinISR)
	}
	if p.Large {
		c["internal.segment.bytes"] = "65536"
	}
	if p.RetainBytes > 0 {
		c["retention.bytes"] = fmt.Sprint(p.RetainBytes)
	}
	return c
}

func (p Plan) dirs() []string { return []string{"/disk0", "/disk1", "/disk2"}[:p.Dirs] }
