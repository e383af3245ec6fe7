package config

// refuse turns away what a configuration may say in Kafka's terms and this version cannot do. Starting anyway would be
// worse than not starting: an open door instead of a locked one, or a node alone instead of in its cluster.
func (l *loader) refuse(n Node) {
	for _, listener := range n.Network.Listeners {
		if listener.Protocol != Plaintext {
			l.fault("listeners", "listener %s is %s; this version serves PLAINTEXT only", listener.Name, listener.Protocol)
		}
	}
}
