package cli

import (
	"errors"
	"fmt"
	"os"
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
	case errors.Is(err, syscall.EMFILE):
		return fmt.Errorf("%w\nA process may open too few files here: %s", err, moreFiles())
	case op == nil:
		return curedDisk(err, n)
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

// curedDisk does so for what a filesystem refuses.
func curedDisk(err error, n config.Node) error {
	dirs := strings.Join(n.Storage.Dirs, " ")
	switch {
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return fmt.Errorf("%w\nThe node runs as user %d, who has to own log.dirs:\n    chown -R %[2]d %s", err, os.Geteuid(), dirs)
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%w\nThat filesystem is mounted to be read only. The kernel does so when its disk fails: `dmesg` says why", err)
	case errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%w\nlog.dirs names something that is no folder", err)
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("%w\nMake room there; `df -h %s` shows how much there is", err, dirs)
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
			address.Port = awayFrom(address.Port)
		}
		listeners = append(listeners, l.Name+"://"+address.String())
	}
	return "listeners=" + strings.Join(listeners, ",")
}

// awayFrom is a port well away from one that cannot be had, and below those that connections are given.
func awayFrom(port int32) int32 {
	if other := port%10000 + 10000; other != port {
		return other
	}
	return port + 10000
}
