package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"moldau/internal/api"
	"moldau/internal/kafka"
	"moldau/internal/metrics"
	"moldau/internal/quorum"
	"moldau/internal/server"
	"moldau/internal/storage"
)

// belong returns the cluster that this node is one of, and its first voters if the metadata log has yet to begin. A node that
// belongs to none forms one with the controllers that it is told of, joins theirs, or is a cluster by itself.
func (n *Node) belong(ctx context.Context, home *storage.Directory) (place quorum.Formed, err error) {
	self := quorum.Voter{ID: n.cfg.ID, DirID: home.ID(), Endpoints: n.controllerEndpoints()}
	id, formatted := n.store.ClusterID()
	switch {
	case formatted && n.cfg.ClusterID != "" && n.cfg.ClusterID != id:
		return place, &dataError{fmt.Errorf("the data in %v belongs to cluster %s, and cluster.id is %s: point log.dirs to other folders, or drop cluster.id", n.cfg.Storage.Dirs, id, n.cfg.ClusterID)}
	case n.alone():
		place = quorum.Formed{ClusterID: cmp.Or(id, n.cfg.ClusterID, kafka.NewUUID().String()), Voters: []quorum.Voter{self}}
	case formatted && (home.Used() || quorum.HasLog(n.o.FS, home.Path())):
		place.ClusterID = id // it knows its voters, or learns them from those it finds
	default: // formatted by a tool at most, which knows of a cluster id and of no other node
		if place, err = n.form(ctx, home, cmp.Or(id, n.cfg.ClusterID)); err != nil {
			return place, err
		}
	}
	// Also for directories that were added to a formatted node.
	if err := n.store.Format(place.ClusterID); err != nil {
		return place, &dataError{err}
	}
	return place, nil
}

// alone tells whether the configuration names no controller but this one.
func (n *Node) alone() bool {
	v := n.cfg.Quorum.Voters
	return len(n.controllers()) == 0 || len(v) == 1 && v[0].ID == n.cfg.ID
}

// form finds or forms the cluster, while others who look for it are told who this node is.
func (n *Node) form(ctx context.Context, home *storage.Directory, clusterID string) (quorum.Formed, error) {
	if err := n.store.Claim(); err != nil {
		return quorum.Formed{}, &dataError{err}
	}
	o := quorum.FormOptions{
		FS: n.o.FS, Dir: home.Path(), ClusterID: clusterID, NodeID: n.cfg.ID, DirID: home.ID(),
		Endpoints: n.controllerEndpoints(), CanVote: n.cfg.Roles.Controller, Dial: n.o.Dial, Now: n.o.Now, Logger: n.o.Logger,
	}
	for _, v := range n.cfg.Quorum.Voters {
		o.Voters = append(o.Voters, quorum.Listed{ID: v.ID, Address: v.Address.String()})
	}
	for _, a := range n.cfg.Quorum.Bootstrap {
		o.Bootstrap = append(o.Bootstrap, a.String())
	}
	stop := n.introduce(o.Answer)
	formed, err := quorum.Form(ctx, o)
	return formed, errors.Join(err, stop())
}

// introduce tells who asks on the controllers' listeners what this node is, until stop is called, which takes the ports again
// for the node's own server.
func (n *Node) introduce(answer func() []byte) (stop func() error) {
	s := server.New(server.Options{
		Routes: api.FormingRoutes(answer), Limits: n.limits(), Logger: n.o.Logger, Now: n.o.Now,
		Metrics: metrics.NewSet(), // the node's own server counts from when there is a node
	})
	var serving sync.WaitGroup
	for _, l := range n.listeners {
		if l.Controller && l.purpose == forKafka {
			serving.Go(func() { _ = s.Serve(l.ln, server.Listener{Name: l.Name, Kind: server.Controller, Protected: true}) })
		}
	}
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = s.Stop(ctx)
		serving.Wait()
		return n.bindAgain()
	}
}
