package config

import (
	"net"
	"strconv"
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

// Address is a host and a TCP port.
type Address struct {
	Host string
	Port int32
}

// String returns host:port, with brackets around an IPv6 address.
func (a Address) String() string { return net.JoinHostPort(a.Host, strconv.Itoa(int(a.Port))) }

// Listener is one place where a node takes connections.
type Listener struct {
	Name       string // normalised to upper case, as Kafka does
	Address           // where to bind; Host "" = every interface, Port 0 = any free port
	Protocol   Protocol
	Controller bool // named in controller.listener.names
	// Advertised is what other nodes and clients are told. Host "" = the machine's host name, Port 0 = the port that was
	// bound; both are filled in by the node once it listens.
	Advertised Address
	// MayMove says that the port was nobody's choice: if it is taken, any free one will do, and the node says so.
	MayMove bool
}
