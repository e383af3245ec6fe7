package commitlog

import (
	"errors"
	"path/filepath"
	"slices"
)

// swap puts a new segment in the place of a group. The steps, each durable before the next, and what recovery makes of a
// crash after it: the new files are there as .cleaned (it removes them); as .swap (from here on it goes on with the
// swap); the old ones are .deleted; the new log file has its name; the other new files have theirs.
func (c *compaction) swap(group []view, a *active) error {
	l := c.l
	l.reshape.Lock()
	defer l.reshape.Unlock()
	if err := c.offer(group, a); err != nil {
		return err
	}
	if err := c.replace(group, a); err != nil {
		return err
	}
	if err := l.fs.SyncDir(c.dir); err != nil {
		return l.fail(err)
	}
	if err := c.rename(a.log, logSuffix); err != nil {
		return l.fail(err)
	}
	if err := l.fs.SyncDir(c.dir); err != nil {
		return l.fail(err)
	}
	var errs []error
	c.files(a, func(f *file, suffix string) {
		if suffix != logSuffix {
			errs = append(errs, c.rename(f, suffix))
		}
	})
	if err := errors.Join(errs...); err != nil {
		return l.fail(err)
	}
	l.mu.Lock()
	l.names++ // the next sync makes these durable; until then recovery knows them by both names
	l.mu.Unlock()
	return nil
}

// files calls f for the files that the new segment has.
func (c *compaction) files(a *active, f func(f *file, suffix string)) {
	a.each(func(file *file, suffix string) {
		if suffix != txnIndexSuffix || a.aborted > 0 {
			f(file, suffix)
		}
	})
}

// rename gives a file of the new segment the name with this suffix.
func (c *compaction) rename(f *file, suffix string) error {
	base, _, _ := parseName(filepath.Base(f.name()))
	return f.rename(filepath.Join(c.dir, fileName(base, suffix)))
}

// offer makes the new files ones that recovery would put in the group's place. If the group is no longer there, or on an
// error, they are gone when it returns.
func (c *compaction) offer(group []view, a *active) error {
	l := c.l
	discard := func(cause error) error {
		r := &rewrite{c: c, a: a}
		return errors.Join(cause, r.discard())
	}
	l.mu.Lock()
	err := l.usableLocked()
	if err == nil && c.placeLocked(group) < 0 {
		err = ErrCompactionMoot
	}
	l.mu.Unlock()
	if err != nil {
		return discard(err)
	}
	if err := l.fs.SyncDir(c.dir); err != nil {
		return l.fail(err)
	}
	var errs []error
	c.files(a, func(f *file, suffix string) {
		if len(errs) == 0 {
			if err := c.rename(f, suffix+swapSuffix); err != nil {
				errs = append(errs, err)
			}
		}
	})
	if len(errs) > 0 {
		// What goes first is what makes recovery look at the others. It must not come back when the group has changed.
		err := discard(errs[0])
		if err := l.fs.SyncDir(c.dir); err != nil {
			return l.fail(err)
		}
		return err
	}
	if err := l.fs.SyncDir(c.dir); err != nil {
		return l.fail(err)
	}
	return nil
}

// placeLocked returns where the group begins in the log, -1 if it is not as it was.
func (c *compaction) placeLocked(group []view) int {
	sealed := c.l.sealed
	at := slices.IndexFunc(sealed, func(v view) bool { return v.segment == group[0].segment })
	if at < 0 || at+len(group) > len(sealed) {
		return -1
	}
	for i := range group {
		if sealed[at+i].segment != group[i].segment {
			return -1
		}
	}
	return at
}

// replace lets readers see the new segment, and renames the old ones' files. Nobody else can have changed the group. Appends go on
// while it renames, which is much for a group of many small segments.
func (c *compaction) replace(group []view, a *active) error {
	old, err := c.install(group, a)
	if err != nil {
		return err
	}
	l := c.l
	renamed, err := renameDeleted(old)
	if err != nil {
		return l.fail(err)
	}
	if a.aborted == 0 {
		a.txns.expectAt(filepath.Join(c.dir, fileName(a.base, txnIndexSuffix))) // which until now was an old one's
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.names++
	l.removeLaterLocked(renamed)
	return nil
}

// install puts the new segment into the log, and returns the files that have left it.
func (c *compaction) install(group []view, a *active) (old []*file, err error) {
	l := c.l
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usableLocked(); err != nil {
		return nil, errors.Join(err, a.close()) // a crash at this point would be no other
	}
	at := c.placeLocked(group)
	l.sealed = slices.Replace(slices.Clone(l.sealed), at, at+len(group), a.view)
	l.publishLocked()
	for i := range group {
		if err := group[i].close(); err != nil { // readers that looked at the log before look again
			return nil, l.fail(err)
		}
		old = append(old, group[i].files(group[i].aborted > 0)...)
		if i > 0 {
			old = append(old, l.forgetSnapshotLocked(group[i].base)...) // no segment begins there any more
		}
	}
	return old, nil
}
