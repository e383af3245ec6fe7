// Package telemetry is the metrics that clients push (KIP-714), and their way into the node's own.
//
// It owns the subscriptions as they stand in the metadata log, what each client has been told to push and when it may, the
// decoding of what comes (OTLP), and its export as Prometheus metrics. It does not own the settings of subscriptions and
// their checks (config) or the requests (api).
//
// Invariants:
//  1. Nothing that a client chooses is unbounded: there are at most maxInstances clients, maxClientSeries series of one and
//     maxSeries of all; names and values are cut; a push is decoded alone, and only if it cannot take much memory.
//  2. Every exported series has its client's instance id, so two clients never make the same one; within a client a series
//     is identified by its name and labels.
//  3. A name ends with _total if and only if it is exported as a counter, whatever clients say of it.
//
// Goroutines: everything is safe for concurrent use. No goroutine is started here.
//
// Files: telemetry.go (requests), instance.go (what is known of a client), otlp.go (decoding), export.go (Prometheus).
//
// Not obvious:
//   - Clients are asked for cumulative values, which is what Prometheus takes; those that push deltas all the same have
//     them added up.
//   - A client's series stay until it has been silent for three intervals, so that the last values are scraped, too.
package telemetry
