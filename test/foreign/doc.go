// Package foreign runs test suites that nobody here wrote, unchanged, against the built binary: those that Apache Kafka and
// the authors of clients wrote for their own work.
//
// It owns how each suite is fetched from its registry and started, and what is expected of each of its tests: the files in
// testdata. It owns no check of Kafka's behaviour; a fault that a suite finds becomes a test of ours in the package that has it.
// docs/compatibility.md shows the sums.
//
// Suites fetch packages and take minutes, so a plain `go test ./...` skips them. MOLDAU_EFFORT=ci runs a slice of less than ten
// minutes, MOLDAU_EFFORT=night all; one suite by name runs with
//
//	MOLDAU_EFFORT=night go test ./test/foreign -run TestApacheKafka -classes TopicCommandTest -timeout 3h
//
// and with -update it writes its file anew, where a test that is new to the file gets the reason "unexplained", which fails
// the next run until somebody has found out why. With -itself Apache Kafka's tests run on Apache Kafka, in the same way, to tell
// what is the suite's or our launcher's own doing.
//
// Invariants:
//  1. Every test of a suite that ran is named in its file, or counted there as passed. Neither a new red nor a new green one
//     goes unnoticed.
//  2. No code of a suite is committed. What is in java is ours: it starts our processes where Apache Kafka's tests would start
//     their own.
//
// Goroutines: none.
//
// Files: testdata/NAME.txt, see expectation_test.go; fetched packages as in package harness.
package foreign
