// Package api is what every API key does: decode, ask one owner, encode.
//
// It owns the table of APIs, the checks that belong to a request rather than to what it asks about, the form of answers
// in each version, and the fetch sessions of KIP-227. It owns nothing that is asked about: partitions are replica's,
// metadata comes from the published image, changes are the controller's.
//
// Invariants:
//  1. The table in routes.go is the only list of APIs: dispatch, ApiVersions and docs/api-support.md come from it.
//  2. An API or a feature is advertised only when it works.
//  3. Every image-dependent part of one answer comes from one image.
//  4. A region of a log that an answer carries is released exactly once, whether the answer is written or dropped.
//  5. What clients of Kafka 0.11 and later send and read is not converted between formats, whoever else uses the topic.
//  6. A fetch session is used by one request at a time, and is registered at most once per partition.
//
// Goroutines: none of its own. Routes run on their connection's reader; what has to wait is returned to the server as a
// function, which runs on the connection's writer.
//
// Files: routes.go (THE table), one NN_name.go per API key with its decimal key; shared: api.go (owners), topics.go (names,
// ids and where leaders are), forward.go (requests that the controller answers), wait.go (answers that wait for
// partitions), promise.go (answers that wait for a coordinator), fetch_cache.go, fetch_session.go, fetch_read.go and
// fetch_metadata.go (the parts of Fetch), convert.go and convert_cache.go (record formats of old clients), clients.go (who asks, and
// in which versions), metrics.go.
//
// Not obvious:
//   - Every API except Produce, Metadata and ApiVersions runs only when the connection's earlier requests are answered, so
//     that a client that pipelines sees its own writes, as with Apache Kafka.
//   - Requests that change metadata are forwarded to the controller from a broker's listener, and handled by the
//     controller itself on a controller's listener.
//   - A decoded request points into the connection's frame. What outlives the request must be copied.
package api
