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
	Faults        []Fault
}

// Draw makes a plan.
func Draw(rng *rand.Rand) Plan {
	one := func(in int) bool { return rng.IntN(in) == 0 }
	p := Plan{Nodes: []int{1, 1, 1, 2, 3, 3, 3, 3, 4, 5, 7}[rng.IntN(11)], Dirs: 1, Rounds: 80 + rng.IntN(60)}
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
	for f := range faultKinds {
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
	idle, late := rng.IntN(3) > 0, rng.IntN(2) == 0
	p.Idle = idle && p.Nodes > 1
	p.Late = late && (p.Group || p.Nodes > 1)
}

// PlanOf is the plan that a seed draws.
func PlanOf(seed uint64) Plan {
	p := Draw(rand.New(rand.NewPCG(seed, 2)))
	p.add(rand.New(rand.NewPCG(seed, 3)))
	return p
}

// deadly tells whether nodes die.
func (p Plan) deadly() bool {
	return slices.Contains(p.Faults, Kill) || slices.Contains(p.Faults, PowerLoss)
}

// has tells whether a kind of fault is in the plan.
func (p Plan) has(f Fault) bool { return slices.Contains(p.Faults, f) }

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

// properties is the configuration of one node.
func (p Plan) properties(place int) string {
	host := hostName(place)
	s := fmt.Sprintf(`node.id=%[2]d
controller.listener.names=CONTROLLER
http.listeners=
zookeeper.listeners=
log.index.interval.bytes=256
log.retention.ms=-1
log.retention.check.interval.ms=500
log.cleaner.backoff.ms=300
producer.id.expiration.ms=2000000000
log.message.timestamp.after.max.ms=1000000000
log.dirs=%[3]s
`, host, place+1, strings.Join(p.dirs(), ","))
	if place < p.Voters {
		s += fmt.Sprintf("process.roles=broker,controller\nlisteners=PLAINTEXT://%[1]s:9092,CONTROLLER://%[1]s:9093\n", host)
	} else {
		s += fmt.Sprintf("process.roles=broker\nlisteners=PLAINTEXT://%s:9092\n", host)
	}
	var voters []string
	for other := range p.Voters {
		voters = append(voters, fmt.Sprintf("%d@%s:9093", other+1, hostName(other)))
	}
	s += "controller.quorum.voters=" + strings.Join(voters, ",") + "\n"
	if p.Nodes > 1 {
		s += "replica.lag.time.max.ms=2000\nbroker.session.timeout.ms=3000\nbroker.heartbeat.interval.ms=500\n"
		s += "initial.broker.registration.timeout.ms=3600000\n" // the others may be down for as long as the seed likes
	}
	if p.Snapshots {
		s += "internal.metadata.log.segment.bytes=2000\nmetadata.log.max.record.bytes.between.snapshots=1000\nmetadata.max.retention.bytes=5000\n"
	}
	if p.Group {
		s += fmt.Sprintf("group.initial.rebalance.delay.ms=200\noffsets.topic.num.partitions=2\noffsets.topic.replication.factor=%d\n", p.Replicas)
	}
	if p.Group && p.has(Wipe) { // what is committed is on two disks at least, too
		s += "min.insync.replicas=2\n"
	}
	if p.Lazy {
		s += "log.flush.before.ack=false\n"
	}
	return s
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
