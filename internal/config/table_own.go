package config

// ownRows declares: what only moldau has.
var ownRows = []Row{
	{Name: "cluster.id", Type: String, Unset: true, Check: clusterID(),
		Text: "The cluster that directories without one become part of; a random id unless set. Directories that belong to another cluster are an error."},
	{Name: "log.flush.before.ack", Type: Bool, Default: "true",
		Text: "Answer acks=all only when the records are on disk. false gives Kafka's promise: they are in the memory of every replica in sync."},
	{Name: "log.scrub.bytes.per.second", Type: Long, Default: "4194304", Check: atLeast(0),
		Text: "How much of the logs is read per second in the background, to find what the disks have changed. 0: nothing is."},
	{Name: "log.scrub.interval.ms", Type: Long, Default: "86400000", Check: atLeast(1),
		Text: "Pause between two such passes over all logs. The first begins within a minute of the start."},
	{Name: "record.validation", Type: String, Default: "standard", Check: oneOf("standard", "full"),
		Text: "full opens every compressed batch and checks each record in it; standard does so only where it must."},
	{Name: "http.listeners", Type: List, Default: "http://127.0.0.1:9644",
		Text: "Where to serve metrics, health and profiles: http://host:port. Empty switches it off. If the default's port is taken, any free one is used."},
	{Name: "zookeeper.listeners", Type: List,
		Text: "Where to serve ZooKeeper's protocol to clients and tools of Kafka 0.8 to 2.x: host:port, several separated by commas. Unless set: this node's place in zookeeper.connect, if a file from before KRaft has one."},
	{Name: "log.format", Type: String, Default: "text", Check: oneOf("text", "json"),
		Text: "How log lines look: text for people, json for machines."},
	{Name: "log.level", Type: String, Default: "info", Check: oneOf("debug", "info", "warn", "error"),
		Text: "The least severe log lines that are written."},
}
