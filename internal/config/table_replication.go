package config

// replicationRows declares: followers.
var replicationRows = because("clusters of several nodes", []Row{
	{Name: "replica.lag.time.max.ms", Type: Long, Default: "30000",
		Text: "A follower that has not caught up for so long leaves the in-sync set."},
	{Name: "num.replica.fetchers", Type: Int, Default: "1", Check: atLeast(1), Dynamic: ClusterWide,
		Text: "Parallel fetches from one leader."},
	{Name: "replica.fetch.max.bytes", Type: Int, Default: "1048576", Check: atLeast(0),
		Text: "Bytes that a follower asks for per partition."},
	{Name: "replica.fetch.response.max.bytes", Type: Int, Default: "10485760", Check: atLeast(0),
		Text: "Bytes that a follower asks for in one answer."},
	{Name: "replica.fetch.min.bytes", Type: Int, Default: "1",
		Text: "Bytes that a leader waits for before it answers a follower."},
	{Name: "replica.fetch.wait.max.ms", Type: Int, Default: "500",
		Text: "How long a leader waits for them."},
	{Name: "replica.fetch.backoff.ms", Type: Int, Default: "1000", Check: atLeast(0),
		Text: "Pause of a follower after a failed fetch."},
	{Name: "replica.socket.timeout.ms", Type: Int, Default: "30000",
		Text: "How long a follower waits for an answer."},
	{Name: "replica.socket.receive.buffer.bytes", Type: Int, Default: "65536", Standing: Inert,
		Text: "Receive buffer of a follower's connection.",
		Why:  "the system sizes socket buffers by itself"},
	{Name: "replica.selector.class", Type: String, Unset: true,
		Check: oneOf("org.apache.kafka.common.replica.RackAwareReplicaSelector", "org.apache.kafka.common.replica.LeaderSelector"),
		Text:  "How a consumer's nearest replica is chosen; without it, or with LeaderSelector, consumers read from leaders."},
})
