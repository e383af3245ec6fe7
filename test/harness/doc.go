// Package harness starts the built binary and the genuine clients that test suites drive against it.
//
// It owns the build of the binary, node processes (start, stop, kill, logs), the machine-wide lock that keeps suites with
// processes apart, disks whose power can be cut, and the fetching of clients by their ordinary package tools: Apache Kafka by Maven, clients of Python by
// pip, those of Node.js by npm. It does not own any check.
//
// Invariants:
//  1. Everything listens on loopback, on ports that were free, and ends with its test.
//  2. A missing tool skips the test and says so; with MOLDAU_REQUIRE_ALL=1 it fails it.
//
// Goroutines: a Node's methods belong to the test that started it.
//
// Files: fetched packages are kept in the user's cache folder under "moldau-test", so that a second run needs no network.
package harness
