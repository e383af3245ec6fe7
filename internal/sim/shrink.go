package sim

import "slices"

// mostTries is how many runs the search for a smaller one may take.
const mostTries = 80

// shrink looks for a smaller run that breaks the promise that out has broken first: fewer rounds, fewer features, and rounds without
// their faults. Faults are left out many at once, then fewer, as delta debugging does (Zeller and Hildebrandt, 2002).
func shrink(out Outcome, try func(Options) Outcome) (Options, Outcome) {
	s := &shrinking{promise: out.Broken[0].Promise, best: out, try: try}
	rounds := out.Rounds
	s.attempt(Options{Rounds: rounds})
	for _, f := range features {
		o := s.options
		o.Without = append(slices.Clone(o.Without), f.name)
		s.attempt(o)
	}
	for size := (rounds + 1) / 2; size > 0; size /= 2 {
		for from := 0; from < rounds; from += size {
			o := s.options
			o.Skip = slices.Clone(o.Skip)
			for n := from; n < min(from+size, rounds); n++ {
				if !slices.Contains(o.Skip, n) {
					o.Skip = append(o.Skip, n)
				}
			}
			if len(o.Skip) > len(s.options.Skip) {
				slices.Sort(o.Skip)
				s.attempt(o)
			}
		}
	}
	return s.options, s.best
}

// shrinking is the smallest run so far.
type shrinking struct {
	promise Promise
	options Options
	best    Outcome
	try     func(Options) Outcome
	tries   int
}

// attempt runs something smaller, and keeps it if it still fails the same way.
func (s *shrinking) attempt(o Options) {
	if s.tries++; s.tries > mostTries {
		return
	}
	out := s.try(o)
	if slices.ContainsFunc(out.Broken, func(b Broken) bool { return b.Promise == s.promise }) {
		s.options, s.best = o, out
	}
}
