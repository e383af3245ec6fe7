// Package crash ends the built binary as the world does, by kill -9 and by cutting the power of its disk, while genuine
// clients write, and compares what is left with what they were told.
//
// It owns the load, the ledger of what clients were told, and the checks. It does not own processes and the disk whose power
// can be cut (harness: a loop-mounted ext4 that is shut down without flushing its log and mounted again), nor the enumeration of crashes on a disk in memory, which lies beside the code of commitlog, storage and quorum.
//
// Invariants:
//  1. What a client was told is in the ledger before the next thing is done on the strength of it.
//  2. A round in which nothing was acked is void, not passed.
//  3. Mounts are made in a mount namespace of the test process, and loop devices are freed with their last mount: both
//     are gone when the process is, however it ends.
//
// Goroutines: a load's writers and its reader; they are waited for before the ledger is compared.
//
// Not obvious:
//   - kill -9 keeps the page cache, so it says nothing about syncs; only the power cuts do.
//   - The loop device's own file keeps what it was given: a missing flush of a disk's write cache is not seen here.
//   - A real power cut stops the process with the disk. The shutdown of a filesystem does not, and a sync that was under
//     way then may report success for data that is lost: Linux does not pass on that it could not convert the extents. So
//     the process is stopped first. Where it is to go on, on a disk that answers EIO, what it acks is not counted.
//   - Known failures of this family of systems are tried here and beside the code: damaged or absent side files
//     (commitlog.TestDamagedSideFiles, storage.TestDamagedFiles, compat.TestDamagedFiles; KAFKA-1758, -2012, -13603, -19407);
//     offsets after a hard crash (commitlog.TestCrashEverywhere; KAFKA-3047, -6388, -6492, -10101); a folder that is not
//     synced (commitlog.TestPlantedBugs "names are not synced", TestPowerCut; KAFKA-3968, -1539); an index that fails
//     between (commitlog.TestErrorEverywhere; KAFKA-7866); deletion beyond the watermark (commitlog.TestRetention;
//     KAFKA-5634); a full disk (commitlog.TestFullDisk, compat, TestDiskFillsAgainAndAgain); a sync that fails, then succeeds
//     (commitlog.TestFailedSyncIsForGood, TestRecoveryAfterFailedSync, TestPlantedBugs "a failed sync is tried again",
//     TestPowerCut); one flipped bit (commitlog.TestDamagedBatch, storage.TestOneFlippedBit,
//     compat.TestDamagedBatch); folders that a move between directories leaves (storage.TestMoveCrashEverywhere; KAFKA-16424, -13127).
//   - MOLDAU_EFFORT sets the number of cuts and kills: 4 and 4 by default, 10 and 20 for "ci", 40 and 200 for "night"; and how often a
//     disk is filled: 4, 20 and 20 times.
//   - Disks that fill up, answer EIO or stall are here too (disk_test.go): they take the same loop-mounted filesystems.
package crash
