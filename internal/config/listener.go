package config

import (
	"net"
	"slices"
	"strconv"
	"strings"
)

// Protocol is how a listener authenticates and encrypts. The numbers are those of SecurityProtocol on the wire.
type Protocol int16

// The four security protocols.
const (
	Plaintext     Protocol = 0
	SSL           Protocol = 1
	SASLPlaintext Protocol = 2
	SASLSSL       Protocol = 3
)

var protocolNames = [...]string{Plaintext: "PLAINTEXT", SSL: "SSL", SASLPlaintext: "SASL_PLAINTEXT", SASLSSL: "SASL_SSL"}

// String returns the protocol's name in Kafka's configuration.
func (p Protocol) String() string {
	if p < 0 || int(p) >= len(protocolNames) {
		return "unknown"
	}
	return protocolNames[p]
}

// Address is a host and a TCP port.
type Address struct {
	Host string
	Port int32
}

// String returns host:port, with brackets around an IPv6 address.
func (a Address) String() string { return net.JoinHostPort(a.Host, strconv.Itoa(int(a.Port))) }

// Listener is one place where a node takes connections.
type Listener struct {
	Name       string // in upper case, as Kafka normalises it
	Address           // where to bind; Host "" = every interface, Port 0 = any free port
	Protocol   Protocol
	Controller bool // named in controller.listener.names
	// Advertised is what other nodes and clients are told. Host "" = the machine's host name, Port 0 = the port that was
	// bound; the node fills both in once it listens.
	Advertised Address
	// MayMove says that the port was nobody's choice: if it is taken, any free one will do, and the node says so.
	MayMove bool
}

// parseAddress reads host:port. The host may be empty, and an IPv6 address stands in brackets or not, as in Kafka.
func parseAddress(s string) (Address, bool) {
	colon := strings.LastIndexByte(s, ':')
	if colon < 0 {
		return Address{}, false
	}
	host, port := s[:colon], s[colon+1:]
	if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		host = host[1 : len(host)-1]
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || strings.IndexFunc(host, notInHost) >= 0 {
		return Address{}, false
	}
	return Address{host, int32(n)}, true
}

func notInHost(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-%._:", r))
}

// endpoint is one element of listeners or advertised.listeners.
type endpoint struct {
	name string
	Address
	nobodys bool    // not from the configuration: the port was nobody's choice
	told    Address // where others find it, if that is known already
}

func parseEndpoint(s string) (endpoint, bool) {
	name, rest, ok := strings.Cut(s, "://")
	address, good := parseAddress(rest)
	if !ok || !good || name == "" || strings.ContainsAny(name, " \t:/") {
		return endpoint{}, false
	}
	return endpoint{name: strings.ToUpper(name), Address: address}, true
}

// endpoints reads a list of listeners under a key. ok is false if a fault was told.
func (l *loader) endpoints(key string) (parsed []endpoint, ok bool) {
	for _, element := range l.list(key) {
		e, good := parseEndpoint(element)
		if !good {
			l.fault(key, "%q: want NAME://host:port, several separated by commas", element)
			return nil, false
		}
		if slices.ContainsFunc(parsed, func(o endpoint) bool { return o.name == e.name }) {
			l.fault(key, "names %s twice", e.name)
			return nil, false
		}
		parsed = append(parsed, e)
	}
	return parsed, true
}

// distinctPorts mirrors CoreUtils.listenerListToEndPoints: two listeners share a port only if one has an IPv4 address and
// the other an IPv6 address.
func (l *loader) distinctPorts(key string, endpoints []endpoint) {
	for i, a := range endpoints {
		for _, b := range endpoints[:i] {
			ipA, ipB := net.ParseIP(a.Host), net.ParseIP(b.Host)
			twoStacks := ipA != nil && ipB != nil && (ipA.To4() == nil) != (ipB.To4() == nil)
			if a.Port == b.Port && a.Port != 0 && !twoStacks {
				l.fault(key, "%s and %s have the same port", b.name, a.name)
				return
			}
		}
	}
}

func number(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64) // isNumber was asked before
	return n
}
