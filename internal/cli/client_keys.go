package cli

// clientKey is a key of a client's configuration, in config/producer.properties and config/consumer.properties, which are
// written from here.
type clientKey struct {
	name, value string // Java's default; "" = none
	of          clientRole
	elsewhere   bool // Java's clients and their like obey it; the tools here take it and have no use for it
	text        string
}

type clientRole int8

const (
	everyClient clientRole = iota
	producerOnly
	consumerOnly
)

// clientKeys are the keys that the tools obey, and those of Apache Kafka's clients that people set most.
var clientKeys = []clientKey{
	{"bootstrap.servers", "localhost:9092", everyClient, false, "Some brokers, host:port separated by commas; the rest are found through them. A tool's --bootstrap-server counts more."},
	{"client.id", "", everyClient, false, "A name for this client in the logs and metrics of brokers."},
	{"client.rack", "", everyClient, false, "The rack or zone that this client runs in: it may read from replicas there."},
	{"security.protocol", "PLAINTEXT", everyClient, false, "How to talk to brokers; PLAINTEXT only, in this version."},
	{"request.timeout.ms", "30000", everyClient, false, "How long to wait for an answer before the request is sent again."},
	{"default.api.timeout.ms", "60000", everyClient, false, "How long an operation may take with all its repetitions."},
	{"retry.backoff.ms", "100", everyClient, false, "Pause before a failed request is sent again."},
	{"retry.backoff.max.ms", "1000", everyClient, true, "The longest such pause, for clients that wait longer each time."},
	{"reconnect.backoff.ms", "50", everyClient, true, "Pause before a lost connection is made again."},
	{"reconnect.backoff.max.ms", "1000", everyClient, true, "The longest such pause."},
	{"socket.connection.setup.timeout.ms", "10000", everyClient, false, "How long to wait for a connection."},
	{"socket.connection.setup.timeout.max.ms", "30000", everyClient, true, "The longest such wait, for clients that wait longer each time."},
	{"connections.max.idle.ms", "540000", everyClient, false, "Close a connection that was idle for so long."},
	{"metadata.max.age.ms", "300000", everyClient, false, "Ask for brokers, topics and leaders anew after so long."},
	{"receive.buffer.bytes", "65536", everyClient, true, "Receive buffer of a connection; -1 lets the system choose."},
	{"send.buffer.bytes", "131072", everyClient, true, "Send buffer of a connection; -1 lets the system choose."},
	{"metric.reporters", "", everyClient, true, "Java classes that the client tells its metrics."},

	{"acks", "all", producerOnly, false, "When a record counts as sent: all = every replica in sync has it, on disk if the broker's log.flush.before.ack is true; 1 = the leader has it; 0 = it has left."},
	{"enable.idempotence", "true", producerOnly, false, "Let brokers drop what a repetition would write twice. Needs acks=all."},
	{"compression.type", "none", producerOnly, false, "Codec of batches: none, gzip, snappy, lz4 or zstd."},
	{"compression.gzip.level", "-1", producerOnly, false, "Level of gzip."},
	{"compression.lz4.level", "9", producerOnly, false, "Level of lz4."},
	{"compression.zstd.level", "3", producerOnly, false, "Level of zstd."},
	{"linger.ms", "5", producerOnly, false, "How long a batch waits for more records."},
	{"batch.size", "16384", producerOnly, false, "Bytes of a batch that is sent without waiting longer."},
	{"max.request.size", "1048576", producerOnly, true, "Bytes of a request, and so of a record. The broker's message.max.bytes and the topic's max.message.bytes bound it too."},
	{"buffer.memory", "33554432", producerOnly, true, "Memory for records that wait to be sent."},
	{"max.block.ms", "60000", producerOnly, true, "How long sending may wait for that memory, or for metadata."},
	{"max.in.flight.requests.per.connection", "5", producerOnly, false, "Requests on one connection that wait for their answer. More than 1 may change the order of records unless idempotence is on."},
	{"delivery.timeout.ms", "120000", producerOnly, false, "A record that is not sent by then has failed."},
	{"retries", "2147483647", producerOnly, false, "How often a record is sent again; delivery.timeout.ms is the better bound."},
	{"partitioner.class", "", producerOnly, true, "The Java class that picks a record's partition; the default hashes the key with murmur2, as the tools here do."},
	{"transactional.id", "", producerOnly, true, "The name under which transactions of a producer are taken up by its next run."},
	{"key.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer", producerOnly, true, "The Java class that makes bytes of keys."},
	{"value.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer", producerOnly, true, "The Java class that makes bytes of values."},

	{"group.id", "", consumerOnly, false, "The group that shares partitions and keeps offsets. A tool's --group counts more."},
	{"group.instance.id", "", consumerOnly, false, "A fixed name in the group: its member may restart within session.timeout.ms without a rebalance (KIP-345)."},
	{"group.protocol", "classic", consumerOnly, true, "classic, or consumer for the protocol of KIP-848."},
	{"auto.offset.reset", "latest", consumerOnly, false, "Where to begin without a committed offset: earliest, latest or none."},
	{"enable.auto.commit", "true", consumerOnly, false, "Commit offsets now and then."},
	{"auto.commit.interval.ms", "5000", consumerOnly, false, "How often."},
	{"session.timeout.ms", "45000", consumerOnly, false, "A member that is silent for so long loses its partitions. The broker allows from group.min.session.timeout.ms to group.max.session.timeout.ms."},
	{"heartbeat.interval.ms", "3000", consumerOnly, false, "How often a member reports; at most a third of the session timeout."},
	{"max.poll.interval.ms", "300000", consumerOnly, false, "A member that processes records for longer than this leaves its group."},
	{"max.poll.records", "500", consumerOnly, true, "Records that one poll gives to the program."},
	{"partition.assignment.strategy", "org.apache.kafka.clients.consumer.RangeAssignor,org.apache.kafka.clients.consumer.CooperativeStickyAssignor", consumerOnly, false, "How partitions are shared, most wanted first."},
	{"isolation.level", "read_uncommitted", consumerOnly, false, "read_committed leaves out records of transactions that are open or aborted."},
	{"fetch.min.bytes", "1", consumerOnly, false, "A broker waits until it has so many bytes to give,"},
	{"fetch.max.wait.ms", "500", consumerOnly, false, "but no longer than this."},
	{"fetch.max.bytes", "52428800", consumerOnly, false, "The largest answer to a fetch."},
	{"max.partition.fetch.bytes", "1048576", consumerOnly, false, "The most of one partition in it; a larger batch comes alone."},
	{"check.crcs", "true", consumerOnly, false, "Check what was read for damage."},
	{"exclude.internal.topics", "true", consumerOnly, true, "Leave topics such as __consumer_offsets out of subscriptions by pattern."},
	{"allow.auto.create.topics", "true", consumerOnly, true, "Let a subscription create its topic, if the broker does so."},
	{"key.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer", consumerOnly, true, "The Java class that makes keys of bytes."},
	{"value.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer", consumerOnly, true, "The Java class that makes values of bytes."},
}
