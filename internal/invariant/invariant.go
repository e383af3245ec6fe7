package invariant

import "fmt"

// Check panics with the formatted text when cond is false. The text names the invariant that our own code broke.
func Check(cond bool, format string, args ...any) {
	if !cond {
		panic("invariant: " + fmt.Sprintf(format, args...))
	}
}

// Expensive runs check and panics with its error, in builds with the tag "expensive" only.
func Expensive(check func() error) {
	if !expensive {
		return
	}
	if err := check(); err != nil {
		panic("invariant: " + err.Error())
	}
}
