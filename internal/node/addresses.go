package node

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"

	"moldau/internal/config"
	"moldau/internal/quorum"
	"moldau/internal/server"
)

// bound is a listener that has its port.
type bound struct {
	config.Listener
	ln      net.Listener
	purpose purpose
	moved   bool // the port it should have had was taken
}

// purpose is who is to come to a listener.
type purpose int8

const (
	forKafka purpose = iota // clients, brokers or controllers
	forHTTP
	forZooKeeper
)

// Address is where a node listens, for people to read.
type Address struct {
	Name       string // of the listener; "HTTP" and "ZOOKEEPER" for those
	Bound      string // host:port
	Advertised string // what clients are told
	Controller bool
	Moved      bool // the usual port was taken
}

// Addresses returns where the node listens, in the order of the configuration. Valid after Start.
func (n *Node) Addresses() []Address {
	out := make([]Address, 0, len(n.listeners))
	for _, l := range n.listeners {
		name := l.Name
		switch l.purpose {
		case forHTTP:
			name = "HTTP"
		case forZooKeeper:
			name = "ZOOKEEPER"
		}
		out = append(out, Address{Name: name, Bound: l.ln.Addr().String(), Advertised: l.Advertised.String(), Controller: l.Controller, Moved: l.moved})
	}
	return out
}

// bind takes every port before anything on disk is touched, so that a node that cannot listen has changed nothing.
func (n *Node) bind() error {
	for _, group := range []struct {
		key       string
		purpose   purpose
		listeners []config.Listener
	}{
		{"listeners", forKafka, n.cfg.Network.Listeners},
		{"http.listeners", forHTTP, n.cfg.HTTP.Listeners},
		{"zookeeper.listeners", forZooKeeper, n.zookeeperListeners()},
	} {
		for _, l := range group.listeners {
			b, err := n.bindOne(l)
			if err != nil {
				return fmt.Errorf("%s: cannot listen on %s: %w", group.key, l.Address, explain(err))
			}
			b.purpose = group.purpose
			if b.moved && b.purpose == forZooKeeper {
				// Nobody would look for it elsewhere, and nobody has asked for it.
				n.o.Logger.Warn("ZooKeeper clients are not served: another program has the port", "address", l.Address.String())
				_ = b.ln.Close()
				continue
			}
			n.listeners = append(n.listeners, b)
		}
	}
	return nil
}

// bindAgain takes the ports of the controllers' listeners after another server has given them up.
func (n *Node) bindAgain() error {
	for i := range n.listeners {
		l := &n.listeners[i]
		if !l.Controller || l.purpose != forKafka {
			continue
		}
		ln, err := n.o.Listen(l.ln.Addr().String())
		if err != nil {
			return fmt.Errorf("listeners: cannot listen on %s again: %w", l.ln.Addr(), explain(err))
		}
		l.ln = ln
	}
	return nil
}

func explain(err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w; another program has that port: stop it, or set another port", err)
	}
	return err
}

func (n *Node) bindOne(l config.Listener) (bound, error) {
	b := bound{Listener: l}
	var err error
	b.ln, err = n.o.Listen(l.Address.String())
	if errors.Is(err, syscall.EADDRINUSE) && l.MayMove {
		b.moved = true
		l.Port = 0
		b.ln, err = n.o.Listen(l.Address.String())
	}
	if err != nil {
		return b, err
	}
	if b.Advertised.Host == "" {
		if b.Advertised.Host, err = n.advertisedHost(l.Host); err != nil {
			_ = b.ln.Close()
			return b, err
		}
	}
	if b.Advertised.Port == 0 || b.moved {
		_, port, err := net.SplitHostPort(b.ln.Addr().String())
		if err != nil {
			_ = b.ln.Close()
			return b, err
		}
		number, err := strconv.ParseInt(port, 10, 32)
		if err != nil {
			_ = b.ln.Close()
			return b, err
		}
		b.Advertised.Port = int32(number)
	}
	return b, nil
}

// advertisedHost is what clients are told when nobody said: the host that is listened on, and for all interfaces this
// machine's name, as in Apache Kafka.
func (n *Node) advertisedHost(bind string) (string, error) {
	if ip := net.ParseIP(bind); bind != "" && (ip == nil || !ip.IsUnspecified()) {
		return bind, nil
	}
	name, err := n.o.Hostname()
	if err != nil {
		return "", fmt.Errorf("advertised.listeners is not set and this machine has no name: %w", err)
	}
	return name, nil
}

// serve accepts connections on the controllers' listeners, or on the brokers'.
func (n *Node) serve(controllers bool) {
	brokers := 0
	for _, l := range n.listeners {
		if l.purpose == forKafka && !l.Controller {
			brokers++
		}
	}
	for _, l := range n.listeners {
		if l.purpose != forKafka || l.Controller != controllers {
			continue
		}
		kind := server.Broker
		if controllers {
			kind = server.Controller
		}
		n.running.Go(func() {
			// Where clients share the listener between brokers there is nothing to protect it from (ConnectionQuotas.protectedListener).
			err := n.server.Serve(l.ln, server.Listener{Name: l.Name, Kind: kind, Protected: controllers || l.Name == n.cfg.Network.InterBroker && brokers > 1})
			if err != nil && n.ctx.Err() == nil {
				n.fail(fmt.Errorf("listener %s ended: %w", l.Name, err))
			}
		})
	}
}

// controllerEndpoints are the addresses under which other nodes find this controller.
func (n *Node) controllerEndpoints() []quorum.Endpoint {
	var out []quorum.Endpoint
	for _, l := range n.listeners {
		if l.Controller && l.purpose == forKafka {
			out = append(out, quorum.Endpoint{Name: l.Name, Host: l.Advertised.Host, Port: uint16(l.Advertised.Port)})
		}
	}
	return out
}
