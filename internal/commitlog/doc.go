// Package commitlog is one partition's log on disk, in Kafka's own files.
//
// It owns segments and their indexes, leader epochs, the state of idempotent and transactional producers, recovery,
// truncation, retention and compaction, and a bounded set of open descriptors. It does not own which partitions there are, when to
// sync, where recovery points are kept (storage), what the high watermark is (replica), or what a valid batch is (batch).
//
// Files of a log, in the folder topic-partition; N is an offset in 20 digits:
//
//	N.log                    record batches, one after the other; N is the offset of the first
//	N.index                  (relative last offset int32, position int32) of a batch, one about every index.interval.bytes
//	N.timeindex              (largest timestamp so far int64, relative offset int32), at most as many
//	N.txnindex               aborted transactions whose marker lies in the segment; only if there is one
//	N.snapshot               producers at offset N: at the base of a segment, at the recovery point, at a clean end
//	N.sequences              ours: what N.snapshot lacks of the duplicate window, at the recovery point
//	leader-epoch-checkpoint  where each leader epoch begins
//	partition.metadata       the topic's id; written by the owner through WritePartitionMetadata
//	*.deleted                out of the log, removed after file.delete.delay.ms
//
// Invariants:
//  1. A log is batches with growing offsets from the first segment's base to the log end, and no more than the part after
//     the synced end can be lost: what a crash leaves is a prefix, never one with a hole. Segments therefore leave the
//     end of the log one by one, each durably before the next.
//  2. All state follows from the batches: takeLocked is the one way past a batch, for appends and for recovery. So index
//     files made anew equal the old ones byte for byte.
//  3. A readable snapshot file is a promise that log, indexes and epochs below its offset are on disk. Recovery begins at
//     the newest one that is not above the recovery point. A truncation removes those above it first.
//  4. SyncedEnd counts a record only after a sync of its file that began after its write, and of the folder if the file
//     was new. A truncation during a sync makes that sync prove nothing.
//  5. An append either happens as a whole or leaves the log as it was: a failed write is cut off again. If that fails, or
//     a sync, or a truncation, the log has failed until it is opened again, and every call answers KAFKA_STORAGE_ERROR.
//  6. Retention and SetLogStart never pass the deletion bound, and segments go only below the recovery point, so that the
//     producers' state outlives their records.
//  7. Compaction changes only what lies below the recovery point and the last stable offset, and leaves no gap between
//     segments: recovery takes one for a lost end.
//
// Goroutines: none of its own. Writers hold Log.mu, also while they write to the disk, but never while they wait for a
// sync, save the rare ones of an epoch change, a truncation and a clean stop. Readers take no lock of the log: Bounds is
// an immutable look at everything that can be read. Log.reshape comes before Log.mu; whoever takes segments out of the log
// holds it, also across syncs, and no append does. Log.syncing, between the two, is held while
// a sync waits for the disk, and never together with mu. Below Log.mu there are only the locks of a file and of Files, which are
// leaves, held one at a time.
//
// Source files: log.go (type, bounds, close), append.go, roll.go, sync.go, read.go, time.go (lookups by time), segment.go,
// index.go, txn_index.go, epochs.go, producers.go, snapshot.go,
// sequences.go, load.go (Open, leftovers), recover.go, scan.go, summary.go (what a closed log was, for the next Open),
// truncate.go, retain.go, compactable.go (what can be compacted), compact.go (one compaction), compact_map.go (its map of keys),
// compact_txn.go, compact_filter.go (what stays), compact_rewrite.go (new segments), compact_swap.go (their way into the log),
// damage.go (holes), time_check.go and txn_check.go (entries that are not the log's), index_check.go (whole index files), scrub.go (a running
// log), verify.go (a stopped one), files.go (descriptors), reserve.go (space set aside), names.go, config.go.
//
// Not obvious:
//   - Index entries wait in memory and are written in groups, so an append is one write. Until then readers find them in
//     the view, and after a crash recovery makes them again.
//   - The index files of the active segment have their full size, with a hole, because Kafka maps them into memory. After
//     a restart they get it with the next append, so that idle logs cost nothing.
//   - A log file that grows has blocks behind its end, without being longer. They go when the segment is sealed or closed;
//     after a crash they stay, unseen, until then.
//   - Views and Bounds share arrays with the writer, which only appends to them. Whoever shortens an array replaces it.
//   - A Region pins its descriptor, so it outlives retention, eviction and Close.
//   - Damage below the newest readable snapshot is never cut off: it is a hole, which reads answer with CORRUPT_MESSAGE and
//     everything else passes over (damage.go). The CRC of a batch from before the start is looked at when a read begins
//     with it, and by Scrub; in the middle of a region the reader checks it.
//   - Recovery believes what a killed process has left in the kernel's memory, and so brings it to the disk before a recovery point
//     moves; snapshots above the one that it begins at are made anew.
//   - Recovery may be killed too. It makes the names that it found durable before it changes anything: a snapshot whose
//     removal a power cut takes back must not vouch for what recovery has since made anew.
package commitlog
