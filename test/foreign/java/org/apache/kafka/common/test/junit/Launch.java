package org.apache.kafka.common.test.junit;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.kafka.clients.consumer.GroupProtocol;

/** What the program that started this run has told in system properties. */
final class Launch {
    private Launch() {
    }

    /** How the folders of a node are formatted. */
    static List<String> format(Path properties, String clusterId, String release) {
        return command("foreign.format", "-c", properties.toString(), "-t", clusterId, "-r", release);
    }

    /** How a node is run. */
    static List<String> serve(Path properties) {
        return command("foreign.serve", properties.toString());
    }

    /** The protocols of groups that the nodes know. */
    static Set<GroupProtocol> groupProtocols() {
        return words("foreign.group.protocols").map(GroupProtocol::of).collect(Collectors.toSet());
    }

    private static List<String> command(String property, String... arguments) {
        return Stream.concat(words(property), Stream.of(arguments)).toList();
    }

    private static Stream<String> words(String property) {
        return System.getProperty(property).lines();
    }

    /**
     * Whether a test, class.method, is not to be run. A file has their names, one a line; a star at the end stands for any
     * rest.
     */
    static boolean leavesOut(String test) {
        String file = System.getProperty("foreign.left.out");
        if (file == null) {
            return false;
        }
        try {
            return Files.readAllLines(Path.of(file)).stream()
                .anyMatch(line -> line.endsWith("*") ? test.startsWith(line.substring(0, line.length() - 1)) : test.equals(line));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
