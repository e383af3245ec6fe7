// Package vfs is the filesystem seam: everything that moldau does to a disk goes through FS and File.
//
// It owns the operating system's implementation (OS), a sparse memory disk that can crash (Mem), a wrapper that injects
// errors (Inject) and one that logs every operation (Log). It does not know what the files mean.
//
// Invariants:
//  1. Data written is durable after SyncData or Sync of that file, and a name is durable after SyncDir of its folder
//     (or SyncFS of anything on the same filesystem). Nothing else makes anything durable.
//  2. A File may be used by many goroutines at once: reads, writes and syncs of one file run side by side.
//  3. An error is returned, never logged, and carries operation and path (*fs.PathError, *os.LinkError).
//
// Goroutines: FS and File are safe for concurrent use. No goroutine is started here.
//
// Not obvious:
//   - There is no mmap and no shared file position: all reads and writes name their offset.
//   - After a failed sync the state of the data is unknown and the call must never be repeated in the hope of success:
//     the kernel marks pages clean when it reports the error.
package vfs
