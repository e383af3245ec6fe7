// Package mission shows the worked case of consumer groups in ZooKeeper, with our programs and with Apache Kafka's own.
//
// It owns the hosts that the case names (namespaces ip101, ip102 and ip103 of a network of the test's own), the programs on
// them, and the tests of package zkconsumer beside Apache Kafka 1.1.1 and Apache ZooKeeper 3.4.10, with whose members it shares
// groups. It does not own the ZooKeeper tree, whose tests are beside it.
//
// Invariants:
//  1. Nothing leaves the test's own network: the test process runs itself again in a namespace without any other link.
//
// Goroutines: a program has one that collects what it prints; it ends with the program.
package mission
