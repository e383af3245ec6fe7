// Package config is what a person may set: one declaration table of keys, from which come parsing, checking, typed
// structs, DescribeConfigs, the example file and the documentation page.
//
// It owns the names, types, defaults, checks and texts of every setting of a node, a topic, a group and a subscription to
// client metrics, and the order of their sources; Kafka's names are the contract. It does not own where a setting is used
// (the packages take Node or Topic, or a part of them), nor the dynamic settings in the metadata log: they come in as
// plain maps.
//
// Invariants:
//  1. A key is declared in exactly one Row. Nothing outside this package spells a key to read its value.
//  2. A Config exists only if every value in it parses and passes its checks, so Node and Topic cannot fail on it.
//  3. Load reports every fault it can find, never only the first, each with file, line, key, value and what is allowed.
//  4. The value of a password never appears in a fault, a warning or a Described entry.
//  5. A Config is immutable.
//
// Goroutines: everything is safe for concurrent use. No goroutine is started here.
//
// Files: config/server.properties and docs/configuration.md are written from the table by
// `go test ./internal/config -update`; a test fails when they are stale.
//
// Not obvious:
//   - A key that Kafka knows and moldau does not need is still declared, with a reason. It is accepted and said to be
//     without effect, because files written for Kafka must start here; ignoring it silently would be a lie.
//   - The few settings whose silent loss would be dangerous (an authorizer, encryption) are refused instead.
//   - A near miss of a real key is a fault, a wholly unknown key is a warning: Kafka ignores both, and a misspelt
//     retention has cost people their records.
//   - ${...} is not expanded. Kafka does so only through configuration providers, and a password may contain it.
package config
