// Package metadata is what a cluster knows about itself: the records of the metadata log, the image they add up to, and
// the way from one to the other.
//
// It owns Kafka's KRaft record types and their bytes, the immutable Image, the Delta that records make of an image, and
// the Loader that hands committed deltas to subscribers. It does not own how records are replicated (package quorum),
// nor who decides on them (package controller).
//
// Invariants:
//  1. An Image never changes. Images share structure: a change of one partition copies a handful of tree nodes.
//  2. State changes only by Replay. Replaying an image's own Records on the empty image gives an equal image.
//  3. Every order here is fixed: trees iterate by key, Records emits in Kafka's order, changes come sorted. Two nodes
//     with equal images have equal hashes and write equal snapshots.
//  4. Subscribers see every committed image change once, in one order, from one goroutine.
//
// Goroutines: an Image is safe for any number of readers. A Delta belongs to one goroutine. Loader.Commit and
// Loader.Snapshot are called from one goroutine at a time; Loader.Image from any.
//
// Files: codec.go and record.go (bytes, framing), record_*.go (the record types by subject), level.go (metadata.version
// and what it allows), tree.go (the persistent map), image.go with image_*.go (the image by section), delta.go (replay
// and what changed), diff.go (the delta between two images), snapshot.go (image to records), loader.go (commits to
// subscribers).
//
// Not obvious:
//   - A record's fields have one description for both directions: a walk method that a codec drives to read or to write.
//     The two can not disagree.
//   - Tagged fields that a version does not know are skipped on reading, not kept: an image keeps none of them, so the
//     next snapshot would drop them anyway. A record type or version that is not known is an error, since skipping it
//     would leave a wrong image behind.
//   - Writing at a version that lacks a field drops that field, as Kafka does when it writes under an older
//     metadata.version. Latest picks the version.
package metadata
