package config

// refuse turns away what a configuration may say in Kafka's terms and this version cannot do. Starting anyway would be
// worse than not starting: an open door instead of a locked one, or a node alone instead of in its cluster.
func (l *loader) refuse(n Node) {
	for _, listener := range n.Network.Listeners {
		if listener.Protocol != Plaintext {
			l.fault("listeners", "listener %s is %s; this version serves PLAINTEXT only", listener.Name, listener.Protocol)
		}
	}
	if !n.Roles.Broker || !n.Roles.Controller {
		l.fault("process.roles", "this version runs as broker,controller only")
		return
	}
	if len(n.Quorum.Voters) > 1 {
		l.fault("controller.quorum.voters", "this version serves clusters of one node only")
	}
	if len(n.Quorum.Bootstrap) > 1 {
		l.fault("controller.quorum.bootstrap.servers", "this version serves clusters of one node only")
	}
	if l.given("zookeeper.connect") && !l.given("process.roles") {
		l.warn(l.set["zookeeper.connect"], "names a cluster that this node does not join: it forms one of its own")
	}
}
