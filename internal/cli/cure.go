package cli

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"moldau/internal/config"
	"moldau/internal/vfs"
)

// cured adds to an error what to type against it, where the place that met it cannot know the command line.
func cured(err error, n config.Node) error {
	op := listening(err)
	switch {
	case errors.Is(err, vfs.ErrLocked):
		return fmt.Errorf("%w\nTo give this node a directory of its own:\n    moldau serve --override log.dirs=%s-2", err, n.Storage.Dirs[0])
	case op == nil:
		return err
	case errors.Is(err, syscall.EADDRINUSE):
		port := op.Addr.String()[strings.LastIndexByte(op.Addr.String(), ':')+1:]
		return fmt.Errorf("%w\n`ss -ltnp 'sport = :%s'` shows that program. To use another port:\n    moldau serve --override %s", err, port, otherPort(n, op.Addr.String()))
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("%w\nPorts below 1024 belong to root. To use another port:\n    moldau serve --override %s", err, otherPort(n, op.Addr.String()))
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%w\n`ip address` shows the addresses of this machine; clients can be told another with advertised.listeners", err)
	}
	return err
}

// otherPort is a setting that gets past a port that cannot be had.
func otherPort(n config.Node, taken string) string {
	for _, l := range n.HTTP.Listeners {
		if l.Address.String() == taken {
			return "http.listeners=http://" + config.Address{Host: l.Host}.String()
		}
	}
	var listeners []string
	for _, l := range n.Network.Listeners {
		address := l.Address
		if address.String() == taken {
			address.Port = address.Port%10000 + 10000
		}
		listeners = append(listeners, l.Name+"://"+address.String())
	}
	return "listeners=" + strings.Join(listeners, ",")
}
