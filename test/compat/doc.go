// Package compat drives genuine clients and tools against the built binary: Apache Kafka's own, librdkafka by kcat and
// confluent-kafka, and clients of Python, JavaScript and Go. A feature exists when one of them has used it.
//
// It owns the suites, one file per client or promise, and no code outside tests. docs/compatibility.md tells which client is
// tested for what; the Go clients whose modules the program does not need are in goclients, a module of its own.
//
// Invariants: every check is made by a client that nobody here wrote, or on the files and answers that such a client made.
// The attack suites send bytes of their own, because no honest client would: there an honest client has to be served as
// before afterwards, and testdata/answers.txt holds what Apache Kafka answers to the same.
//
// Goroutines: none.
package compat
