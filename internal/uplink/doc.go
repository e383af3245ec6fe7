// Package uplink is all that a broker says to the controller.
//
// It owns the broker's registration and its heartbeats, the broker epoch that comes of them, the block of producer ids
// in hand, the creation of topics that clients asked for by using them, and the forwarding of admin requests. It does
// not own any decision: the controller takes those, and their results come back as metadata.
//
// Invariants:
//  1. The broker epoch is set by a registration that the controller answered and by nothing else.
//  2. A producer id is handed out at most once, whatever fails: a block that was asked for and not received is lost.
//  3. At most one creation of a topic is under way from here.
//
// Goroutines: Run is one goroutine and is owned by its caller. The other methods are safe for concurrent use.
//
// Not obvious:
//   - Call is in process when the controller is, and goes through the same handler as the controller's listener.
//   - A heartbeat that fails with STALE_BROKER_EPOCH, or that the controller does not know the broker from, leads to a
//     new registration, as BrokerLifecycleManager does.
package uplink
