// Package storage is all logs of a node: which directories they lie in, which partitions lie where, and the work that
// nobody waits for or that many wait for together.
//
// It owns the log directories (meta.properties, .lock, .kafka_cleanshutdown, moldau.closed, moldau.reserve), the side journal and
// Kafka's text checkpoints, group commit, background retention and compaction, delayed deletion of folders, the watch over free space,
// and the failure of a directory. It does not own a log's files (commitlog), the metadata log (quorum), or who leads a
// partition and when a record counts (replica).
//
// Invariants:
//  1. A directory that failed once is offline until the process ends: every append and open in it answers
//     KAFKA_STORAGE_ERROR, every log's owner is told once, and nothing more is written there. A full disk is no failure.
//  2. A log is reported synced only after a sync that began when the bytes were written has returned without error. A
//     failed sync is never tried again, nor is one that failed to start.
//  3. .kafka_cleanshutdown is durable only while every log of its directory is closed, synced and needs no recovery, and
//     is durably gone before any log is opened.
//  4. A recovery point in the journal or in a checkpoint file is never above what is durable, and is lowered durably
//     before a log is cut below it.
//  5. A log start that DeleteRecords was told of is in the journal, durably.
//  6. The journal's state is made only by applying its entries; older news of a partition never follow newer.
//  7. A folder is an open log's, a known closed one's, or named -delete, -stray or -future. It is never two logs'. The folder that
//     a moving partition is copied to gets its name when all is on disk, and nothing is appended before the old one has lost it.
//  8. What an unclean start has to read never exceeds Options.RecoveryBytes per directory, however many logs there are: appends
//     wait rather than that. A snapshot stays until the journal knows a later recovery point.
//  9. What recovery has read counts as synced only after a sync that began later.
//  10. What moldau.closed says of a log is believed only at the start after the clean stop that wrote it, and only of a folder in
//     which no file has changed since.
//
// Goroutines: per directory one syncer, one keeper (journal, checkpoints, space), one for retention and removal, one that looks for
// damage, and one that picks what to compact and starts as many jobs as there are threads, all directories together: a disk that
// stalls holds up no other. Besides,
// jobs of Run, a goroutine each at most Options.RecoveryThreads per directory at a time; those that make a partition, whose directory
// is only found by them, share what all directories have, and count no longer once theirs has stalled. All are started by Start or Run
// and waited for by Stop. Everything exported is safe for concurrent use, except what says otherwise.
//
// Files: moldau.journal and moldau.closed are described in docs/format. recovery-point-offset-checkpoint,
// replication-offset-checkpoint and log-start-offset-checkpoint are Kafka's, written on clean stop and at most once per
// CheckpointInterval when something changed.
//
// Locks: keeper.telling (from reading a log's state until the journal has it) or Log.use (shared by background work in a
// folder, exclusive to rename it) comes first, never both; under it one of journal.mu, the commitlog's own, or the short
// ones: Store.mu, keeper.mu, syncer.mu, retention.mu, cleaner.mu, pacer.mu, cleaned.mu, workers.mu, space.mu, none of which
// is held with another. telling, use, journal.mu, cleaned.mu and space.mu are held across disk operations.
//
// Not obvious:
//   - Options.Apart is the metadata log's directory where that is none of log.dirs: it has a lock and an identity like the
//     others, and nothing else here concerns it. Its failure is the quorum's to see.
//   - The journal knows the fingerprints of the checkpoint files we wrote. One with another content means that Apache
//     Kafka has run here since, which knows nothing of the journal: then the checkpoint files are believed instead.
//   - Anything lost from the journal's end makes the next start do more, not wrong: recovery points only save scanning,
//     and topic ids are also in partition.metadata. So an unreadable journal is no reason not to start.
//   - A sync of a whole filesystem that takes too long is left to itself, and the logs are synced one by one; its failure
//     fails the directory all the same.
//   - A new partition's folder is durable with the first sync of its log. Until then a power cut may leave a part of it.
//   - The syncer works as eagerly as somebody waits: AppendDone alone means some milliseconds, Hurry means now. Whoever
//     forgets to hurry waits a little; nobody waits for ever.
//   - Logs that grow set space aside, which makes their syncs cheaper. It counts as used; space gives it back before it
//     says that the disk is full.
//   - At an unclean start what the process before has left is synced while the metadata are replayed. A log that is opened before that
//     is done, which is rare, makes durable by itself what it stands on.
//   - A directory that was unclean at the start and in which some folder was never opened gets no clean mark, whatever
//     the stop was like: nobody has recovered that folder.
//   - time.Duration timers pace the background, Options.Now only judges ages and measures: in a simulation both are fake.
package storage
