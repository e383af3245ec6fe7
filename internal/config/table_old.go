package config

// removedRows declares: what Kafka once had and what still stands in people's files. Those with a meaning that can be
// kept are read in legacy.go, as the last Kafka that knew them did.
var removedRows = []Row{
	// The single listener of 0.8 to 2.8.
	{Name: "port", Type: Int, Default: "9092", Check: between(0, 65535), Hidden: true, Text: "The port, if listeners is not set. Kafka dropped it in 3.0."},
	{Name: "host.name", Type: String, Hidden: true, Text: "The host to bind, if listeners is not set. Kafka dropped it in 3.0."},
	{Name: "advertised.host.name", Type: String, Unset: true, Hidden: true, Text: "The host that clients are told, if advertised.listeners is not set. Kafka dropped it in 3.0."},
	{Name: "advertised.port", Type: Int, Unset: true, Check: between(0, 65535), Hidden: true, Text: "The port that clients are told, if advertised.listeners is not set. Kafka dropped it in 3.0."},
	{Name: "log.message.timestamp.difference.max.ms", Type: Long, Unset: true, Check: atLeast(0), Hidden: true, Text: "Sets log.message.timestamp.before.max.ms and log.message.timestamp.after.max.ms, where they are not set. Kafka dropped it in 4.0."},

	{Name: connectKey, Type: String, Unset: true, Hidden: true, Text: "In a file from before KRaft: the nodes as host:port, and perhaps a path. They form the cluster, their controllers at port 9093, and serve ZooKeeper's protocol at these ports. Kafka dropped it in 4.0."},
	{Name: "reserved.broker.max.id", Type: Int, Default: "1000", Check: atLeast(0), Hidden: true, Text: "A node without broker.id takes this, plus its place in zookeeper.connect counted from 1; one that has no place there gets the next free number from the controllers. Kafka dropped it in 4.0."},

	// Renamed.
	removed("log.cleanup.interval.mins", "set log.retention.check.interval.ms instead"),
	removed("log.delete.delay.ms", "set log.segment.delete.delay.ms instead"),
	removed("delegation.token.master.key", "set delegation.token.secret.key instead"),
	removed("replica.lag.max.messages", "a follower is judged by replica.lag.time.max.ms alone"),
	removed("quota.producer.default", "set a default quota with kafka-configs.sh instead"),
	removed("quota.consumer.default", "set a default quota with kafka-configs.sh instead"),
	removed("log.segment.bytes.per.topic", "set segment.bytes on the topic instead"),
	removed("log.roll.hours.per.topic", "set segment.ms on the topic instead"),
	removed("log.retention.hours.per.topic", "set retention.ms on the topic instead"),
	removed("log.retention.bytes.per.topic", "set retention.bytes on the topic instead"),
	removed("log.flush.interval.ms.per.topic", "log.flush.before.ack decides what is synced before an answer"),

	// Formats and protocol versions.
	removed("log.message.format.version", "records are stored in format 2, and old clients are served all the same"),
	removed("log.message.downconversion.enable", "old clients are served"),
	removed("inter.broker.protocol.version", "metadata.version says it, see kafka-features.sh"),
	removed("inter.broker.protocol", "metadata.version says it, see kafka-features.sh"),
	removed("eligible.leader.replicas.enable", "it is on"),
	removed("group.coordinator.new.enable", "there is only one coordinator"),
	removed("offsets.commit.required.acks", "an offset is committed when all in-sync replicas have it"),
	removed("max.id.map.snapshots", "producers' snapshots are kept as long as their segments"),
	removed("metadata.log.segment.min.bytes", "metadata.log.segment.bytes is used"),

	// Threads, sockets and clean-up of former designs.
	removed("controlled.shutdown.max.retries", "a stopping broker tries until the controller lets it go"),
	removed("controlled.shutdown.retry.backoff.ms", "a stopping broker tries until the controller lets it go"),
	removed("controller.message.queue.size", "the controller takes requests one by one"),
	removed("leader.imbalance.per.broker.percentage", "leadership is moved back whenever it can be"),
	removed("auto.include.jmx.reporter", "metrics are served over HTTP: see http.listeners"),
	removed("kafka.csv.metrics.dir", "metrics are served over HTTP: see http.listeners"),
	removed("kafka.csv.metrics.reporter.enabled", "metrics are served over HTTP: see http.listeners"),
	removed("num.threads", "goroutines need no such number"),
	removed("control.plane.listener.name", "the controller has listeners of its own: see controller.listener.names"),
	removed("broker.id.generation.enable", "a node without broker.id takes the number of its place in zookeeper.connect, or gets the next free one"),
	removedSecret("password.encoder.secret", "passwords are not kept in ZooKeeper"),
	removedSecret("password.encoder.old.secret", "passwords are not kept in ZooKeeper"),
	removed("password.encoder.keyfactory.algorithm", "passwords are not kept in ZooKeeper"),
	removed("password.encoder.cipher.algorithm", "passwords are not kept in ZooKeeper"),
	removed("password.encoder.key.length", "passwords are not kept in ZooKeeper"),
	removed("password.encoder.iterations", "passwords are not kept in ZooKeeper"),

	// ZooKeeper.
	removed("enable.zookeeper", noZooKeeper),
	removed("zookeeper.connection.timeout.ms", noZooKeeper),
	removed("zookeeper.session.timeout.ms", noZooKeeper),
	removed("zookeeper.sync.time.ms", noZooKeeper),
	removed("zookeeper.set.acl", noZooKeeper),
	removed("zookeeper.max.in.flight.requests", noZooKeeper),
	removed("zookeeper.metadata.migration.enable", noZooKeeper),
	removed("zookeeper.metadata.migration.min.batch.size", noZooKeeper),
	removed("zookeeper.clientCnxnSocket", noZooKeeper),
	removed("zookeeper.ssl.client.enable", noZooKeeper),
	removed("zookeeper.ssl.keystore.location", noZooKeeper),
	removedSecret("zookeeper.ssl.keystore.password", noZooKeeper),
	removed("zookeeper.ssl.keystore.type", noZooKeeper),
	removed("zookeeper.ssl.truststore.location", noZooKeeper),
	removedSecret("zookeeper.ssl.truststore.password", noZooKeeper),
	removed("zookeeper.ssl.truststore.type", noZooKeeper),
	removed("zookeeper.ssl.protocol", noZooKeeper),
	removed("zookeeper.ssl.enabled.protocols", noZooKeeper),
	removed("zookeeper.ssl.cipher.suites", noZooKeeper),
	removed("zookeeper.ssl.endpoint.identification.algorithm", noZooKeeper),
	removed("zookeeper.ssl.crl.enable", noZooKeeper),
	removed("zookeeper.ssl.ocsp.enable", noZooKeeper),
}

const noZooKeeper = "the nodes keep themselves what ZooKeeper kept"

func removed(name, why string) Row {
	return Row{Name: name, Type: String, Unset: true, Standing: Removed, Hidden: true, Why: why}
}

func removedSecret(name, why string) Row {
	row := removed(name, why)
	row.Type = Password
	return row
}
