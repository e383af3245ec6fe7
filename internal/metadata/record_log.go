package metadata

import "moldau/internal/kafka"

// NoOpRecord changes nothing for Apache Kafka; a leader writes it to move the end of the log. Ours may tell of a number that a node
// was given, in a tagged field, which others skip.
type NoOpRecord struct {
	NextNodeID kafka.NodeID // lowest number that no node was given; 0: nothing is said
}

// tagNextNodeID is far above the tags that Kafka numbers from 0.
const tagNextNodeID = 10000

// Type is 20.
func (r *NoOpRecord) Type() int16 { return TypeNoOp }

func (r *NoOpRecord) walk(c *codec) {
	c.tags(tagged{tagNextNodeID, r.NextNodeID != 0, func() { c.int32(&r.NextNodeID) }})
}

// ZkMigrationStateRecord says how far a migration from ZooKeeper mode has come: 0 none, 2 before, 1 under way, 3 done.
type ZkMigrationStateRecord struct {
	ZkMigrationState int8
}

// Type is 21.
func (r *ZkMigrationStateRecord) Type() int16 { return TypeZkMigrationState }

func (r *ZkMigrationStateRecord) walk(c *codec) {
	c.int8(&r.ZkMigrationState)
	c.tags()
}

// BeginTransactionRecord opens a metadata transaction (KIP-868): what follows takes effect at its end, or never.
type BeginTransactionRecord struct {
	Name *string
}

// Type is 23.
func (r *BeginTransactionRecord) Type() int16 { return TypeBeginTransaction }

func (r *BeginTransactionRecord) walk(c *codec) {
	c.tags(tagged{0, r.Name != nil, func() { c.nullableString(&r.Name) }})
}

// EndTransactionRecord makes the open metadata transaction take effect.
type EndTransactionRecord struct{}

// Type is 24.
func (r *EndTransactionRecord) Type() int16 { return TypeEndTransaction }

func (r *EndTransactionRecord) walk(c *codec) { c.tags() }

// AbortTransactionRecord drops the open metadata transaction.
type AbortTransactionRecord struct {
	Reason *string
}

// Type is 25.
func (r *AbortTransactionRecord) Type() int16 { return TypeAbortTransaction }

func (r *AbortTransactionRecord) walk(c *codec) {
	c.tags(tagged{0, r.Reason != nil, func() { c.nullableString(&r.Reason) }})
}
