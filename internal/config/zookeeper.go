package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"moldau/internal/kafka"
)

// ZooKeeper is where clients of the years before KRaft find the cluster.
type ZooKeeper struct {
	Listeners []Listener // empty = nowhere
	Chroot    string     // what such clients write before every path: "" or /kafka
}

const (
	connectKey     = "zookeeper.connect"
	zookeeperPort  = 2181
	controllerPort = 9093
)

// ensemble is what zookeeper.connect says in a file from before KRaft. The nodes hold the tree themselves, so that the hosts
// named are the cluster's own.
type ensemble struct {
	hosts  []Address
	self   int // which of hosts is this node, -1 = none
	chroot string
	told   []Address // what zookeeper.listeners says
}

// ensemble reads zookeeper.connect. Without that key there are no hosts.
func (l *loader) ensemble(q Quorum) ensemble {
	z := ensemble{self: -1, told: l.zookeeperListeners()}
	text, chroot, _ := strings.Cut(strings.TrimSpace(l.text(connectKey)), "/")
	if text == "" {
		return z
	}
	if chroot = strings.Trim(chroot, "/"); chroot != "" {
		z.chroot = "/" + chroot
	}
	for _, element := range splitList(text) {
		if !strings.Contains(element, ":") {
			element += ":" + strconv.Itoa(zookeeperPort)
		}
		address, ok := parseAddress(element)
		if !ok || address.Host == "" {
			l.fault(connectKey, "want host:port, several separated by commas, and perhaps a path after the last")
			return ensemble{self: -1, told: z.told}
		}
		if slices.Contains(z.hosts, address) {
			l.fault(connectKey, "names %s twice", address)
			return ensemble{self: -1, told: z.told}
		}
		z.hosts = append(z.hosts, address)
	}
	self, ok := l.placeIn(z, q)
	if !ok {
		return ensemble{self: -1, told: z.told}
	}
	z.self = self
	return z
}

// placeIn is which of the hosts this node is, -1 if it may be none. Several may be on this machine: then its own port tells.
// ok is false if a fault was told.
func (l *loader) placeIn(z ensemble, q Quorum) (place int, ok bool) {
	here := l.placesOf(z, l.isListener)
	if len(here) != 1 {
		here = l.placesOf(z, l.isHere)
	}
	if len(here) > 1 && len(z.told) > 0 {
		here = slices.DeleteFunc(here, func(i int) bool { return z.hosts[i].Port != z.told[0].Port })
	}
	switch {
	case len(here) == 1:
		return here[0], true
	case len(here) > 1:
		l.fault(connectKey, "several of its places are on this machine: set zookeeper.listeners to the one that is this node's")
	case len(q.Voters) > 0 || len(q.Bootstrap) > 0:
		return -1, l.ofThisCluster(z, q)
	case l.given("process.roles") && !slices.Contains(l.list("process.roles"), "controller"):
		return -1, true
	default:
		l.fault(connectKey, "no host in it is this machine. Nodes keep what ZooKeeper kept, so no ZooKeeper is needed: "+
			"take it out for a node on its own; or list the nodes themselves, this one among them; "+
			"or, if %s is such a node and this one is to join it, set process.roles=broker", z.hosts[0].Host)
	}
	return -1, false
}

// ofThisCluster checks that the hosts are those that the list of controllers names.
func (l *loader) ofThisCluster(z ensemble, q Quorum) bool {
	var known []string
	for _, v := range q.Voters {
		known = append(known, v.Host)
	}
	for _, a := range q.Bootstrap {
		known = append(known, a.Host)
	}
	for _, a := range z.hosts {
		if !slices.Contains(known, a.Host) {
			l.fault(connectKey, "%s is no controller of this cluster. Nodes keep what ZooKeeper kept: take it out, and set zookeeper.listeners=:%d where clients are to find the cluster as if it were ZooKeeper", a.Host, a.Port)
			return false
		}
	}
	return true
}

func (l *loader) placesOf(z ensemble, is func(host string) bool) (places []int) {
	for i, a := range z.hosts {
		if is(a.Host) {
			places = append(places, i)
		}
	}
	return places
}

// isHere tells whether a host is this machine.
func (l *loader) isHere(host string) bool {
	return host == "localhost" || host == "::1" || strings.HasPrefix(host, "127.") || l.isListener(host) || l.here != nil && l.here(host)
}

// isListener tells whether one of this node's listeners has a host.
func (l *loader) isListener(host string) bool {
	for _, key := range []string{"listeners", "advertised.listeners"} {
		for _, element := range l.list(key) {
			if e, ok := parseEndpoint(element); ok && e.Host == host {
				return true
			}
		}
	}
	return host == l.text("host.name") || host == l.text("advertised.host.name")
}

// formWith returns where the controllers are that an ensemble stands for: one with each host. A single host is a cluster by
// itself, as long as it is this one.
func (l *loader) formWith(z ensemble) []Address {
	if len(z.hosts) == 0 || len(z.hosts) == 1 && z.self == 0 {
		return nil
	}
	port := l.ownControllerPort()
	var controllers []Address
	for _, a := range z.hosts {
		controller := Address{a.Host, port}
		if slices.Contains(controllers, controller) {
			l.fault(connectKey, "has %s more than once, and each of those nodes needs a controller's port of its own: set controller.quorum.bootstrap.servers=%s", a.Host, severalPorts(z.hosts))
			return nil
		}
		controllers = append(controllers, controller)
	}
	return controllers
}

// ownControllerPort is where this node's controller listens, and so, it is taken, do the others.
func (l *loader) ownControllerPort() int32 {
	names := l.list("controller.listener.names")
	for _, element := range l.list("listeners") {
		e, ok := parseEndpoint(element)
		if ok && slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, e.name) }) {
			return e.Port
		}
	}
	for _, element := range l.list("listeners") {
		if e, ok := parseEndpoint(element); ok && e.Port == controllerPort {
			l.fault("listeners", "%s has the port %d, where the controllers of the hosts in zookeeper.connect would listen: set controller.quorum.bootstrap.servers to their hosts with another port", e.name, e.Port)
		}
	}
	return controllerPort
}

func severalPorts(hosts []Address) string {
	var list []string
	for i, a := range hosts {
		list = append(list, fmt.Sprintf("%s:%d", a.Host, controllerPort+i))
	}
	return strings.Join(list, ",")
}

// madeUpID is the number of a node that was given none: as in Kafka, those above reserved.broker.max.id are for them, and it
// is the place in zookeeper.connect that makes them different.
func (l *loader) madeUpID(z ensemble) kafka.NodeID {
	return l.int32("reserved.broker.max.id") + 1 + int32(z.self)
}

// leastID is from where on a node gets its number that has no place in zookeeper.connect: after those that have one.
func (l *loader) leastID(z ensemble, roles Roles) kafka.NodeID {
	if roles.Controller {
		l.fault("broker.id", "give this node a number that no other has: it has no place in zookeeper.connect that could tell, and it is a controller, while others get theirs from the controllers")
	}
	return l.int32("reserved.broker.max.id") + 1 + int32(len(z.hosts))
}

// zookeeper reads where to serve ZooKeeper's protocol: where zookeeper.listeners says, else at this node's place in
// zookeeper.connect, on the interface of its first listener.
func (l *loader) zookeeper(z ensemble, n Network) ZooKeeper {
	out := ZooKeeper{Chroot: z.chroot}
	told := z.told
	if !l.given("zookeeper.listeners") && z.self >= 0 {
		told = []Address{{Port: z.hosts[z.self].Port}}
		if i := slices.IndexFunc(n.Listeners, func(li Listener) bool { return !li.Controller }); i >= 0 {
			told[0].Host = n.Listeners[i].Host
		}
	}
	for _, a := range told {
		for _, li := range n.Listeners {
			if li.Port == a.Port && a.Port != 0 {
				l.fault("zookeeper.listeners", "%s has that port already", li.Name)
				return out
			}
		}
		out.Listeners = append(out.Listeners, Listener{
			Name: "ZOOKEEPER", Address: a, Advertised: a, MayMove: l.set["zookeeper.listeners"].file == builtIn,
		})
	}
	return out
}

func (l *loader) zookeeperListeners() (addresses []Address) {
	const key = "zookeeper.listeners"
	for _, element := range l.list(key) {
		a, good := parseAddress(element)
		if !good || slices.Contains(addresses, a) {
			l.fault(key, "%q: want host:port, several separated by commas, each once", element)
			return nil
		}
		addresses = append(addresses, a)
	}
	return addresses
}
