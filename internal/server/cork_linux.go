package server

import "syscall"

// cork has the kernel send full packets only, until uncork. It makes answers cheaper, and nothing depends on it.
func (c *Conn) cork() {
	if c.in.raw != nil {
		_ = c.in.raw.Control(corkSocket)
	}
}

func (c *Conn) uncork() {
	if c.in.raw != nil {
		_ = c.in.raw.Control(uncorkSocket)
	}
}

func corkSocket(fd uintptr) {
	_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_CORK, 1)
}

func uncorkSocket(fd uintptr) {
	_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_CORK, 0)
}
