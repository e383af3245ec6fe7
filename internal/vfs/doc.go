// Package vfs is the filesystem seam: everything that moldau does to a disk goes through FS and File.
//
// It owns the operating system's implementation (OS), a sparse memory disk that can lose power (Mem), a wrapper that
// injects errors and lets a simulation park operations (Inject), one that writes down every operation (Log), and three
// functions for whole files. It does not know what the files mean.
//
// Invariants:
//  1. Data written is durable after SyncData or Sync of that file, and a name is durable after SyncDir of its folder
//     (or Disk.Sync of the filesystem that it is on). Nothing else makes anything durable. In particular a file's sync
//     does not keep its name, nor a folder's sync the folder's own.
//  2. A rename is seen, and survives a crash, whole or not at all.
//  3. A File may be used by many goroutines at once: reads, writes and syncs of one file run side by side.
//  4. An error is returned, never logged, and carries operation and path (*fs.PathError, *os.LinkError).
//
// Goroutines: FS and File are safe for concurrent use. No goroutine is started here, and no lock is held while a hook,
// a clock or a writer that SendTo was given runs; so sync.Mutex serves, and no simulation can hang on it.
//
// Files: vfs.go (the seam), files.go (whole files), send.go (the copying SendTo), os*.go (OS), mem.go (Mem's tree),
// mem_names.go (which names are durable), mem_file.go (content), mem_crash.go (kill and power cut), op.go and around.go
// (one operation as a value, the wrapper of everything), inject.go, gate.go, log.go.
//
// Not obvious:
//   - There is no mmap and no shared file position: all reads and writes name their offset.
//   - After a failed sync the state of the data is unknown and the call must never be repeated in the hope of success:
//     the kernel marks pages clean when it reports the error. Mem under Inject behaves so.
//   - StartSync makes nothing durable, and an error of it is a failed sync: it may be the only one to tell.
//   - A Disk is to be opened at the start: the kernel tells a failed write-back only to descriptors that were open then.
//   - sendfile passes on the page cache itself: bytes that are overwritten or cut while they are on their way may arrive
//     changed. Only what can no longer change, or what the receiver checks (a CRC), may be sent.
//   - A test that uses only KillClone proves nothing about syncs; one that uses only CrashClone with keep 0 or 1 misses
//     the mixtures, such as an index that survived the data it points to.
package vfs
