package fetcher

// kind is one of the lists that a follower can be in.
type kind int

const (
	naming  kind = iota // loop.named
	syncing             // loop.syncing
	slow                // loop.slow
	resting             // a rest's
	kinds
)

// list is followers, of which any can leave without a search: all that a leader leads may have to at once. A follower is in one list
// of a kind at most.
type list struct {
	kind kind
	all  []*follower // in no order that means anything
}

func (l *list) len() int { return len(l.all) }

// add puts a follower in, unless it is.
func (l *list) add(f *follower) {
	if place := &f.places[l.kind]; *place == 0 {
		l.all = append(l.all, f)
		*place = len(l.all)
	}
}

// remove takes a follower out, if it is in.
func (l *list) remove(f *follower) {
	place := f.places[l.kind]
	if place == 0 {
		return
	}
	last := len(l.all) - 1
	moved := l.all[last]
	l.all[place-1], l.all[last] = moved, nil
	moved.places[l.kind], f.places[l.kind] = place, 0 // in this order: they may be the same
	l.all = l.all[:last]
}

// sorted puts the list in order, and returns what is in it.
func (l *list) sorted() []*follower {
	for i, f := range sorted(l.all) {
		f.places[l.kind] = i + 1
	}
	return l.all
}

// clear takes out all.
func (l *list) clear() {
	for _, f := range l.all {
		f.places[l.kind] = 0
	}
	clear(l.all)
	l.all = l.all[:0]
}

// removeIf takes out those of which done is true.
func (l *list) removeIf(done func(*follower) bool) {
	for i := len(l.all) - 1; i >= 0; i-- {
		if f := l.all[i]; done(f) {
			l.remove(f)
		}
	}
}
