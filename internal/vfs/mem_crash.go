package vfs

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// KillClone returns the disk as a killed process leaves it: everything that programs saw is there, nothing more is
// durable than before, no file is open and no lock is held. What happens to m later does not change the clone.
func (m *Mem) KillClone() *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	clone := NewMem()
	clone.now, clone.capacity, clone.changes = m.now, m.capacity, m.changes
	copied := map[*node]*node{}
	clone.root = m.root.clone(copied)
	for _, c := range m.unsynced {
		c.node, c.gone = c.node.clone(copied), c.gone.clone(copied)
		c.from.dir, c.to.dir = c.from.dir.clone(copied), c.to.dir.clone(copied)
		waits := make([]*node, len(c.waits))
		for i, dir := range c.waits {
			waits[i] = dir.clone(copied)
		}
		c.waits = waits
		clone.unsynced = append(clone.unsynced, c)
	}
	for n := range m.dirty {
		if n = copied[n]; n != nil {
			clone.dirty[n] = struct{}{}
		}
	}
	for _, n := range copied {
		if n.linked {
			clone.used += n.charged * pageBytes
		}
	}
	return clone
}

// clone copies a node and all below it, once.
func (n *node) clone(copied map[*node]*node) *node {
	if n == nil {
		return nil
	}
	if c := copied[n]; c != nil {
		return c
	}
	c := &node{modTime: n.modTime, changed: n.changed, body: n.body, linked: n.linked}
	copied[n] = c
	if n.isDir() {
		c.names, c.kept = cloneNames(n.names, copied), cloneNames(n.kept, copied)
		return c
	}
	c.disk.pages = maps.Clone(n.disk.pages)
	c.cache.pages = maps.Clone(n.cache.pages)
	c.dirty = maps.Clone(n.dirty)
	for i := range c.dirty { // the other pages never change
		p := *c.cache.pages[i]
		c.cache.pages[i] = &p
	}
	return c
}

func cloneNames(names map[string]*node, copied map[*node]*node) map[string]*node {
	c := make(map[string]*node, len(names))
	for name, n := range names {
		c[name] = n.clone(copied)
	}
	return c
}

// CrashClone returns the disk as a power cut could leave it now; m goes on undisturbed. What was synced is there. Of the
// rest, keep is the chance of each thing to have reached the disk: 0 leaves exactly what was synced, 1 all that programs
// saw. In between
//   - name changes survive in one of two ways, as filesystems differ: a prefix of them in the order in which they were
//     made, or each by itself, as long as those it rests on survive;
//   - a file loses all its unsynced data, keeps all, or every 512-byte sector is kept, lost or torn for itself;
//   - an unsynced truncation or growth happened or not; growth also in part, with zeros where data is lost.
//
// The same rng state on a disk with the same history gives the same clone.
func (m *Mem) CrashClone(rng *rand.Rand, keep float64) *Mem {
	clone := m.KillClone()
	dice := dice{rng: rng, keep: keep}
	clone.loseNames(dice)
	clone.used = 0
	clone.loseData(clone.root, dice)
	clear(clone.dirty)
	return clone
}

type dice struct {
	rng  *rand.Rand
	keep float64
}

// kept says whether one thing has survived.
func (d dice) kept() bool { return d.rng.Float64() < d.keep }

// mixed says whether some things survive and others do not.
func (d dice) mixed() bool { return d.keep > 0 && d.keep < 1 }

// loseNames decides about the unsynced name changes and makes the survivors durable.
func (m *Mem) loseNames(d dice) {
	survives := func(int) bool { return d.kept() }
	if d.mixed() && d.rng.IntN(2) == 0 {
		prefix := d.rng.IntN(len(m.unsynced) + 1)
		survives = func(i int) bool { return i < prefix }
	}
	lost := newTouched()
	for i, c := range m.unsynced {
		if survives(i) && !lost.slot(c) && !(c.gone != nil && lost.dirs[c.gone]) {
			c.keep()
			continue
		}
		lost.addSlots(c)
		lost.dirs[c.from.dir], lost.dirs[c.to.dir] = true, true
	}
	m.unsynced = nil
}

// loseData gives everything below a folder the state in which the power came back: what is durable is all there is. It
// walks in the order of names, so that the dice fall the same way each time.
func (m *Mem) loseData(dir *node, d dice) {
	dir.linked = true
	dir.names = maps.Clone(dir.kept)
	for _, name := range slices.Sorted(maps.Keys(dir.names)) {
		n := dir.names[name]
		if n.isDir() {
			m.loseData(n, d)
			continue
		}
		n.disk = n.survivor(d)
		n.cache = image{n.disk.size, maps.Clone(n.disk.pages)}
		n.cut, n.dirty, n.linked, n.charged = n.disk.size, nil, true, 0
		n.reserved = min(n.reserved, pagesFor(n.disk.size))
		m.chargeLocked(n)
	}
}

// survivor returns what the disk holds of a file after a power cut.
func (b *body) survivor(d dice) image {
	if d.mixed() {
		switch d.rng.IntN(4) {
		case 0:
			d.keep = 0
		case 1:
			d.keep = 1
		}
	}
	left := image{b.disk.size, maps.Clone(b.disk.pages)}
	if left.pages == nil {
		left.pages = map[int64]*page{}
	}
	reached := b.cache.size // writes at or behind it went to space that nothing refers to
	if b.cut < b.disk.size && !d.kept() {
		reached = min(reached, pagesFor(b.cut)*pageBytes) // and what grew after the lost cut is lost with it
	} else {
		left.cutTo(min(b.cut, left.size))
		if b.cache.size > left.size {
			left.size += d.growth(b.cache.size - left.size)
		}
	}
	for _, i := range slices.Sorted(maps.Keys(b.dirty)) {
		if i*pageBytes < reached {
			left.mix(i, b.cache.pages[i], b.dirty[i], d)
		}
	}
	left.cutTo(left.size)
	return left
}

// growth returns how much of a growth by n bytes has survived.
func (d dice) growth(n int64) int64 {
	switch {
	case d.kept():
		return n
	case d.mixed() && d.rng.IntN(2) == 0:
		return d.rng.Int64N(n)
	}
	return 0
}

// mix writes the surviving sectors of a dirty page.
func (i *image) mix(index int64, dirty *page, written uint8, d dice) {
	p := new(page)
	if old := i.pages[index]; old != nil {
		*p = *old
	}
	for s := range int64(pageBytes / sectorBytes) {
		if written&(1<<s) == 0 {
			continue
		}
		n := int64(0)
		switch {
		case d.mixed() && d.rng.IntN(16) == 0:
			n = d.rng.Int64N(sectorBytes) // torn: the old end shows
		case d.kept():
			n = sectorBytes
		}
		copy(p[s*sectorBytes:], dirty[s*sectorBytes:s*sectorBytes+n])
	}
	i.pages[index] = p
}

// cutTo sets the size to n, not above the present one, and drops what lies behind.
func (i *image) cutTo(n int64) {
	end := pagesFor(n)
	for index := range i.pages {
		if index >= end {
			delete(i.pages, index)
		}
	}
	if from := n % pageBytes; from > 0 && i.pages[end-1] != nil {
		p := *i.pages[end-1]
		clear(p[from:])
		i.pages[end-1] = &p
	}
	i.size = n
}
