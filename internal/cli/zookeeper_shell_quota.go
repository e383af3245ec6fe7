package cli

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/go-zookeeper/zk"

	"moldau/internal/znode"
)

// quota reads a node of a quota.
func (s *zookeeperShell) quota(node, name string) (znode.Amount, error) {
	data, _, err := s.tree.Conn().Get(s.tree.Path(path.Join(znode.QuotaRoot, node, name)))
	if err != nil {
		return znode.Amount{}, err
	}
	a, err := znode.ParseAmount(string(data))
	if err != nil {
		return a, javaFault("IllegalArgumentException", err.Error())
	}
	return a, nil
}

// setQuota limits the nodes (-n) or the bytes (-b) at and below a path. Neither that nor what is above or below may have a quota.
func (s *zookeeperShell) setQuota(args []string) error {
	option, val, node := args[0], args[1], args[2]
	s.say(s.a.stderr, fmt.Sprintf("Comment: the parts are option %s val %s path %s\n", option, val, node))
	if option != "-n" && option != "-b" {
		return &failure{exitUsage, errors.New("want setquota -n|-b val path")}
	}
	bits := 32
	if option == "-b" {
		bits = 64
	}
	n, err := javaInt(val, bits)
	if err != nil {
		return err
	}
	limit := znode.Amount{Nodes: int(n), Bytes: -1}
	if option == "-b" {
		limit = znode.Amount{Nodes: -1, Bytes: n}
	}
	there, err := s.tree.Exists(node)
	if err != nil {
		return err
	}
	if !there {
		return javaFault("IllegalArgumentException", node+" does not exist.")
	}
	if err := s.otherQuota(node); err != nil {
		return err
	}
	parts := strings.Split(strings.Trim(node, "/"), "/")
	if node == "/" {
		parts = nil
	}
	at := ""
	for _, part := range append([]string{"zookeeper", "quota"}, parts...) {
		at += "/" + part
		if err := s.make(at, nil); err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return err
		}
	}
	if err := s.make(at+"/"+znode.QuotaLimits, []byte(limit.String())); err != nil {
		return err
	}
	return s.make(at+"/"+znode.QuotaStats, []byte(znode.Amount{}.String()))
}

func (s *zookeeperShell) make(p string, data []byte) error {
	_, err := s.tree.Conn().Create(s.tree.Path(p), data, 0, zk.WorldACL(zk.PermAll))
	return err
}

// otherQuota is an error if a path or something above or below it has a quota.
func (s *zookeeperShell) otherQuota(node string) error {
	below, err := s.tree.Children(path.Join(znode.QuotaRoot, node))
	if err != nil {
		return err
	}
	for _, name := range below {
		if !strings.HasPrefix(name, "zookeeper_") {
			return javaFault("IllegalArgumentException", node+" has child "+name+" which has a quota")
		}
	}
	for above := node; above != "/"; above = path.Dir(above) {
		there, err := s.tree.Exists(path.Join(znode.QuotaRoot, above, znode.QuotaLimits))
		if err != nil {
			return err
		}
		if there {
			return javaFault("IllegalArgumentException", node+" has a parent "+znode.QuotaRoot+above+" which has a quota")
		}
	}
	return nil
}

func (s *zookeeperShell) changeQuota(node string, change func(*znode.Amount)) error {
	limit, err := s.quota(node, znode.QuotaLimits)
	if err != nil {
		return err
	}
	change(&limit)
	_, err = s.tree.Conn().Set(s.tree.Path(path.Join(znode.QuotaRoot, node, znode.QuotaLimits)), []byte(limit.String()), -1)
	return err
}

func (s *zookeeperShell) listQuota(args []string) error {
	node := args[0]
	s.say(s.a.stderr, "absolute path is "+znode.QuotaRoot+node+"/"+znode.QuotaLimits+"\n")
	for _, each := range []struct{ what, name string }{{"quota", znode.QuotaLimits}, {"stat", znode.QuotaStats}} {
		q, err := s.quota(node, each.name)
		if errors.Is(err, zk.ErrNoNode) {
			s.say(s.a.stderr, "quota for "+node+" does not exist.\n")
			return nil
		}
		if err != nil {
			return err
		}
		s.say(s.a.stdout, fmt.Sprintf("Output %s for %s %s\n", each.what, node, q))
	}
	return nil
}

// deleteQuota takes one limit back, or without an option the whole quota, and the nodes above that have no other below.
func (s *zookeeperShell) deleteQuota(args []string) error {
	node, option := args[len(args)-1], ""
	if len(args) == 2 {
		option = args[0]
	}
	there, err := s.tree.Exists(path.Join(znode.QuotaRoot, node, znode.QuotaLimits))
	switch {
	case err != nil:
		return err
	case !there:
		s.say(s.a.stdout, "Quota does not exist for "+node+"\n")
		return nil
	case option == "-n":
		return s.changeQuota(node, func(limit *znode.Amount) { limit.Nodes = -1 })
	case option == "-b":
		return s.changeQuota(node, func(limit *znode.Amount) { limit.Bytes = -1 })
	case option != "":
		return nil
	}
	at := path.Join(znode.QuotaRoot, node)
	names, err := s.tree.Children(at)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := s.tree.Conn().Delete(s.tree.Path(path.Join(at, name)), -1); err != nil {
			return err
		}
	}
	for ; at != znode.QuotaRoot; at = path.Dir(at) {
		if names, err := s.tree.Children(at); err != nil || len(names) > 0 {
			return err
		}
		if err := s.tree.Conn().Delete(s.tree.Path(at), -1); err != nil {
			return err
		}
	}
	return nil
}
