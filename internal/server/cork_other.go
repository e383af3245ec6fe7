//go:build !linux

package server

func (*Conn) cork()   {}
func (*Conn) uncork() {}
