package org.apache.kafka.common.test.junit;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Ports for nodes. They lie below those that the system gives to connections, of which one could otherwise have the port of a
 * node that is to come back.
 */
final class Ports {
    private static final AtomicInteger NEXT = new AtomicInteger(ThreadLocalRandom.current().nextInt(10_000, 22_000));

    private Ports() {
    }

    /** A port that nobody listens on, and that this method has not given before. */
    static int free() throws IOException {
        while (true) {
            int port = NEXT.getAndUpdate(p -> p < 32_000 ? p + 1 : 10_000);
            try (ServerSocket socket = new ServerSocket(port, 1, InetAddress.getLoopbackAddress())) {
                return socket.getLocalPort();
            } catch (IOException e) {
                // Taken: the next one.
            }
        }
    }
}
