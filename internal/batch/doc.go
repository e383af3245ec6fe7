// Package batch is one record batch of Kafka's format 2, as a view over its bytes.
//
// It owns the layout of a batch: the header in place, its checksum, what a broker must verify of a produced batch, the
// walk over its records, the five codecs, building a batch, Kafka's control records, and the way from message sets of formats
// 0 and 1 to a batch and back. It does not own where a batch
// lies (commitlog), who may append it (replica), or producer sequences across batches (commitlog).
//
// Invariants:
//  1. A Batch has at least HeaderSize bytes, and its length field equals its length. Next makes only such values; the
//     accessors rely on it and check nothing.
//  2. Records are re-encoded only by Recompress, for topics that say so, and from or for a client that does not know format 2.
//     Assign, SetAppendTime and SetCreateTime change header fields in place, and only the
//     last two touch bytes that the CRC covers.
//  3. Nothing here allocates more than a fixed multiple of bytes that really arrived, save decompression, and that stops
//     at a limit.
//
// Goroutines: a Batch is bytes; the caller keeps writers and readers apart. There is no other state, and no codec starts
// a goroutine.
//
// Files: view.go (header accessors, Next), check.go (what a broker must verify), assign.go (offsets, epoch, timestamps),
// record.go (the walk), build.go (making a batch), compress.go (codecs), recompress.go (compression.type), control.go and
// control_quorum.go (control records), message.go (messages of formats 0 and 1), message_up.go and message_down.go (from them and
// to them), packers.go (what compresses and decompresses, used again), block_writer.go (streams of packed blocks), lz4_frame.go
// (frames of LZ4, and the checksum that Kafka got wrong in format 0).
//
// Not obvious:
//   - Base offset and leader epoch lie outside the CRC, so the leader can assign them without touching the rest.
//   - The timestamp of every record of a batch with log append time is the header's MaxTimestamp; the deltas inside stay
//     what the producer wrote.
//   - A record of format 2 is never longer than the message that it was, so that a compressed set is rewritten in the memory
//     that it was opened into. The other way it is up to five times longer, and goes to the compressor as it is made.
//   - Snappy comes in two framings: plain, and that of the xerial Java library. Both are read, the second is written.
package batch
