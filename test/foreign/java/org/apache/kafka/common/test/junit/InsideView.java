package org.apache.kafka.common.test.junit;

import java.io.File;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import kafka.cluster.Partition;
import kafka.log.LogManager;
import kafka.network.SocketServer;
import kafka.server.KafkaBroker;
import kafka.server.KafkaConfig;
import kafka.server.ReplicaManager;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.MetadataResponse.PartitionMetadata;
import org.apache.kafka.coordinator.group.GroupCoordinator;
import org.apache.kafka.metadata.BrokerState;
import org.apache.kafka.metadata.LeaderAndIsr;
import org.apache.kafka.metadata.MetadataCache;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.mockito.Mockito;
import org.opentest4j.TestAbortedException;
import scala.Option;
import scala.collection.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The few things about Apache Kafka's own broker object that a process can answer from outside. Whatever else a test asks of
 * that object aborts the test: it looks inside a process that is not there.
 */
public final class InsideView {
    private InsideView() {
    }

    static KafkaBroker broker(OutsideCluster cluster, OutsideNode node) {
        return view(KafkaBroker.class, new Broker(cluster, node));
    }

    /** Makes an object of the wanted type that answers with the methods of the same name and parameters that answers has. */
    private static <T> T view(Class<T> wanted, Object answers) {
        return Mockito.mock(wanted, call -> {
            Method answer;
            try {
                answer = answers.getClass().getMethod(call.getMethod().getName(), call.getMethod().getParameterTypes());
            } catch (NoSuchMethodException e) {
                throw new TestAbortedException("inside: asks for " + wanted.getSimpleName() + "." + call.getMethod().getName());
            }
            try {
                return answer.invoke(answers, call.getArguments());
            } catch (InvocationTargetException e) {
                throw e.getCause();
            }
        });
    }

    /** What a KafkaBroker answers. */
    public static final class Broker {
        private final OutsideCluster cluster;
        private final OutsideNode node;

        Broker(OutsideCluster cluster, OutsideNode node) {
            this.cluster = cluster;
            this.node = node;
        }

        public KafkaConfig config() {
            return new KafkaConfig(node.properties());
        }

        public String clusterId() {
            return cluster.clusterId();
        }

        public int boundPort(ListenerName listener) {
            return node.port();
        }

        public SocketServer socketServer() {
            return view(SocketServer.class, this); // of which only boundPort can be answered
        }

        public BrokerState brokerState() {
            return node.alive() ? BrokerState.RUNNING : BrokerState.SHUTTING_DOWN; // in which an object of Apache Kafka's stays
        }

        public boolean isShutdown() {
            return !node.alive();
        }

        public void startup() {
            node.start();
        }

        public void shutdown() {
            node.stop();
        }

        public void shutdown(Duration patience) {
            node.stop();
        }

        public void awaitShutdown() {
            // shutdown has waited.
        }

        public ReplicaManager replicaManager() {
            return view(ReplicaManager.class, new Replicas(cluster, node));
        }

        public LogManager logManager() {
            return view(LogManager.class, new Logs(node));
        }

        public GroupCoordinator groupCoordinator() {
            return view(GroupCoordinator.class, new Groups());
        }

        public MetadataCache metadataCache() {
            return view(MetadataCache.class, new Metadata(node));
        }
    }

    /** What a ReplicaManager answers. */
    public static final class Replicas {
        private final OutsideCluster cluster;
        private final OutsideNode node;

        Replicas(OutsideCluster cluster, OutsideNode node) {
            this.cluster = cluster;
            this.node = node;
        }

        public LogManager logManager() {
            return view(LogManager.class, new Logs(node));
        }

        public Option<Partition> onlinePartition(TopicPartition partition) {
            return node.alive() && node.hasLog(partition) ? Option.apply(view(Partition.class, new Replica(cluster, node, partition))) : Option.empty();
        }

        public Option<UnifiedLog> localLog(TopicPartition partition) {
            return node.hasLog(partition) ? Option.apply(view(UnifiedLog.class, new Replica(cluster, node, partition))) : Option.empty();
        }
    }

    /** What a LogManager answers. */
    public static final class Logs {
        private final OutsideNode node;

        Logs(OutsideNode node) {
            this.node = node;
        }

        public Option<UnifiedLog> getLog(TopicPartition partition, boolean future) {
            return !future && node.hasLog(partition) ? Option.apply(view(UnifiedLog.class, this)) : Option.empty();
        }

        public Seq<File> liveLogDirs() {
            return CollectionConverters.asScala(node.logDirs()).toSeq();
        }
    }

    /** What the Partition and the UnifiedLog of a replica answer. */
    public static final class Replica {
        private final OutsideCluster cluster;
        private final OutsideNode node;
        private final TopicPartition partition;

        Replica(OutsideCluster cluster, OutsideNode node, TopicPartition partition) {
            this.cluster = cluster;
            this.node = node;
            this.partition = partition;
        }

        public Option<Object> leaderIdIfLocal() {
            return new Metadata(node).getLeaderAndIsr(partition.topic(), partition.partition()).map(LeaderAndIsr::leader)
                .filter(leader -> leader == node.id()).map(Option::<Object>apply).orElse(Option.empty());
        }

        // A leader tells its own; what a follower believes does not show, and is no more.
        public long highWatermark() {
            try (Admin admin = cluster.admin()) {
                return admin.listOffsets(Map.of(partition, OffsetSpec.latest())).partitionResult(partition).get().offset();
            } catch (ExecutionException | InterruptedException e) {
                throw new IllegalStateException(e);
            }
        }
    }

    /** What a GroupCoordinator answers. */
    public static final class Groups {
        public Properties groupMetadataTopicConfigs() {
            Properties settings = new Properties();
            settings.put("cleanup.policy", "compact");
            return settings;
        }
    }

    /** What a MetadataCache answers. */
    public static final class Metadata {
        private final OutsideNode node;

        Metadata(OutsideNode node) {
            this.node = node;
        }

        private List<PartitionMetadata> partitions(String topic) {
            return node.metadata(List.of(topic)).topicMetadata().stream().filter(t -> t.error() == Errors.NONE)
                .flatMap(t -> t.partitionMetadata().stream()).toList();
        }

        public boolean contains(String topic) {
            return !partitions(topic).isEmpty();
        }

        public Optional<Integer> numPartitions(String topic) {
            return Optional.of(partitions(topic).size()).filter(n -> n > 0);
        }

        public Optional<LeaderAndIsr> getLeaderAndIsr(String topic, int partition) {
            // Nobody outside sees a partition's epoch.
            return partitions(topic).stream().filter(p -> p.partition() == partition).findFirst()
                .map(p -> new LeaderAndIsr(p.leaderId.orElse(LeaderAndIsr.NO_LEADER), p.inSyncReplicaIds));
        }
    }
}
