package org.apache.kafka.common.test.junit;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.List;
import java.util.Optional;
import java.util.Properties;
import kafka.network.SocketServer;
import kafka.server.KafkaBroker;
import kafka.server.KafkaConfig;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.coordinator.group.GroupCoordinator;
import org.apache.kafka.metadata.BrokerState;
import org.apache.kafka.metadata.LeaderAndIsr;
import org.apache.kafka.metadata.MetadataCache;
import org.mockito.Mockito;
import org.opentest4j.TestAbortedException;

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
        InvocationHandler handler = (proxy, method, args) -> {
            Method answer;
            try {
                answer = answers.getClass().getMethod(method.getName(), method.getParameterTypes());
            } catch (NoSuchMethodException e) {
                throw new TestAbortedException("inside: asks for " + wanted.getSimpleName() + "." + method.getName());
            }
            try {
                return answer.invoke(answers, args);
            } catch (InvocationTargetException e) {
                throw e.getCause();
            }
        };
        return wanted.cast(Proxy.newProxyInstance(InsideView.class.getClassLoader(), new Class<?>[] {wanted}, handler));
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
            SocketServer server = Mockito.mock(SocketServer.class, call -> {
                throw new TestAbortedException("inside: asks for SocketServer." + call.getMethod().getName());
            });
            Mockito.doReturn(node.port()).when(server).boundPort(cluster.clientListener());
            return server;
        }

        public BrokerState brokerState() {
            return node.alive() ? BrokerState.RUNNING : BrokerState.NOT_RUNNING;
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

        public void awaitShutdown() {
            // shutdown has waited.
        }

        public GroupCoordinator groupCoordinator() {
            return view(GroupCoordinator.class, new Groups());
        }

        public MetadataCache metadataCache() {
            return view(MetadataCache.class, new Metadata(cluster));
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
        private final OutsideCluster cluster;

        Metadata(OutsideCluster cluster) {
            this.cluster = cluster;
        }

        private Optional<TopicDescription> describe(String topic) {
            return cluster.ask(admin -> admin.listTopics(new ListTopicsOptions().listInternal(true)).names().get().contains(topic)
                ? Optional.of(admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic)) : Optional.empty());
        }

        public boolean contains(String topic) {
            return describe(topic).isPresent();
        }

        public Optional<Integer> numPartitions(String topic) {
            return describe(topic).map(d -> d.partitions().size());
        }

        public Optional<LeaderAndIsr> getLeaderAndIsr(String topic, int partition) {
            return describe(topic).filter(d -> partition < d.partitions().size()).map(d -> {
                TopicPartitionInfo p = d.partitions().get(partition);
                int leader = p.leader() == null ? LeaderAndIsr.NO_LEADER : p.leader().id();
                // Nobody outside sees a partition's epochs.
                return new LeaderAndIsr(leader, p.isr().stream().map(n -> n.id()).toList());
            });
        }
    }
}
