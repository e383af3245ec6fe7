package org.apache.kafka.common.test.junit;

import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
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
import java.util.concurrent.ExecutionException;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import kafka.server.ControllerServer;
import kafka.server.KafkaBroker;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.GroupProtocol;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.test.ClusterInstance;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.Type;
import org.apache.kafka.server.fault.FaultHandlerException;

/**
 * A cluster of processes, made for one test and removed after it. Each gets the properties that the test asks for. Controllers are
 * processes of their own as soon as there are several brokers, so that a test can stop any broker, as it can where Apache Kafka's
 * controller and broker of one id are objects in one process.
 */
final class OutsideCluster implements ClusterInstance {
    private static final long READY_MS = 30_000;
    private static final int FIRST_CONTROLLER_ALONE = 3000; // as in Apache Kafka's

    private final ClusterConfig config;
    private final boolean combined;
    private final Map<Integer, OutsideNode> brokers = new TreeMap<>();
    private final Map<Integer, OutsideNode> controllers = new TreeMap<>(); // where combined, some or all of the brokers
    private final Map<Integer, Integer> controllerPorts = new TreeMap<>();
    private Path dir;
    private boolean stopped;

    OutsideCluster(ClusterConfig config, boolean combined) {
        this.config = config;
        this.combined = combined;
    }

    @Override
    public void start() {
        if (started()) {
            return;
        }
        try {
            dir = Files.createTempDirectory("moldau-foreign");
            int firstController = combined ? 0 : FIRST_CONTROLLER_ALONE;
            for (int id = firstController; id < firstController + config.numControllers(); id++) {
                controllerPorts.put(id, Ports.free());
            }
            for (int id = 0; id < config.numBrokers(); id++) {
                int port = Ports.free();
                brokers.put(id, new OutsideNode(id, port, properties(id, port), dir));
            }
            for (int id : controllerPorts.keySet()) {
                OutsideNode node = brokers.get(id);
                controllers.put(id, node != null ? node : new OutsideNode(id, controllerPorts.get(id), properties(id, -1), dir));
            }
            String id = Uuid.randomUuid().toString();
            for (OutsideNode node : nodes()) {
                node.format(id, config.metadataVersion().version());
            }
            for (OutsideNode node : nodes()) {
                node.start();
            }
            for (OutsideNode node : nodes()) {
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

    private Collection<OutsideNode> nodes() {
        Map<Integer, OutsideNode> nodes = new TreeMap<>(controllers);
        nodes.putAll(brokers);
        return nodes.values();
    }

    /** The properties of a node; a broker listens to clients on a port. */
    private Properties properties(int id, int port) {
        String client = config.brokerListenerName().value();
        String controller = config.controllerListenerName().value();
        Properties p = new Properties();
        List<String> roles = new ArrayList<>();
        List<String> listeners = new ArrayList<>();
        if (port >= 0) {
            roles.add("broker");
            listeners.add(client + "://localhost:" + port);
            p.put("advertised.listeners", client + "://localhost:" + port);
            p.put("inter.broker.listener.name", client);
        }
        if (controllerPorts.containsKey(id)) {
            roles.add("controller");
            listeners.add(controller + "://localhost:" + controllerPorts.get(id));
        }
        p.put("process.roles", String.join(",", roles));
        p.put("listeners", String.join(",", listeners));
        p.put("node.id", Integer.toString(id));
        p.put("controller.quorum.voters", controllerPorts.entrySet().stream().map(e -> e.getKey() + "@localhost:" + e.getValue()).collect(Collectors.joining(",")));
        p.put("controller.listener.names", controller);
        p.put("listener.security.protocol.map", client + ":" + config.brokerSecurityProtocol().name + "," + controller + ":" + config.controllerSecurityProtocol().name);
        p.put("log.dirs", IntStream.range(0, config.numDisksPerBroker()).mapToObj(d -> dir.resolve("node" + id + "-" + d).toString()).collect(Collectors.joining(",")));
        p.putAll(config.serverProperties());
        p.putAll(config.perServerOverrideProperties().getOrDefault(id, Map.of()));
        p.remove("file.delete.delay.ms"); // a setting of topics: Apache Kafka ignores it here, a node of ours refuses to start
        return p;
    }

    @Override
    public void stop() {
        stopped = true;
        nodes().forEach(OutsideNode::kill);
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
        brokers.get(id).stop();
    }

    @Override
    public void startBroker(int id) {
        brokers.get(id).start();
    }

    @Override
    public void waitForReadyBrokers() throws InterruptedException {
        long alive = alive().count();
        until("all brokers know " + alive + " brokers", node -> node.metadata(List.of()).brokers().size() >= alive);
    }

    @Override
    public void waitTopicCreation(String topic, int partitions) throws InterruptedException {
        until("topic " + topic + " has " + partitions + " partitions", node -> new InsideView.Metadata(node).numPartitions(topic).equals(Optional.of(partitions)));
    }

    @Override
    public void waitTopicDeletion(String topic) throws InterruptedException {
        until("topic " + topic + " is gone", node -> !new InsideView.Metadata(node).contains(topic));
    }

    private Stream<OutsideNode> alive() {
        return brokers.values().stream().filter(OutsideNode::alive);
    }

    /** Waits until something is so for every broker that is alive. */
    private void until(String what, Predicate<OutsideNode> question) throws InterruptedException {
        long end = System.currentTimeMillis() + READY_MS;
        UncheckedIOException last = null;
        while (System.currentTimeMillis() < end) {
            for (OutsideNode node : nodes()) {
                node.failIfCrashed();
            }
            try {
                if (alive().allMatch(question)) {
                    return;
                }
            } catch (UncheckedIOException e) {
                last = e;
            }
            Thread.sleep(20);
        }
        throw new AssertionError("not within " + READY_MS + " ms: " + what + nodes().stream().map(OutsideNode::log).collect(Collectors.joining()), last);
    }

    /** Waits until every broker has taken in what the controllers have committed: an answer may come before that. */
    @Override
    public void ensureConsistentMetadata() throws InterruptedException {
        long committed;
        try (Admin admin = admin()) {
            committed = admin.describeMetadataQuorum().quorumInfo().get().highWatermark();
        } catch (ExecutionException e) {
            throw new IllegalStateException(e);
        }
        until("all brokers know the metadata before " + committed, node -> node.metadataEnd() >= committed);
    }

    @Override
    public void ensureConsistentMetadata(Collection<KafkaBroker> some, Collection<ControllerServer> none) throws InterruptedException {
        ensureConsistentMetadata();
    }

    @Override
    public Type type() {
        return combined ? Type.CO_KRAFT : Type.KRAFT;
    }

    @Override
    public ClusterConfig config() {
        return config;
    }

    @Override
    public Map<Integer, KafkaBroker> brokers() {
        Map<Integer, KafkaBroker> views = new TreeMap<>();
        brokers.forEach((id, node) -> views.put(id, InsideView.broker(this, node)));
        return views;
    }

    @Override
    public Map<Integer, ControllerServer> controllers() {
        return Map.of(); // whoever asks for them looks at their logs
    }

    @Override
    public Set<Integer> controllerIds() {
        return new TreeSet<>(controllers.keySet());
    }

    @Override
    public Set<Integer> brokerIds() {
        return new TreeSet<>(brokers.keySet()); // some tests take ids out
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
        return brokers.values().stream().map(n -> "localhost:" + n.port()).collect(Collectors.joining(","));
    }

    @Override
    public String bootstrapControllers() {
        return controllerPorts.values().stream().map(port -> "localhost:" + port).collect(Collectors.joining(","));
    }

    @Override
    public List<Integer> brokerBoundPorts() {
        return brokers.values().stream().map(OutsideNode::port).collect(Collectors.toCollection(ArrayList::new));
    }

    @Override
    public List<Integer> controllerBoundPorts() {
        return List.copyOf(controllerPorts.values());
    }

    @Override
    public String clusterId() {
        return alive().findFirst().orElseThrow().metadata(List.of()).clusterId();
    }

    @Override
    public Set<GroupProtocol> supportedGroupProtocols() {
        return Launch.groupProtocols();
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
