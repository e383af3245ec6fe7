// Package oracle asks Apache Kafka and the built binary the same and compares what they answer.
//
// It owns the questions: scenes of requests in testdata/scenes (good ones and bad ones, in every version that both serve, to
// brokers and to controllers), requests that are malformed, and settings with good and bad values. Below each question stands
// what Apache Kafka answers, so that a run needs no Apache Kafka: 4.4, and in versions that it gave up 3.9, and 1.1.1 where
// that needs a ZooKeeper. It does not own how a client behaves, which test/compat shows with real ones.
//
// Invariants:
//  1. What stands below a question is a fact about Apache Kafka, written by
//     "go test ./test/oracle -renew" and never by hand.
//  2. Where moldau answers something else, a line "ours" says what, and names the row of docs/divergences.md that says why.
//     Any other difference fails.
//  3. A scene has a broker of its own, and one for each release, so scenes do not depend on each other, nor on what is asked
//     of another release; the questions of one scene do.
//  4. The newest release that serves a version says what its answers are.
//
// Goroutines: none.
//
// Files: oracle_test.go (the tests), release_test.go (the releases, and the versions that each is asked for), book_test.go
// (the files of questions and answers), stage_test.go (the verbs of a scene), conn_test.go (asking), fields_test.go (JSON to
// requests), show_test.go (what an answer says), forms_test.go (malformed requests), settings_test.go (settings),
// random_test.go (random sequences), sets_test.go (message sets that no producer makes), java/MetricsTaker.java (a class without
// which Apache Kafka serves no telemetry).
//
// Not obvious: answers are shown without what differs from run to run (ids, times, ports, texts of errors) and arrays are
// sorted, because Apache Kafka orders many of them by its hash maps.
package oracle
