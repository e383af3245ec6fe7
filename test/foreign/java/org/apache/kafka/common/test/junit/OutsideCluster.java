package org.apache.kafka.common.test.junit;

import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import kafka.server.ControllerServer;
import kafka.server.KafkaBroker;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.GroupProtocol;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.test.ClusterInstance;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.Type;
import org.apache.kafka.server.fault.FaultHandlerException;

/**
 * A cluster of processes, made for one test and removed after it: one node that is both broker and controller, or, where several
 * brokers may be had, a controller and brokers, so that a test can stop any broker, as it can where Apache Kafka's controller
 * and broker of one id are objects in one process. Each gets the properties that the test asks for. A test that wants more nodes than there may be gets what there may be, and
 * replication factors that fit.
 */
final class OutsideCluster implements ClusterInstance {
    private static final long READY_MS = 30_000;
    private static final int CONTROLLER_ID = Launch.nodes() > 1 ? 3000 : 0; // 3000 as in Apache Kafka's

    private final ClusterConfig config;
    private final Map<Integer, OutsideNode> nodes = new TreeMap<>(); // the brokers
    private OutsideNode controllerNode; // null: node 0 is it
    private Path dir;
    private int controllerPort;
    private boolean stopped;

    OutsideCluster(ClusterConfig config) {
        this.config = config;
    }

    @Override
    public void start() {
        if (started()) {
            return;
        }
        try {
            dir = Files.createTempDirectory("moldau-foreign");
            controllerPort = freePort();
            if (CONTROLLER_ID > 0) {
                controllerNode = new OutsideNode(CONTROLLER_ID, controllerPort, properties(CONTROLLER_ID, controllerPort), dir);
                controllerNode.start();
            }
            for (int id = 0; id < size(); id++) {
                int port = freePort();
                nodes.put(id, new OutsideNode(id, port, properties(id, port), dir));
            }
            for (OutsideNode node : nodes.values()) {
                node.start();
            }
            for (OutsideNode node : nodes.values()) {
                node.waitUntilItListens(READY_MS);
            }
            waitForReadyBrokers();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(e);
        }
    }

    private int size() {
        return Math.min(config.numBrokers(), Launch.nodes());
    }

    private Properties properties(int id, int port) {
        String client = config.brokerListenerName().value();
        String controller = config.controllerListenerName().value();
        Properties p = new Properties();
        List<String> roles = new ArrayList<>();
        List<String> listeners = new ArrayList<>();
        if (id < size()) {
            roles.add("broker");
            listeners.add(client + "://localhost:" + port);
            p.put("advertised.listeners", client + "://localhost:" + port);
            p.put("inter.broker.listener.name", client);
        }
        if (id == CONTROLLER_ID) {
            roles.add("controller");
            listeners.add(controller + "://localhost:" + controllerPort);
        }
        p.put("process.roles", String.join(",", roles));
        p.put("listeners", String.join(",", listeners));
        p.put("node.id", Integer.toString(id));
        p.put("controller.quorum.voters", CONTROLLER_ID + "@localhost:" + controllerPort);
        p.put("controller.listener.names", controller);
        p.put("listener.security.protocol.map", client + ":" + config.brokerSecurityProtocol().name + "," + controller + ":" + config.controllerSecurityProtocol().name);
        p.put("log.dirs", IntStream.range(0, config.numDisksPerBroker()).mapToObj(d -> dir.resolve("node" + id + "-" + d).toString()).collect(Collectors.joining(",")));
        // What Kafka's own cluster for tests sets.
        p.put("offsets.topic.replication.factor", "1");
        p.put("offsets.topic.num.partitions", "5");
        p.put("transaction.state.log.num.partitions", "5");
        p.put("transaction.state.log.replication.factor", "1");
        p.put("transaction.state.log.min.isr", "1");
        p.put("group.initial.rebalance.delay.ms", "0");
        p.putAll(config.serverProperties());
        p.putAll(config.perServerOverrideProperties().getOrDefault(id, Map.of()));
        for (String key : p.stringPropertyNames()) {
            if (key.endsWith(".replication.factor") || key.endsWith(".min.isr") || key.equals("min.insync.replicas")) {
                p.put(key, Integer.toString(Math.min(size(), Integer.parseInt(p.getProperty(key)))));
            }
        }
        return p;
    }

    private static int freePort() throws IOException {
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return socket.getLocalPort();
        }
    }

    @Override
    public void stop() {
        stopped = true;
        nodes.values().forEach(OutsideNode::kill);
        if (controllerNode != null) {
            controllerNode.kill();
        }
        if (dir == null) {
            return;
        }
        try (Stream<Path> files = Files.walk(dir)) {
            files.sorted(Comparator.reverseOrder()).map(Path::toFile).forEach(File::delete);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Override
    public boolean started() {
        return dir != null;
    }

    @Override
    public boolean stopped() {
        return stopped;
    }

    @Override
    public void shutdownBroker(int id) {
        nodes.get(id).stop();
    }

    @Override
    public void startBroker(int id) {
        nodes.get(id).start();
    }

    @Override
    public void waitForReadyBrokers() throws InterruptedException {
        long alive = nodes.values().stream().filter(OutsideNode::alive).count();
        until("the brokers are ready", admin -> admin.describeCluster().nodes().get(5, TimeUnit.SECONDS).size() >= alive);
    }

    @Override
    public void createTopic(String topic, int partitions, short replicas, Map<String, String> settings) throws InterruptedException {
        ClusterInstance.super.createTopic(topic, partitions, (short) Math.min(replicas, size()), settings);
    }

    @Override
    public void waitTopicCreation(String topic, int partitions) throws InterruptedException {
        until("topic " + topic + " has " + partitions + " partitions", admin -> admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().stream()
            .filter(p -> p.leader() != null).count() == partitions);
    }

    @Override
    public void waitTopicDeletion(String topic) throws InterruptedException {
        until("topic " + topic + " is gone", admin -> !admin.listTopics().names().get().contains(topic));
    }

    /** A question to the cluster that is asked again while the answer is no. */
    private interface Question {
        boolean ask(Admin admin) throws Exception;
    }

    private void until(String what, Question question) throws InterruptedException {
        long end = System.currentTimeMillis() + READY_MS;
        Exception last = null;
        while (System.currentTimeMillis() < end) {
            for (OutsideNode node : nodes.values()) {
                node.failIfCrashed();
            }
            Admin admin = admin();
            try {
                if (question.ask(admin)) {
                    return;
                }
            } catch (InterruptedException e) {
                throw e;
            } catch (Exception e) {
                last = e;
            } finally {
                admin.close(Duration.ZERO); // else it would wait for its own requests to a node that is gone
            }
            Thread.sleep(20);
        }
        throw new AssertionError("not within " + READY_MS + " ms: " + what + nodes.values().stream().map(OutsideNode::log).collect(Collectors.joining()), last);
    }

    // Answers leave a node when what they tell holds on it, so there is nothing to wait for.
    @Override
    public void ensureConsistentMetadata() {
    }

    @Override
    public void ensureConsistentMetadata(Collection<KafkaBroker> brokers, Collection<ControllerServer> controllers) {
    }

    @Override
    public Type type() {
        return Type.CO_KRAFT;
    }

    @Override
    public ClusterConfig config() {
        return config;
    }

    @Override
    public Map<Integer, KafkaBroker> brokers() {
        Map<Integer, KafkaBroker> brokers = new TreeMap<>();
        nodes.forEach((id, node) -> brokers.put(id, InsideView.broker(this, node)));
        return brokers;
    }

    @Override
    public Map<Integer, ControllerServer> controllers() {
        return Map.of();
    }

    @Override
    public Set<Integer> controllerIds() {
        return new TreeSet<>(Set.of(CONTROLLER_ID));
    }

    @Override
    public Set<Integer> brokerIds() {
        return new TreeSet<>(nodes.keySet()); // some tests take ids out
    }

    @Override
    public ListenerName clientListener() {
        return config.brokerListenerName();
    }

    @Override
    public ListenerName controllerListenerName() {
        return config.controllerListenerName();
    }

    @Override
    public String bootstrapServers() {
        return nodes.values().stream().map(n -> "localhost:" + n.port()).collect(Collectors.joining(","));
    }

    @Override
    public String bootstrapControllers() {
        return "localhost:" + controllerPort;
    }

    @Override
    public List<Integer> brokerBoundPorts() {
        return nodes.values().stream().map(OutsideNode::port).collect(Collectors.toCollection(ArrayList::new));
    }

    @Override
    public List<Integer> controllerBoundPorts() {
        return List.of(controllerPort);
    }

    @Override
    public String clusterId() {
        return ask(admin -> admin.describeCluster().clusterId().get());
    }

    /** The answer of the cluster to one question. */
    <T> T ask(AdminCall<T> call) {
        try (Admin admin = admin()) {
            return call.on(admin);
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }

    /** One question to the cluster. */
    interface AdminCall<T> {
        T on(Admin admin) throws Exception;
    }

    @Override
    public Set<GroupProtocol> supportedGroupProtocols() {
        return Set.of(GroupProtocol.CLASSIC);
    }

    @Override
    public Optional<FaultHandlerException> firstFatalException() {
        return Optional.empty();
    }

    @Override
    public Optional<FaultHandlerException> firstNonFatalException() {
        return Optional.empty();
    }
}
