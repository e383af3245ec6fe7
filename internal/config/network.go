package config

import (
	"math"
	"slices"
	"strings"
)

// network reads listeners and the limits on their connections.
func (l *loader) network(node Node, z ensemble) Network {
	roles := node.Roles
	n := Network{
		RequestMaxBytes:    l.int32("socket.request.max.bytes"),
		MaxConnections:     l.int32("max.connections"),
		ConnectionRate:     l.int32("max.connection.creation.rate"),
		MaxConnectionsByIP: l.int32("max.connections.per.ip"),
		IPOverrides:        l.ipOverrides(),
		IdleMs:             l.int64("connections.max.idle.ms"),
		RequestTimeoutMs:   l.int32("request.timeout.ms"),
	}
	if n.MaxConnectionsByIP == 0 && len(n.IPOverrides) == 0 {
		l.fault("max.connections.per.ip", "0 lets nobody in unless max.connections.per.ip.overrides names who may")
	}
	for _, name := range l.list("controller.listener.names") {
		n.Controllers = append(n.Controllers, strings.ToUpper(name))
	}
	endpoints, ok := l.bound(node, z, n.Controllers)
	if !ok {
		return n
	}
	protocols := l.protocols(endpoints, n.Controllers)
	for _, e := range endpoints {
		protocol, mapped := protocols[e.name]
		controller := slices.Contains(n.Controllers, e.name)
		// Without a map a controller's listener has no protocol only because another's is not PLAINTEXT, which is refused.
		if !mapped && (!controller || l.given("listener.security.protocol.map")) {
			l.fault("listeners", "listener.security.protocol.map gives no protocol for %s; the names that need none are %s",
				e.name, alternatives(protocolNames[:]))
		}
		listener := Listener{Name: e.name, Address: e.Address, Protocol: protocol, Controller: controller, Advertised: e.Address}
		if e.told.Host != "" {
			listener.Advertised = e.told
		}
		listener.MayMove = e.nobodys || listener.Controller && l.set["listeners"].file == builtIn
		n.Listeners = append(n.Listeners, listener)
	}
	n.Own = l.connectionLimits(n.Listeners)
	l.controllerListeners(roles, n)
	l.advertise(n)
	n.InterBroker = l.interBroker(roles, n, protocols)
	return n
}

// connectionLimits reads the limits that each listener has to itself (KIP-402, KIP-612).
func (l *loader) connectionLimits(listeners []Listener) map[string]ConnectionLimits {
	own := map[string]ConnectionLimits{}
	for _, li := range listeners {
		of := func(key string) int32 {
			s, given := l.set[listenerPrefix+strings.ToLower(li.Name)+"."+key]
			if !given {
				return math.MaxInt32
			}
			v, _ := brokerByName[key].parse(s.raw) // checked when it was taken
			return int32(v.number)
		}
		own[li.Name] = ConnectionLimits{Max: of("max.connections"), Rate: of("max.connection.creation.rate")}
	}
	return own
}

// bound returns where to listen. Two things are added to what listeners says: the single listener of Kafka before 3.0
// (mirrors KafkaConfig.listeners of 2.8), and a controller listener where nobody thought of one: where the list of
// controllers has this node, and on loopback if there is no list, so that a file from before KRaft starts.
func (l *loader) bound(node Node, z ensemble, controllers []string) ([]endpoint, bool) {
	endpoints, ok := l.endpoints("listeners")
	if !l.given("listeners") && (l.given("port") || l.given("host.name")) {
		address, good := parseAddress(l.text("host.name") + ":" + canonical(brokerByName["port"], l.raw("port")))
		if !good {
			l.fault("host.name", "want the name or address of an interface")
			return nil, false
		}
		endpoints = []endpoint{{name: "PLAINTEXT", Address: address}}
	}
	if !ok {
		return nil, false
	}
	isController := func(e endpoint) bool { return slices.Contains(controllers, e.name) }
	if node.Roles.Controller && !l.given("controller.listener.names") && !slices.ContainsFunc(endpoints, isController) {
		e, found := l.controllerPlace(node, z, endpoints)
		if !found {
			return nil, false
		}
		e.name = controllers[0]
		endpoints = append(endpoints, e)
	}
	l.distinctPorts("listeners", endpoints)
	return endpoints, true
}

// controllerPlace is where this node's controller listens if listeners does not say: at the port that the list of
// controllers gives for it, on the interface of its first listener. An endpoint that has a told address is advertised there.
func (l *loader) controllerPlace(node Node, z ensemble, endpoints []endpoint) (endpoint, bool) {
	q := node.Quorum
	if len(q.Voters) == 0 && len(q.Bootstrap) == 0 {
		port := int32(controllerPort)
		if slices.ContainsFunc(endpoints, func(e endpoint) bool { return e.Port == port }) {
			port = 0
		}
		return endpoint{Address: Address{"127.0.0.1", port}, nobodys: true}, true
	}
	var host string
	if len(endpoints) > 0 {
		host = endpoints[0].Host
	}
	for _, v := range q.Voters {
		if v.ID == node.ID {
			return endpoint{Address: Address{host, v.Port}, told: v.Address}, true
		}
	}
	// Which of the bootstrap servers this is, its own addresses tell.
	own := map[string]bool{}
	told, _ := l.endpoints("advertised.listeners")
	for _, e := range slices.Concat(endpoints, told) {
		own[e.Host] = true
	}
	if z.self >= 0 {
		own[z.hosts[z.self].Host] = true
	}
	ports := map[int32]bool{}
	for _, a := range q.Bootstrap {
		if own[a.Host] {
			return endpoint{Address: Address{host, a.Port}, told: a}, true
		}
		ports[a.Port] = true
	}
	if len(ports) == 0 {
		return endpoint{}, false // not among the voters, which is said elsewhere
	}
	if len(ports) != 1 {
		l.fault("listeners", "add CONTROLLER://host:port: controller.quorum.bootstrap.servers does not tell which of its ports is this node's")
		return endpoint{}, false
	}
	e := endpoint{Address: Address{host, q.Bootstrap[0].Port}}
	if len(told) > 0 {
		e.told = Address{told[0].Host, e.Port}
	}
	return e, true
}

func (l *loader) raw(key string) string {
	if s, ok := l.set[key]; ok {
		return s.raw
	}
	return brokerByName[key].Default
}

// protocols mirrors KafkaConfig.effectiveListenerSecurityProtocolMap: unless the map is given, controller listeners are
// PLAINTEXT as long as no listener's name is that of another protocol.
func (l *loader) protocols(endpoints []endpoint, controllers []string) map[string]Protocol {
	const key = "listener.security.protocol.map"
	protocols := map[string]Protocol{}
	for _, pair := range splitList(l.text(key)) {
		name, protocolName, _ := strings.Cut(pair, ":")
		i := slices.Index(protocolNames[:], strings.ToUpper(strings.TrimSpace(protocolName)))
		if i < 0 || name == "" {
			l.fault(key, "%q: want NAME:PROTOCOL, several separated by commas; the protocols are %s", pair, alternatives(protocolNames[:]))
			continue
		}
		protocols[strings.ToUpper(strings.TrimSpace(name))] = Protocol(i)
	}
	if l.given(key) {
		return protocols
	}
	names := slices.Clone(controllers)
	for _, e := range endpoints {
		names = append(names, e.name)
	}
	if slices.ContainsFunc(names, func(name string) bool { return slices.Index(protocolNames[:], name) > int(Plaintext) }) {
		return protocols
	}
	for _, name := range controllers {
		protocols[name] = Plaintext
	}
	return protocols
}

func (l *loader) controllerListeners(roles Roles, n Network) {
	has := slices.ContainsFunc(n.Listeners, func(li Listener) bool { return li.Controller })
	brokers := slices.ContainsFunc(n.Listeners, func(li Listener) bool { return !li.Controller })
	switch {
	case roles.Controller && !has:
		l.fault("controller.listener.names", "none of them is in listeners; a controller needs one")
	case roles.Controller && !roles.Broker && brokers:
		l.fault("listeners", "a node that is only a controller has only listeners of controller.listener.names")
	case !roles.Controller && has:
		l.fault("listeners", "a node that is only a broker has no listener of controller.listener.names")
	case roles.Broker && !brokers:
		l.fault("listeners", "all are listeners of the controller; a broker needs one of its own")
	}
}

// advertise sets what is told to others. Mirrors KafkaConfig.effectiveAdvertisedBrokerListeners and, for the keys that
// 3.0 dropped, KafkaConfig.advertisedListeners of 2.8.
func (l *loader) advertise(n Network) {
	const key = "advertised.listeners"
	told, ok := l.endpoints(key)
	if !ok {
		return
	}
	for _, e := range told {
		i := slices.IndexFunc(n.Listeners, func(li Listener) bool { return li.Name == e.name })
		switch {
		case i >= 0:
			n.Listeners[i].Advertised = e.Address
		case !slices.Contains(n.Controllers, e.name): // a mere broker may name the controllers' address
			l.fault(key, "%s is not in listeners", e.name)
		}
	}
	if !l.given(key) && (l.given("advertised.host.name") || l.given("advertised.port")) {
		for i := range n.Listeners {
			if li := &n.Listeners[i]; !li.Controller {
				if l.given("advertised.host.name") {
					li.Advertised.Host = l.text("advertised.host.name")
				}
				if l.given("advertised.port") {
					li.Advertised.Port = l.int32("advertised.port")
				}
				break
			}
		}
	}
	if !l.given(key) {
		l.notRoutable("listeners", n)
	} else {
		l.notRoutable(key, n)
	}
}

func (l *loader) notRoutable(key string, n Network) {
	for _, li := range n.Listeners {
		if li.Advertised.Host == "0.0.0.0" {
			l.fault(key, "clients of %s would be told to connect to 0.0.0.0; set advertised.listeners to an address that they can reach", li.Name)
		}
	}
}

func (l *loader) interBroker(roles Roles, n Network, protocols map[string]Protocol) string {
	const byName, byProtocol = "inter.broker.listener.name", "security.inter.broker.protocol"
	if !roles.Broker {
		return ""
	}
	var names []string
	for _, li := range n.Listeners {
		if !li.Controller {
			names = append(names, li.Name)
		}
	}
	key, name := byProtocol, l.text(byProtocol)
	if l.given(byName) {
		key, name = byName, strings.ToUpper(l.text(byName))
		if l.given(byProtocol) {
			l.fault(byProtocol, "set either this or %s", byName)
		}
	}
	if len(names) > 0 && !slices.Contains(names, name) {
		if key == byProtocol && !l.given(byProtocol) && len(names) == 1 {
			// Kafka insists on a name even where there is no choice. There being none, there is nothing to get wrong.
			return names[0]
		}
		l.fault(key, "want the name of one of the listeners: %s", alternatives(names))
	}
	return name
}

// ipOverrides reads host:number pairs. The number follows the last colon, so that IPv6 addresses need no brackets.
func (l *loader) ipOverrides() map[string]int32 {
	const key = "max.connections.per.ip.overrides"
	limits := map[string]int32{}
	for _, pair := range splitList(l.text(key)) {
		colon := strings.LastIndexByte(pair, ':')
		if colon < 1 || !isNumber(pair[colon+1:]) || strings.IndexFunc(pair[:colon], notInHost) >= 0 {
			l.fault(key, "%q: want host:number, several separated by commas", pair)
			continue
		}
		limits[pair[:colon]] = int32(min(number(pair[colon+1:]), math.MaxInt32))
	}
	return limits
}

// http reads where metrics and health are served.
func (l *loader) http() HTTP {
	const key = "http.listeners"
	var h HTTP
	for _, element := range l.list(key) {
		rest, ok := strings.CutPrefix(strings.TrimSuffix(element, "/"), "http://")
		address, good := parseAddress(rest)
		if !ok || !good {
			l.fault(key, "%q: want http://host:port, several separated by commas", element)
			continue
		}
		h.Listeners = append(h.Listeners, Listener{Name: "HTTP", Address: address, Advertised: address, MayMove: !l.given(key)})
	}
	return h
}
