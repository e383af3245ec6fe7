package org.apache.kafka.common.test.junit;

import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.io.Writer;
import java.net.InetAddress;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.requests.ApiVersionsRequest;
import org.apache.kafka.common.requests.ApiVersionsResponse;
import org.apache.kafka.common.requests.MetadataRequest;
import org.apache.kafka.common.requests.MetadataResponse;
import org.apache.kafka.server.IntegrationTestUtils;

/** One process of a cluster. */
final class OutsideNode {
    private final int id;
    private final int port;
    private final Properties properties;
    private final Path file;
    private final Path log;
    private Process process;
    private boolean wanted;

    OutsideNode(int id, int port, Properties properties, Path dir) throws IOException {
        this.id = id;
        this.port = port;
        this.properties = properties;
        this.file = dir.resolve("node" + id + ".properties");
        this.log = dir.resolve("node" + id + ".log");
        try (Writer out = Files.newBufferedWriter(file)) {
            properties.store(out, null);
        }
    }

    int id() {
        return id;
    }

    int port() {
        return port;
    }

    Properties properties() {
        return properties;
    }

    List<File> logDirs() {
        return Stream.of(properties.getProperty("log.dirs").split(",")).map(File::new).toList();
    }

    /** What it tells a client of some topics and of all brokers. */
    MetadataResponse metadata(List<String> topics) {
        return ask(new MetadataRequest.Builder(topics, false).build());
    }

    /** The offset after the last metadata record that it has taken in: it names that record to those who ask for its features. */
    long metadataEnd() {
        return this.<ApiVersionsResponse>ask(new ApiVersionsRequest.Builder().build()).data().finalizedFeaturesEpoch() + 1;
    }

    private <T extends AbstractResponse> T ask(AbstractRequest request) {
        try {
            return IntegrationTestUtils.connectAndReceive(request, port);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Whether a partition's log lies in one of its directories, which look as Apache Kafka's do. */
    boolean hasLog(TopicPartition partition) {
        return logDirs().stream().anyMatch(dir -> new File(dir, partition.toString()).isDirectory());
    }

    /** Has a cluster that begins with this node begin at a metadata.version, as Apache Kafka's does. */
    void format(String clusterId, String release) throws IOException, InterruptedException {
        Process format = new ProcessBuilder(Launch.format(file, clusterId, release))
            .redirectErrorStream(true).redirectOutput(ProcessBuilder.Redirect.appendTo(log.toFile())).start();
        if (format.waitFor() != 0) {
            throw new AssertionError("node " + id + " cannot be formatted" + log());
        }
    }

    synchronized void start() {
        try {
            process = new ProcessBuilder(Launch.serve(file)).redirectErrorStream(true).redirectOutput(ProcessBuilder.Redirect.appendTo(log.toFile())).start();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        wanted = true;
    }

    void waitUntilItListens(long maxWaitMs) throws InterruptedException {
        long end = System.currentTimeMillis() + maxWaitMs;
        while (System.currentTimeMillis() < end) {
            failIfCrashed();
            try {
                new Socket(InetAddress.getLoopbackAddress(), port).close();
                return;
            } catch (IOException e) {
                Thread.sleep(5);
            }
        }
        throw new AssertionError("node " + id + " does not listen after " + maxWaitMs + " ms" + log());
    }

    /** Ends the process as an operator does. */
    synchronized void stop() {
        wanted = false;
        process.destroy();
        end(30);
    }

    /** Ends the process at once. */
    synchronized void kill() {
        wanted = false;
        if (process != null) {
            process.destroyForcibly();
            end(10);
        }
    }

    private void end(int seconds) {
        try {
            if (!process.waitFor(seconds, TimeUnit.SECONDS)) {
                process.destroyForcibly();
                throw new AssertionError("node " + id + " did not stop within " + seconds + " s" + log());
            }
        } catch (InterruptedException e) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
        }
    }

    synchronized boolean alive() {
        return process != null && process.isAlive();
    }

    synchronized void failIfCrashed() {
        if (wanted && !process.isAlive()) {
            throw new AssertionError("node " + id + " ended with status " + process.exitValue() + log());
        }
    }

    /** The end of what the process has printed. */
    String log() {
        try {
            String text = Files.readString(log);
            return "\nnode " + id + ":\n" + text.substring(Math.max(0, text.length() - 2000));
        } catch (IOException e) {
            return "\nnode " + id + " has no log: " + e;
        }
    }
}
