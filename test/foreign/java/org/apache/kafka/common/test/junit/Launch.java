package org.apache.kafka.common.test.junit;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;

/** What the program that started this run has told in system properties. */
final class Launch {
    private Launch() {
    }

    /** A command of the program that is tested. */
    static List<String> command(String... arguments) {
        return Stream.concat(Stream.of(System.getProperty("moldau.command").split(" ")), Stream.of(arguments)).toList();
    }

    /**
     * Whether a test, class.method, is not to be run. A file has their names, one a line; a star at the end stands for any
     * rest.
     */
    static boolean leavesOut(String test) {
        String file = System.getProperty("moldau.left.out");
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
