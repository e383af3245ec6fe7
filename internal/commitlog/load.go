package commitlog

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

// Open opens the log in a folder, or makes it. Unless the last stop was clean it reads and verifies the log from about
// the recovery point on, cuts it before the first batch that is not whole, makes missing indexes and the producers' state
// anew, and syncs what it has read: recovered is not yet durable.
func Open(o Options) (*Log, Recovery, error) {
	l := &Log{
		fs: o.FS, files: o.Files, tp: o.TP, now: o.Now, logger: o.Logger, expiryMs: o.ProducerExpiryMs,
		dir: o.Dir, newFolder: o.NewFolder, ownerStores: o.StoresRecoveryPoint, stored: o.RecoveryPoint,
	}
	if l.logger == nil {
		l.logger = slog.New(slog.DiscardHandler)
	}
	l.logger = l.logger.With("partition", o.TP.String())
	l.config.Store(new(o.Config.valid()))
	started := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	r := &recovery{Log: l, clean: o.Clean}
	err := r.load(o)
	r.report.Took = l.now().Sub(started)
	if err != nil {
		r.giveUp()
		return nil, r.report, fmt.Errorf("open log %s: %w", l.tp, err)
	}
	return l, r.report, nil
}

// recovery is the work of Open. Log.mu is held all the time.
type recovery struct {
	*Log
	report   Recovery
	segments []*found
	next     int  // of segments: the one that the scan begins in
	touched  bool // something on disk was repaired
	clean    bool // the last stop closed the log
	// solid is the offset of the newest readable snapshot that is trusted: all below it was on disk when it was written.
	solid          kafka.Offset
	solidProducers producers
}

// found is a segment as its files' names and sizes tell it.
type found struct {
	base              kafka.Offset
	log, index, time  int64 // bytes
	txn               int64
	hasIndex, hasTime bool
	hasTxn            bool
}

func (r *recovery) load(o Options) error {
	entries, err := r.fs.List(r.dir)
	if o.Summary != nil && (err == nil || notExist(err)) {
		return r.resume(o, entries)
	}
	if notExist(err) {
		err = r.fs.MkdirAll(r.dir)
	}
	if err != nil {
		return err
	}
	if err := r.sweep(entries); err != nil {
		return err
	}
	if r.touched {
		if entries, err = r.fs.List(r.dir); err != nil {
			return err
		}
	}
	if err := r.inventory(entries); err != nil {
		return err
	}
	if len(r.segments) == 0 {
		return r.begin(max(0, o.LogStart))
	}
	r.namesFound = !o.NamesDurable // a crash may have come between the making of the last of them and its SyncDir
	trusted := o.RecoveryPoint
	if o.Clean {
		trusted = math.MaxInt64
	}
	epochs, err := r.readEpochs()
	if err != nil {
		return err
	}
	from, err := r.start(trusted)
	if err == nil {
		// Of those above a crash may have left less than all, or a power cut may do so yet. The next recovery point writes them anew.
		err = r.removeSnapshotsLocked(func(offset kafka.Offset) bool { return offset > from })
	}
	if err != nil {
		return err
	}
	if !o.NamesDurable && !o.Clean {
		for _, offset := range r.snapshots {
			r.standsOn = append(r.standsOn, r.snapshotPath(offset))
		}
		for _, offset := range r.sequences {
			r.standsOn = append(r.standsOn, r.sequencesPath(offset))
		}
	}
	if good, err := r.epochsBelong(epochs, from); err != nil {
		return err
	} else if !good {
		r.logger.Warn("leader epoch checkpoint is not this log's, the log takes its place")
		epochs = nil
	}
	if epochs == nil && from > r.segments[0].base {
		// Epochs below the recovery point are only in the lost file and in the batches.
		if epochs, err = r.findEpochs(from); err != nil {
			return err
		}
		r.epochsDirty = true
	}
	r.epochs = epochs.cutEnd(from)
	if err := r.scan(from); err != nil {
		return err
	}
	return r.finish(o, epochs)
}

// giveUp lets go of the files after a failed open.
func (r *recovery) giveUp() {
	for i := range r.sealed {
		_ = r.sealed[i].close()
	}
	if r.active != nil {
		_ = r.active.close()
	}
}

// begin makes the first segment of a log that has none.
func (r *recovery) begin(at kafka.Offset) error {
	if err := r.removeSnapshotsLocked(func(kafka.Offset) bool { return true }); err != nil {
		return err
	}
	r.active = r.newActive(at)
	if err := r.create(r.active); err != nil {
		return err
	}
	if err := r.noEpochs(); err != nil {
		return err
	}
	r.logStart, r.logEnd, r.syncedEnd, r.recoveryPoint = at, at, at, at
	r.report.From = at
	r.names++
	r.publishLocked()
	return nil
}

// noEpochs makes an empty leader-epoch-checkpoint, which Apache Kafka has from the first moment on. Should a crash leave
// less than this of it, it is made anew from the batches.
func (r *recovery) noEpochs() error {
	f, err := r.fs.Open(filepath.Join(r.dir, epochsName), vfs.Create|vfs.Truncate)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(epochs(nil).encode(), 0)
	return errors.Join(err, f.Close())
}

// sweep removes what an interrupted deletion, compaction or checkpoint has left, and ends an interrupted swap of
// compacted segments. Mirrors LogLoader.removeTempFilesAndCollectSwapFiles.
func (r *recovery) sweep(entries []vfs.Entry) error {
	// Compaction writes .cleaned files, renames all of them to .swap, the old ones to .deleted, and drops the suffix. So
	// as long as a .cleaned file is there, the .swap files from its offset on are not a whole set.
	incomplete := kafka.Offset(math.MaxInt64)
	for _, e := range entries {
		if offset, suffix, ok := parseName(e.Name); ok && strings.HasSuffix(suffix, cleanedSuffix) {
			incomplete = min(incomplete, offset)
		}
	}
	var swaps []kafka.Offset
	for _, e := range entries {
		offset, suffix, ok := parseName(e.Name)
		switch {
		case e.Dir:
		case strings.HasSuffix(e.Name, tmpSuffix):
			// Nobody reads it, so that it may come back when the power fails: no sync is for its sake.
			if err := r.fs.Remove(filepath.Join(r.dir, e.Name)); err != nil {
				return err
			}
		case strings.HasSuffix(e.Name, deletedSuffix), strings.HasSuffix(e.Name, cleanedSuffix),
			ok && strings.HasSuffix(suffix, swapSuffix) && offset >= incomplete:
			if err := r.fs.Remove(filepath.Join(r.dir, e.Name)); err != nil {
				return err
			}
			r.touched = true
		case ok && suffix == logSuffix+swapSuffix:
			swaps = append(swaps, offset)
		}
	}
	for _, base := range swaps {
		if err := r.finishSwap(base, entries); err != nil {
			return err
		}
	}
	for _, e := range entries {
		if offset, suffix, ok := parseName(e.Name); ok && strings.HasSuffix(suffix, swapSuffix) && offset < incomplete {
			// Index files of a swap. Those whose log had lost the suffix already belong to it too.
			to := filepath.Join(r.dir, strings.TrimSuffix(e.Name, swapSuffix))
			if err := r.fs.Rename(filepath.Join(r.dir, e.Name), to); err != nil && !notExist(err) {
				return err
			}
			r.touched = true
		}
	}
	return nil
}

// finishSwap puts a compacted segment in the place of those whose offsets it covers.
func (r *recovery) finishSwap(base kafka.Offset, entries []vfs.Entry) error {
	swap := filepath.Join(r.dir, fileName(base, logSuffix+swapSuffix))
	size, err := r.fs.Stat(swap)
	if err != nil {
		return err
	}
	s := r.segment(base)
	s.log = r.files.file(swap)
	v := viewOf(s, size.Size, math.MaxInt64, 0, 0, 0)
	end := base
	w := r.files.window()
	err = v.walk(w, 0, func(h batch.Batch, _, _ int64) (bool, error) {
		end = h.NextOffset()
		return true, nil
	})
	r.files.release(w)
	if err = errors.Join(err, s.log.close()); err != nil {
		return fmt.Errorf("compacted segment: %w", err)
	}
	for _, e := range entries {
		offset, suffix, ok := parseName(e.Name)
		if !ok || offset < base || offset >= end {
			continue
		}
		switch suffix {
		case logSuffix, indexSuffix, timeIndexSuffix, txnIndexSuffix:
			if err := r.fs.Remove(filepath.Join(r.dir, e.Name)); err != nil {
				return err
			}
		}
	}
	r.touched = true
	// Should the power fail now, none of them may come back beside the one that takes their place.
	if err := r.fs.SyncDir(r.dir); err != nil {
		return err
	}
	if err := r.fs.Rename(swap, filepath.Join(r.dir, fileName(base, logSuffix))); err != nil {
		return err
	}
	// And while the log file has the suffix, its other files are taken for the old ones.
	return r.fs.SyncDir(r.dir)
}

// inventory lists segments and snapshots, and removes index files without a log file.
func (r *recovery) inventory(entries []vfs.Entry) error {
	byBase := make(map[kafka.Offset]*found)
	for _, e := range entries {
		if offset, suffix, ok := parseName(e.Name); ok && suffix == logSuffix {
			f := &found{base: offset, log: e.Size}
			byBase[offset] = f
			r.segments = append(r.segments, f) // List sorts by name, which is by offset
		}
	}
	for _, e := range entries {
		offset, suffix, ok := parseName(e.Name)
		if !ok {
			continue
		}
		f := byBase[offset]
		switch suffix {
		case snapshotSuffix:
			r.snapshots = append(r.snapshots, offset)
			continue
		case sequencesSuffix:
			r.sequences = append(r.sequences, offset)
			continue
		case indexSuffix, timeIndexSuffix, txnIndexSuffix:
		default:
			continue
		}
		switch {
		case f == nil:
			if err := r.fs.Remove(filepath.Join(r.dir, e.Name)); err != nil {
				return err
			}
			r.touched = true
		case suffix == indexSuffix:
			f.index, f.hasIndex = e.Size, true
		case suffix == timeIndexSuffix:
			f.time, f.hasTime = e.Size, true
		default:
			f.txn, f.hasTxn = e.Size, true
		}
	}
	return nil
}

// readEpochs returns the checkpointed epochs, or nil if there is no file that can be read.
func (r *recovery) readEpochs() (epochs, error) {
	path := filepath.Join(r.dir, epochsName)
	text, err := vfs.ReadFile(r.fs, path)
	if notExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	e, err := parseEpochs(text)
	if err != nil {
		r.logger.Warn("leader epoch checkpoint cannot be read, the log takes its place", "file", path, "err", err)
		r.epochsDirty = true
		return nil, nil
	}
	return slices.Clip(append(epochs{}, e...)), nil
}

// epochsBelong tells whether the last epoch that begins below an offset does so in the log too.
func (r *recovery) epochsBelong(e epochs, below kafka.Offset) (bool, error) {
	e = e.cutEnd(below)
	if len(e) == 0 {
		return true, nil
	}
	last := e[len(e)-1]
	w := r.files.window()
	defer r.files.release(w)
	views := append(slices.Clone(r.sealed), r.active.view)
	i := len(views) - 1
	for i > 0 && views[i].base > last.start {
		i--
	}
	v := &views[i]
	p, found, err := v.locateAny(w, max(last.start, v.base))
	if err != nil || !found || v.knownAt(p.pos) || p.next > below {
		return err == nil, err
	}
	f, err := v.log.pin()
	if err != nil {
		return false, err
	}
	defer v.log.unpin()
	h, _, err := v.headerAt(w.of(f), p.pos)
	return err == nil && h.LeaderEpoch() == last.epoch, err
}

// findEpochs reads the epochs of all batches below an offset.
func (r *recovery) findEpochs(below kafka.Offset) (epochs, error) {
	e := epochs{}
	w := r.files.window()
	defer r.files.release(w)
	for _, f := range r.segments {
		if f.base >= below {
			break
		}
		v := viewOf(r.segment(f.base), f.log, math.MaxInt64, 0, 0, 0)
		err := v.walk(w, 0, func(h batch.Batch, _, _ int64) (bool, error) {
			e = e.assign(h.LeaderEpoch(), h.BaseOffset())
			return h.NextOffset() < below, nil
		})
		if err = errors.Join(err, v.close()); err != nil {
			return nil, err
		}
	}
	return e, nil
}

func ignoreCorrupt(err error) error {
	if errors.Is(err, batch.ErrCorrupt) {
		return nil
	}
	return err
}
