package metadata

// NoOpRecord changes nothing; a leader writes it to move the end of the log.
type NoOpRecord struct{}

// Type is 20.
func (r *NoOpRecord) Type() int16 { return TypeNoOp }

func (r *NoOpRecord) walk(c *codec) { c.tags() }

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
