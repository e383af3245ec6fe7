package config

import "moldau/internal/kafka"

// Node is everything one process is told at its start, checked and with defaults filled in. Parts of it are handed to
// the packages that need them.
type Node struct {
	ID    kafka.NodeID // kafka.NoNode: the controllers are to give one, LeastID or more
	Roles Roles
	// MadeUpID: nobody gave ID, it is this node's place in zookeeper.connect, if it has one. What meta.properties says goes before it.
	MadeUpID bool
	LeastID  kafka.NodeID
	Rack     string // "" = none
	// ClusterID is the cluster to found or to belong to. "" = what meta.properties says, or a new one.
	ClusterID string

	Network   Network
	HTTP      HTTP
	ZooKeeper ZooKeeper
	Log       Logging
	Storage   Storage
	Requests  Requests
	Quorum    Quorum
	Session   Session
	Throttles Throttles
	Replicas  Replication
	Balance   Balance
	Topics    Topics
	Producers Producers
	Retention Retention
	Cleaner   Cleaner
	Scrub     Scrub
	Groups    Groups
}

// Roles is what this process is to the cluster; at least one is set.
type Roles struct {
	Broker, Controller bool
}

// Network is the Kafka protocol's listeners and the limits on their connections.
type Network struct {
	Listeners   []Listener // in the order of the setting, brokers' and controllers'
	InterBroker string     // name of the listener on which brokers speak to each other; "" on a mere controller
	Controllers []string   // names of the controller listeners; the first is how this node reaches the controllers

	RequestMaxBytes    int32
	MaxConnections     int32                       // on all listeners together; math.MaxInt32 = no limit
	ConnectionRate     int32                       // new ones per second, on all listeners together; math.MaxInt32 = no limit
	Own                map[string]ConnectionLimits // by the name of a listener, which has an entry each
	MaxConnectionsByIP int32                       // math.MaxInt32 = no limit
	IPOverrides        map[string]int32            // IP address or host name → its own limit
	IdleMs             int64                       // an idle connection is closed after this; negative = never
	RequestTimeoutMs   int32                       // for requests to other nodes
}

// ConnectionLimits are those of one listener, beside the common ones.
type ConnectionLimits struct {
	Max, Rate int32 // math.MaxInt32 = no limit
}

// HTTP is the listener for metrics, health and profiles.
type HTTP struct {
	Listeners []Listener // empty = none
}

// Logging is how the node's own log lines look.
type Logging struct {
	Format string // "text" or "json"
	Level  string // "debug", "info", "warn" or "error"
}

// Storage is where records lie and how they get to disk.
type Storage struct {
	Dirs            []string // at least one
	MetadataDir     string   // folder that holds __cluster_metadata-0; one of Dirs unless set apart
	RecoveryThreads int32    // per directory
	MoveThreads     int32    // partitions that move between directories at a time; 0 = as many as there are directories
	FlushBeforeAck  bool     // acks=all answers after the sync; false = Kafka's page-cache promise

	CheckpointMs          int32 // recovery points
	StartCheckpointMs     int32 // log starts
	WatermarkCheckpointMs int64
	InitialDelayMs        int64 // before the first background task
}

// Requests is what one request may ask for.
type Requests struct {
	FetchMaxBytes      int32
	FetchSessionSlots  int32
	MaxPartitions      int32 // per DescribeTopicPartitions answer
	TelemetryMaxBytes  int32 // telemetry.max.bytes
	FullValidation     bool  // compressed batches are opened and every record checked (record.validation=full)
	UnstableVersions   bool
	DeleteTopicEnabled bool
}

// Quorum is the replicated metadata log.
type Quorum struct {
	Voters    []Voter   // controller.quorum.voters; empty = not given
	Bootstrap []Address // controller.quorum.bootstrap.servers; empty = not given

	ElectionTimeoutMs     int32
	FetchTimeoutMs        int32 // an observer or a voter that hears nothing for so long looks for another leader
	RequestTimeoutMs      int32
	RetryBackoffMs        int32
	AutoJoin              bool // a new controller asks to be added to the voters
	FetchMaxBytes         int32
	FetchSnapshotMaxBytes int32

	SegmentBytes          int32
	SegmentMs             int64
	RetentionBytes        int64
	RetentionMs           int64
	SnapshotMaxNewBytes   int64
	SnapshotMaxIntervalMs int64
	MaxIdleMs             int32 // a NoOp record is written when nothing else was for so long; 0 = never
}

// Voter is one member of a quorum that is listed in the configuration.
type Voter struct {
	ID kafka.NodeID
	Address
}

// Session is how a broker and the controller know of each other.
type Session struct {
	HeartbeatMs, TimeoutMs, InitialRegistrationTimeoutMs int32
	ControlledShutdown                                   bool
}

// Replication is how followers keep up with their leaders.
type Replication struct {
	LagMaxMs         int64 // a follower that has not caught up for so long leaves the in-sync set
	Fetchers         int32 // connections to one leader
	FetchMaxBytes    int32 // per partition
	ResponseMaxBytes int32
	MinBytes         int32
	WaitMaxMs        int32
	BackoffMs        int32
	SocketTimeoutMs  int32
	Selector         string // replica.selector.class; "" = consumers read from leaders
}

// Throttles are what replicas may copy that topics' settings name (KIP-73), in bytes per second.
type Throttles struct {
	LeaderRate, FollowerRate int64
	DirsRate                 int64 // of moves between directories of a node; they need not be named
}

// Balance is how leadership returns to the preferred replicas, and to whom it may go in need.
type Balance struct {
	Auto         bool  // auto.leader.rebalance.enable
	CheckSeconds int64 // leader.imbalance.check.interval.seconds
	UncleanMs    int64 // unclean.leader.election.interval.ms
}

// Topics is how topics come to be.
type Topics struct {
	AutoCreate        bool
	Partitions        int32
	ReplicationFactor int16

	// What a topic gets that this broker creates because a client used it: the two above if they were given here, else 0, and
	// those of the controller hold.
	AutoPartitions        int32
	AutoReplicationFactor int16
}

// Producers is the state kept for idempotent producers.
type Producers struct {
	ExpiryMs      int32 // of an idle producer's sequence numbers
	ExpiryCheckMs int32
}

// Retention is the background work that deletes old segments.
type Retention struct {
	CheckMs int64
}

// Scrub is the background work that looks for damage.
type Scrub struct {
	BytesPerSecond int64 // 0 = it does not run
	IntervalMs     int64
}

// Cleaner is the background work that compacts logs.
type Cleaner struct {
	Threads        int32 // 0 = it does not run
	MapBytes       int64
	MapLoad        float64 // how full the map may get, of (0, 1]
	BufferBytes    int32
	BytesPerSecond float64
	BackoffMs      int64
}

// Groups is consumer groups and their offsets.
type Groups struct {
	Partitions        int32 // of __consumer_offsets, when it is created
	ReplicationFactor int16 // the same; fewer while there are fewer brokers
	SegmentBytes      int32 // the same
	Codec             int32 // of its batches, by Kafka's numbers; 0 = none
	LoadBytes         int32 // read at a time when a coordinator loads
	CommitTimeoutMs   int32

	RetentionMs      int64 // how long offsets are kept that nobody uses
	RetentionCheckMs int64
	MetadataMaxBytes int32 // of the note that comes with an offset

	MinSessionMs, MaxSessionMs int32
	InitialDelayMs             int32 // how long an empty group waits for more members
	MaxSize                    int32 // members
}
