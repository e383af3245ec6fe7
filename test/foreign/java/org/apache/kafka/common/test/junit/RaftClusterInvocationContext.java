package org.apache.kafka.common.test.junit;

import java.util.List;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.Extension;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.TestTemplateInvocationContext;
import org.opentest4j.TestAbortedException;

/**
 * Takes the place of Apache Kafka's class of this name, which would start brokers inside the test's own process: each
 * invocation of a test gets a cluster of processes instead. What the cluster cannot be yet aborts the test with the reason,
 * which the report then shows.
 */
public class RaftClusterInvocationContext implements TestTemplateInvocationContext {
    private final String name;
    private final ClusterConfig config;
    private final boolean combined;

    public RaftClusterInvocationContext(String name, ClusterConfig config, boolean combined) {
        this.name = name;
        this.config = config;
        this.combined = combined;
    }

    @Override
    public String getDisplayName(int invocation) {
        return String.format("%s [%d] %s", name, invocation, config.displayTags());
    }

    @Override
    public List<Extension> getAdditionalExtensions() {
        OutsideCluster cluster = new OutsideCluster(config, combined && config.numBrokers() == 1);
        return List.of(
            // Before each and not before the test's execution: some classes create topics in methods of their own that run
            // before each test.
            (BeforeEachCallback) context -> {
                abortIfOutOfReach(context);
                if (config.isAutoStart()) {
                    cluster.start();
                }
            },
            (AfterEachCallback) context -> cluster.stop(),
            new ClusterInstanceParameterResolver(cluster));
    }

    private void abortIfOutOfReach(ExtensionContext context) {
        if (config.clusterTypes().size() > 1 && combined != (config.numBrokers() == 1)) {
            throw new TestAbortedException("twin: the same test runs with controllers that are brokers too, or are not");
        }
        if (config.brokerSecurityProtocol() != SecurityProtocol.PLAINTEXT || config.controllerSecurityProtocol() != SecurityProtocol.PLAINTEXT
            || config.serverProperties().containsKey("authorizer.class.name")) {
            throw new TestAbortedException("security: wants TLS, SASL or an authorizer");
        }
        if (Launch.leavesOut(context.getRequiredTestClass().getName() + "." + context.getRequiredTestMethod().getName())) {
            throw new TestAbortedException("left out");
        }
    }
}
