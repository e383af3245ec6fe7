package sim

// Promise is what a checker looks after. A broken one is told by its name.
type Promise string

// The promises, each with the file that checks it.
const (
	ackedStay    Promise = "acked stay"     // check_acked.go, check_votes.go
	sameReplicas Promise = "same replicas"  // check_replicas.go
	oneLeader    Promise = "one leader"     // check_leader.go
	withinBounds Promise = "within bounds"  // check_bounds.go, check_watermark.go, check_durable.go
	sameBytes    Promise = "same bytes"     // check_bytes.go
	onceInOrder  Promise = "once, in order" // check_producer.go
	oneOwner     Promise = "one owner"      // check_group.go
	oneTree      Promise = "one tree"       // check_tree.go
	sessionsLast Promise = "sessions last"  // check_session.go
	watchesFire  Promise = "watches fire"   // check_watch.go
	linear       Promise = "linear"         // check_linear.go
	sameImages   Promise = "same images"    // check_images.go
	inTime       Promise = "in time"        // check_alive.go
	noLeaks      Promise = "no leaks"       // check_leaks.go
	sound        Promise = "sound"          // no node fails, panics, refuses to start, or answers what only a bug explains
)

// Broken is a promise that was broken, and how.
type Broken struct {
	Promise Promise
	What    string
}

func (b Broken) String() string { return string(b.Promise) + ": " + b.What }
