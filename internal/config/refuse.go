package config

import "slices"

// refuse turns away what a configuration may say in Kafka's terms and this version cannot do. Starting anyway would be
// worse than not starting: an open door instead of a locked one, or a node alone instead of in its cluster.
func (l *loader) refuse(n Node) {
	for _, listener := range n.Network.Listeners {
		if listener.Protocol != Plaintext {
			l.fault("listeners", "listener %s is %s, and TLS and SASL are not served yet; %s", listener.Name, listener.Protocol, l.unencrypted(listener, n.Network))
		}
	}
}

// unencrypted says what to write for a node without TLS and SASL. A network that strangers share is not for it.
func (l *loader) unencrypted(listener Listener, n Network) string {
	const trusted = " if everybody on that network may read and write everything"
	plaintext := func(o Listener) bool { return o.Name == Plaintext.String() }
	switch {
	case l.given("listener.security.protocol.map"):
		return "map " + listener.Name + ":PLAINTEXT in listener.security.protocol.map" + trusted
	case slices.ContainsFunc(n.Listeners, plaintext):
		return "take it out"
	default:
		return "write PLAINTEXT://" + listener.Address.String() + trusted
	}
}
